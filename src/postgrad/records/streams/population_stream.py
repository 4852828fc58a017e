"""The streams of a file that are populations: what they are called, and which versions were lent.

A population's stream has a batch for each batch of a member, in the order of their commits. Its
version is how many it has.
"""

import json

from postgrad.store import Store

_PREFIX = "population:"


def population_stream(name: str) -> str:
    """The name of the stream of a population."""
    return _PREFIX + name


def is_population(stream: str) -> bool:
    """Whether a stream is a population, by its name."""
    return stream.startswith(_PREFIX)


def contribution_id(member: str, stage: int) -> str:
    """The id, in the population's stream, of what a stage of a member has contributed."""
    return json.dumps([member, stage], ensure_ascii=False)


def version_used(population: Store, member: str, stage: int) -> int | None:
    """The version of the population that a stage of a member used; None if there was no stage.

    Raises:
        StoreError: If the population's row is damaged.
    """
    found = population.find(contribution_id(member, stage))
    return None if found is None else found[0] - 1
