"""Contexts of specification files: known before a decision, and from nothing that comes later."""

import datetime
import itertools

import numpy as np
import pytest
from test_spec import changed

from postgrad import errors
from postgrad.spec.contexts.calendar import calendar_features
from postgrad.spec.contexts.column_memory import ColumnMemory
from postgrad.spec.contexts.daily_contexts import daily_contexts
from postgrad.spec.reading.normal_form import differing_keys, normal_form
from postgrad.spec.specification import parse
from postgrad.spec.tables.row_reader import dated_rows, demand_table

WEATHER = {"kind": "category", "levels": 3}
CONTEXT = {
    "calendar": ["weekday", "month", "day", "year_share"],
    "holidays": [datetime.date(2024, 12, 25), "2024-12-26"],
    "columns": {
        "promo": {"kind": "number", "scale": [0, 1], "column": {"a": "promo_a", "b": "promo_b"}},
        "weather": WEATHER,
        "rain": {"kind": "number"},
    },
    "first_rows": 3,
}
DATA = {"date": "date", "items": ["a", "b"], "value": None}
COLUMNS = ("date", "a", "b", "promo_a", "promo_b", "weather", "rain")
ROWS = [
    dict(zip(COLUMNS, row, strict=True))
    for row in [
        ("2024-12-23", 3, 4, 0, 1, "dry", 1.0),
        ("2024-12-24", 4, 5, 1, 1, "wet", 2.0),
        ("2024-12-25", 5, 6, 0, 0, "dry", 6.0),
        ("2024-12-26", 6, 7, 1, 0, "ice", 4.0),
        ("2024-12-27", 7, 8, 0, 1, "wet", 400.0),
    ]
]


def specification(context=CONTEXT, data=DATA, **columns):
    merged = context | {"columns": context.get("columns", {}) | columns}
    kept = {key: value for key, value in data.items() if value is not None}
    return parse(changed(context=merged) | {"data": kept})


def contexts(rows=ROWS, spec=None, *, burn_in=5, delay=0, joint=False):
    spec = specification() if spec is None else spec
    table = demand_table(dated_rows(rows, spec.data, None, spec.context))
    return daily_contexts(
        spec.context,
        table.cells,
        ~np.isnan(table.demand),
        np.zeros(len(table.dates), int),
        table.dates,
        burn_in=burn_in,
        delay=delay,
        joint=joint,
    )


def replaced(rows, day, **cells):
    return [row | cells if i == day else row for i, row in enumerate(rows)]


def test_features_of_the_calendar():
    table = specification().context
    eve = datetime.datetime(2024, 12, 25)
    names = {"weekday": 2, "month": 11, "day": 9125.0, "year_share": 359 / 366, "holiday": 1}
    assert calendar_features(eve, table.calendar, table.holidays) == pytest.approx(names)
    last = datetime.datetime(9999, 12, 31, 12)
    assert calendar_features(last, ["year_share"], None) == {"year_share": 364.5 / 365}
    assert [feature.levels for feature in table.features] == [7, 12, None, None, 2, None, 3, None]


def test_numbers_follow_from_columns():
    found = contexts()
    assert found.known.all()
    assert not found.left_out
    z = found.context
    np.testing.assert_array_equal(z["weekday"][:, 0], [0, 1, 2, 3, 4])
    np.testing.assert_array_equal(z["holiday"][:, 1], [0, 0, 1, 1, 0])
    np.testing.assert_array_equal(z["promo"], [[0, 1], [1, 1], [0, 0], [1, 0], [0, 1]])
    np.testing.assert_array_equal(z["weather"][:, 0], [0, 1, 0, 2, 1])  # in order of appearance
    first = np.asarray([1.0, 2.0, 6.0])
    scaled = (4.0 - first.mean()) / first.std()
    # Nothing before three rows are known; then their scale; at most five deviations.
    np.testing.assert_allclose(z["rain"][:, 0], [0, 0, 0, scaled, 5])
    assert z["weather"].dtype == z["weekday"].dtype == np.int64


