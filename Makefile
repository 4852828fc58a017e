# Two commands do everything, set-up included: `make demo` and `make test`.
# They need Python 3.11 or newer and make; the rest is installed into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-all check bench standing faults clean

demo: $(READY)  ## Reproduce the paper: tables, figures, claims, and results/report.html.
	$(BIN)/postgrad reproduce --out results

test: check  ## Style, types, import layers, laws, and a seeded sample of all that is slow.
	$(PYTEST)

test-all: export POSTGRAD_FAULTS := 48
test-all: check  ## The same with everything that is slow: before each release.
	$(PYTEST) -m ""

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports & layers=$$!; $(BIN)/mypy && wait $$layers

bench: $(READY)  ## Timings against plain NumPy, as ratios within one run.
	$(BIN)/python benchmarks/quadratics.py
	$(BIN)/python benchmarks/newsvendor.py

standing: $(READY)  ## The figures that must never get worse unnoticed, each with its bar.
	$(BIN)/python benchmarks/standing.py

faults: $(READY)  ## Crash points, power losses, I/O faults and kills at full size.
	$(BIN)/python benchmarks/faults.py

# Re-made only when the project's dependencies change.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("postgrad needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) results .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
