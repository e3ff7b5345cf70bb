# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
CACHE   := $(CURDIR)/.cache
WORKERS ?= 2
HOURS   ?= 24

# each test file stays with one worker; those with slow tests go first (tests/conftest.py)
PYTEST  := -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder

# Compiled kernels are cached inside the checkout; waiting threads yield their core.
export NUMBA_CACHE_DIR := $(CACHE)/numba
export OMP_WAIT_POLICY := PASSIVE

.PHONY: demo test test-fast slow test-lowest test-elsewhere lint bench fuzz docs page clean

$(VENV)/.base: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -e ".[app]"
	touch $@

$(VENV)/.dev: $(VENV)/.base requirements/dev-constraints.txt
	$(BIN)/python -m pip install -q -c requirements/dev-constraints.txt -e ".[dev]"
	touch $@

$(VENV)-lowest/.dev: pyproject.toml requirements/lowest.py
	test -x $(VENV)-lowest/bin/python || $(PYTHON) -m venv $(VENV)-lowest
	mkdir -p $(CACHE)
	$(VENV)-lowest/bin/python requirements/lowest.py > $(CACHE)/lowest.txt
	$(VENV)-lowest/bin/python -m pip install -q -c $(CACHE)/lowest.txt -e ".[dev]"
	touch $@

# a peer that cannot be built is listed as missing by the benchmarks
$(VENV)/.bench: $(VENV)/.dev benchmarks/requirements.txt benchmarks/requirements-source.txt
	$(BIN)/python -m pip install -q -r benchmarks/requirements.txt
	-$(BIN)/python -m pip install -q --no-build-isolation -r benchmarks/requirements-source.txt
	touch $@

demo: $(VENV)/.base          ## a virtual species from records and rasters to map and report
	$(BIN)/maxent demo -o out/demo

# what the page is built and checked with; its tests say so where there is no npm
web/node_modules: web/package-lock.json
	if command -v npm >/dev/null; then cd web && npm ci --no-audit --no-fund --loglevel=error; fi
	if test -d $@; then touch $@; fi

test: $(VENV)/.dev web/node_modules  ## the whole suite
	$(BIN)/python $(PYTEST)

test-fast: $(VENV)/.dev web/node_modules  ## every module, without the tests that take long
	$(BIN)/python $(PYTEST) -m "not slow"

slow: $(VENV)/.dev web/node_modules  ## the whole suite; tests/slow.txt learns which tests take long
	$(BIN)/python $(PYTEST) --write-slow

# what old packages say of each other's future is not ours to mend
test-lowest: $(VENV)-lowest/.dev  ## the whole suite with the lowest versions pyproject.toml allows
	NUMBA_CACHE_DIR=$(CACHE)/numba-lowest $(VENV)-lowest/bin/python $(PYTEST) \
		-W ignore::DeprecationWarning -W ignore::FutureWarning

test-elsewhere: $(VENV)/.dev web/node_modules  ## fast tests and gallery as other processors round
	$(BIN)/python tests/elsewhere.py --workers $(WORKERS)

lint: $(VENV)/.dev           ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/.bench        ## beside the peers, one run; csv in benchmarks/results
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.readme

fuzz: $(VENV)/.dev           ## faults of all kinds for HOURS; those that do harm in out/faults.log
	$(BIN)/python -m benchmarks.faults --hours $(HOURS) --processes $(WORKERS)

page: web/node_modules       ## the page of `maxent app` and the map of reports, from web/
	cd web && npm run -s check && npm run -s build

docs: $(VENV)/.dev           ## html in docs/_build, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -j 2 -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf $(VENV) $(VENV)-lowest .cache docs/_build docs/auto_gallery out build dist