def test_items_that_are_decided_together_have_arrays():
    z = contexts(joint=True).context
    assert z["promo"].shape == z["rain"].shape == z["weekday"].shape == (5, 1, 2)
    np.testing.assert_array_equal(z["promo"][0, 0], [0, 1])
    np.testing.assert_array_equal(z["weather"][1, 0], [1, 1])


def test_contexts_differ_from_item_to_item_on_one_day():
    data = {"date": "date", "value": "sold", "item": "store"}
    context = {"columns": {"promo": {"kind": "number", "scale": [0, 1]}}}
    spec = specification(context, data)
    stores = itertools.product(["2024-01-01", "2024-01-02"], ["north", "south"])
    rows = [
        {"date": day, "store": store, "sold": 3, "promo": int(store == "north")}
        for day, store in stores
    ]
    np.testing.assert_array_equal(contexts(rows, spec).context["promo"], [[1, 0], [1, 0]])
    again = [*rows, rows[0] | {"promo": 0, "id": 9}]
    rows = [row | {"id": row.get("id", i)} for i, row in enumerate(again)]
    spec = specification(context, data | {"id": "id"})
    with pytest.raises(errors.DataError, match=r"'north' has two values of 'promo' on 2024-01-01"):
        contexts(rows, spec)


@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize("day", [2, 3])
def test_later_rows_change_no_earlier_context(day, delay):
    """The planted leaks: later columns and demands that are others, empty or in another order."""
    before = contexts(delay=delay).context
    later = ROWS[:day], ROWS[day:]
    others = [
        [*later[0], *({**row, "rain": -7.0, "weather": "hail", "a": 99} for row in later[1])],
        [*later[0], *({**row, "rain": "", "b": ""} for row in later[1])],
        [
            *later[0],
            *(
                {**row, "rain": other["rain"], "weather": other["weather"]}
                for row, other in zip(later[1], later[1][::-1], strict=True)
            ),
        ],
    ]
    for rows in others:
        now = contexts(rows, delay=delay).context
        for name, numbers in before.items():
            np.testing.assert_array_equal(now[name][:day], numbers[:day])


def test_rows_that_are_learned_from_late_scale_later():
    assert np.flatnonzero(contexts(delay=0).context["rain"][:, 0]).tolist() == [3, 4]
    assert np.flatnonzero(contexts(delay=1).context["rain"][:, 0]).tolist() == [4]


def test_levels_have_different_numbers_before_they_are_learned_from():
    np.testing.assert_array_equal(contexts(delay=3).context["weather"][:, 0], [0, 1, 0, 2, 1])


def test_rows_with_a_missing_value_are_left_out_and_counted():
    rows = replaced(replaced(ROWS, 1, rain=""), 3, promo_b=None)
    found = contexts(rows)
    assert found.left_out == {"rain": 2, "promo_b": 1}
    assert not found.known[1].any()
    assert found.known[3].tolist() == [True, False]
    filled = specification(rain={"kind": "number", "missing": 6.0, "scale": [2, 4]})
    found = contexts(replaced(ROWS, 1, rain=""), filled)
    assert found.known.all()
    assert not found.left_out
    np.testing.assert_array_equal(found.context["rain"][1], [1.0, 1.0])


def test_what_is_filled_in_says_nothing_of_the_scale():
    spec = specification(rain={"kind": "number", "missing": 600.0})
    z = contexts(replaced(ROWS, 0, rain=""), spec).context["rain"][:, 0]
    np.testing.assert_allclose(z, [0, 0, 0, 0, 5])  # the third of the first rows is that of day 3


def test_a_level_never_seen():
    with pytest.raises(errors.DataError, match=r"2024-12-26: the level 'ice' of 'weather' was nev"):
        contexts(burn_in=3)
    with pytest.raises(errors.DataError, match="the level 'wet'"):  # seen, and not learned from
        contexts(ROWS[:1] + ROWS[1:2] + replaced(ROWS, 2, weather="wet")[2:], burn_in=2, delay=1)
    other = specification(weather=WEATHER | {"other": True})
    assert contexts(spec=other, burn_in=0).context["weather"][3, 0] == 2
    listed = specification(weather=WEATHER | {"levels": ["wet", "dry"]})
    with pytest.raises(errors.DataError, match="'weather' must be among 'wet', 'dry', got 'ice'"):
        contexts(spec=listed)
    listed = specification(weather=WEATHER | {"levels": ["wet", "dry"], "other": True})
    assert contexts(spec=listed, burn_in=0).context["weather"][:, 0].tolist() == [1, 0, 1, 2, 0]
    assert dict(listed.context.features)["weather"] == 3


