# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CACHE  := $(CURDIR)/.cache

# Compiled kernels are cached inside the checkout; waiting threads yield their core.
export NUMBA_CACHE_DIR := $(CACHE)/numba
export OMP_WAIT_POLICY := PASSIVE

.PHONY: demo test lint bench docs clean

$(VENV)/.base: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -e ".[geo]"
	touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/python -m pip install -q -e ".[dev]"
	touch $@

$(VENV)/.bench: $(VENV)/.dev benchmarks/requirements.txt
	$(BIN)/python -m pip install -q -r benchmarks/requirements.txt
	touch $@

demo: $(VENV)/.base          ## a virtual species from records and rasters to map and report
	$(BIN)/maxent demo -o out/demo

test: $(VENV)/.dev           ## the whole suite
	$(BIN)/python -m pytest -n 2 --dist loadscope

lint: $(VENV)/.dev           ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/.bench        ## beside the peers, one run; csv in benchmarks/results
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.readme

docs: $(VENV)/.dev           ## html in docs/_build, warnings are errors
	$(BIN)/sphinx-build -W -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf $(VENV) .cache docs/_build out build dist
