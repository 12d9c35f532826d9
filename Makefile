# Every target makes .venv at the project's root if it is missing and installs what it needs from constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e

.PHONY: demo test check tables results mutants bench fuzz format clean

demo: .venv/.demo
	$(BIN)/paredown demo

test: check
	$(BIN)/python -m pytest -n auto

check: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --warnings

# Whether the tests notice changes to what decides what a user is told or keeps; an hour or so. GROUPS="laws streamed" for some.
mutants: .venv/.mutants
	$(BIN)/python tests/mutation.py $(GROUPS)

bench: .venv/.bench
	for script in benchmarks/[!_]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# Seconds for each reader of damaged files, and for each command that is killed.
SECONDS ?= 60
fuzz: .venv/.dev
	for script in fuzz/[!_]*.py; do grep -q __main__ $$script || continue; \
		echo "== $$script"; $(BIN)/python $$script --seconds $(SECONDS) || exit 1; done

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The tables in README and docs that come from the registries.
tables: .venv/.dev
	$(BIN)/python docs/tables.py

# The verdicts, numbers and pictures in docs/results.md, from the folder of a run of `paredown reproduce`.
RUN ?= reproduced
results: .venv/.dev
	$(BIN)/python docs/results.py $(RUN)

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.%: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) '.[$*]'
	touch $@

clean:
	rm -rf .venv fuzz/failures .pytest_cache .ruff_cache .hypothesis build dist