def test_more_levels_than_there_is_room_for():
    narrow = specification(weather=WEATHER | {"levels": 2})
    with pytest.raises(errors.DataError, match="'weather' has more than 2 levels, 'ice' is one"):
        contexts(spec=narrow)
    narrow = specification(weather=WEATHER | {"levels": 2, "other": True})
    assert contexts(spec=narrow, burn_in=0).context["weather"][:, 0].tolist() == [0, 1, 0, 2, 1]


def test_what_was_seen_is_kept_in_json_types():
    spec = specification()
    rows = list(dated_rows(ROWS, spec.data, None, spec.context))
    memory = ColumnMemory()
    for row in rows[:3]:
        memory = memory.after(spec.context, [row.contexts["a"]])
    assert ColumnMemory.from_json(memory.to_json()) == memory
    assert memory.levels == {"weather": ("dry", "wet")}
    after = memory.after(spec.context, [rows[4].contexts["a"]])
    assert after is memory  # the first rows are over, and the level is known


def test_to_decide_with_a_missing_value_names_the_column():
    spec = specification(weather=WEATHER | {"other": True})
    (row,) = dated_rows(replaced(ROWS, 0, rain="")[:1], spec.data, None, spec.context)
    reason = ColumnMemory().unseen(spec.context, [row.contexts["a"]])
    assert "'rain' is empty; to decide, it must be known" in reason
    with pytest.raises(errors.DataError, match="'rain' is empty"):
        ColumnMemory().context(spec.context, [row.contexts["a"]], False)


def test_a_date_is_needed_for_the_calendar():
    spec = specification()
    with pytest.raises(errors.DataError, match="row 1: 'soon' is no date such as 2026-01-31"):
        contexts([ROWS[0] | {"date": "soon"}], spec)
    with pytest.raises(errors.DataError, match="row 1: there is no column 'promo_a'"):
        contexts([{"date": "2024-01-01", "a": 1, "b": 2}], spec)


WRONG = {
    "no date": (
        {"data": DATA | {"date": None}},
        "context: features of the calendar are read off the date; give data.date",
    ),
    "demand": (
        {"rain": {"kind": "number", "column": "b"}},
        "context.columns.rain: the column 'b' holds demand, which is not known before",
    ),
    "an item less": (
        {"rain": {"kind": "number", "column": {"a": "rain"}}},
        "context.columns.rain: a column for each item goes with data.items, all of them",
    ),
    "a taken name": (
        {"month": {"kind": "number"}},
        "context: columns: 'month' is a feature of the calendar; take another",
    ),
    "no feature": (
        {"context": CONTEXT | {"calendar": ["week"]}},
        "context.calendar[0]: must be 'weekday', 'month', 'day' or 'year_share', got 'week'",
    ),
    "nothing": ({"context": {}}, "context: give `calendar`, `holidays` or `columns`"),
    "no holiday": (
        {"context": {"holidays": ["Christmas"]}},
        "context.holidays[0]: Invalid isoformat string: 'Christmas'",
    ),
    "no scale": (
        {"rain": {"kind": "number", "scale": [0, 0]}},
        "context.columns.rain: `scale` must be [mean, deviation > 0], got [0.0, 0.0]",
    ),
    "levels": (
        {"weather": WEATHER | {"levels": ["wet"], "missing": "dry"}},
        "context.columns.weather: `missing` must be among `levels`, got 'dry'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_its_place(case):
    changes, message = WRONG[case]
    with pytest.raises(errors.SpecificationError) as error:
        specification(**changes)
    assert message in str(error.value)


def test_a_context_is_part_of_what_a_file_was_made_from():
    kept, new = normal_form(specification()), specification(rain={"kind": "number", "missing": 1})
    assert not differing_keys(kept, specification())
    assert differing_keys(kept, new) == ["context.columns.rain.missing"]
