# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON  ?= python3
VENV    := .venv
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN     := $(VENV)/$(SCRIPTS)
CACHE   := $(CURDIR)/.cache
WORKERS ?= 2
HOURS   ?= 24
PART    ?= all

# every public extra, and the tools of [dependency-groups]; pip 25.1 is the first that knows these
PIP     := pip>=25.1
DEV     := -e ".[app,dask,geo,plot,torch,transformers]" --group dev

# each test file stays with one worker; those with slow tests go first (tests/conftest.py)
PYTEST  := -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder

# Compiled kernels are cached inside the checkout; waiting threads yield their core.
export NUMBA_CACHE_DIR := $(CACHE)/numba
export OMP_WAIT_POLICY := PASSIVE
# empty: where it is set, every process of the tests would parse the package and its tests again
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo demo-kinds test test-fast slow test-lowest test-newest test-elsewhere test-r test-qgis qgis \
	lint lock release bench fuzz docs page clean

$(VENV)/.base: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -e ".[app]"
	touch $@

# first the locked files by their hashes, then what the lock leaves out: torch and this checkout
$(VENV)/.dev: $(VENV)/.base requirements/lock.txt requirements/dev-constraints.txt
	$(BIN)/python -m pip install -q -U "$(PIP)"
	$(BIN)/python -m pip install -q --require-hashes --no-deps -r requirements/lock.txt
	$(BIN)/python -m pip install -q -c requirements/dev-constraints.txt $(DEV)
	touch $@

$(VENV)-lowest/.dev: pyproject.toml requirements/lowest.py
	test -x $(VENV)-lowest/$(SCRIPTS)/python || $(PYTHON) -m venv $(VENV)-lowest
	mkdir -p $(CACHE)
	$(VENV)-lowest/$(SCRIPTS)/python requirements/lowest.py > $(CACHE)/lowest.txt
	$(VENV)-lowest/$(SCRIPTS)/python -m pip install -q -U "$(PIP)"
	$(VENV)-lowest/$(SCRIPTS)/python -m pip install -q -c $(CACHE)/lowest.txt $(DEV)
	touch $@

$(VENV)-newest/.dev: pyproject.toml requirements/dev-constraints.txt
	test -x $(VENV)-newest/$(SCRIPTS)/python || $(PYTHON) -m venv $(VENV)-newest
	$(VENV)-newest/$(SCRIPTS)/python -m pip install -q -U "$(PIP)"
	$(VENV)-newest/$(SCRIPTS)/python -m pip install -q -U -c requirements/dev-constraints.txt $(DEV)
	touch $@

$(VENV)-release/.tools: pyproject.toml
	test -x $(VENV)-release/$(SCRIPTS)/python || $(PYTHON) -m venv $(VENV)-release
	$(VENV)-release/$(SCRIPTS)/python -m pip install -q -U "$(PIP)"
	$(VENV)-release/$(SCRIPTS)/python -m pip install -q --group release
	touch $@

# a peer that cannot be built is listed as missing by the benchmarks
$(VENV)/.bench: $(VENV)/.dev benchmarks/requirements.txt benchmarks/requirements-source.txt
	$(BIN)/python -m pip install -q -r benchmarks/requirements.txt
	-$(BIN)/python -m pip install -q --no-build-isolation -r benchmarks/requirements-source.txt
	touch $@

demo: $(VENV)/.base          ## a virtual species from records and rasters to map and report
	$(BIN)/maxent demo -o out/demo

demo-kinds: $(VENV)/.base    ## the same from presences, a survey with absences and counts
	$(BIN)/maxent demo --kinds -o out/demo-kinds

# what the page is built and checked with; its tests say so where there is no npm
web/node_modules: web/package-lock.json
	if command -v npm >/dev/null; then cd web && npm ci --no-audit --no-fund --loglevel=error; fi
	if test -d $@; then touch $@; fi

test: $(VENV)/.dev web/node_modules  ## the whole suite
	$(BIN)/python $(PYTEST)

test-fast: $(VENV)/.dev web/node_modules  ## every test that is not slow, with a few of its parameter sets
	$(BIN)/python $(PYTEST) -m "not slow" --few 3

slow: $(VENV)/.dev web/node_modules  ## the whole suite; tests/slow.txt learns which tests take long
	$(BIN)/python $(PYTEST) --write-slow

# what old packages say of each other's future is not ours to mend
test-lowest: $(VENV)-lowest/.dev  ## the whole suite with the lowest versions pyproject.toml allows
	NUMBA_CACHE_DIR=$(CACHE)/numba-lowest $(VENV)-lowest/$(SCRIPTS)/python $(PYTEST) \
		-W ignore::DeprecationWarning -W ignore::FutureWarning

test-elsewhere: $(VENV)/.dev web/node_modules  ## fast tests and gallery as other processors round
	$(BIN)/python tests/elsewhere.py --workers $(WORKERS)

test-r: $(VENV)/.base        ## the R package built, checked and tested, its page run; packages from apt-get if root
	MAXENT_PYTHON=$(CURDIR)/$(BIN)/python bash r/check.sh

test-newest: $(VENV)-newest/.dev web/node_modules  ## the whole suite with the newest versions there are
	NUMBA_CACHE_DIR=$(CACHE)/numba-newest $(VENV)-newest/$(SCRIPTS)/python $(PYTEST)

lint: $(VENV)/.dev           ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# of the versions in the file, those that still fit stay: `make lock UPGRADE=--upgrade` moves all
lock: $(VENV)-release/.tools ## requirements/lock.txt from pyproject.toml, for all systems and Pythons
	$(VENV)-release/$(SCRIPTS)/python requirements/lock.py $(UPGRADE)

release: $(VENV)-release/.tools  ## sdist and wheel in dist, checked, installed and tried; no upload
	$(VENV)-release/$(SCRIPTS)/python packaging/release.py

bench: $(VENV)/.bench        ## beside the peers, one run; csv in benchmarks/results
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.readme

fuzz: $(VENV)/.dev           ## faults for HOURS, PART=all, files or mathematics; harm in out/faults.log
	$(BIN)/python -m benchmarks.faults --part $(PART) --hours $(HOURS) --processes $(WORKERS)

page: web/node_modules       ## the page of `maxent app` and the map of reports, from web/
	cd web && npm run -s check && npm run -s build

docs: $(VENV)/.dev           ## html in docs/_build, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -j 2 -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

qgis:                        ## the plugin for QGIS as a zip in dist
	$(PYTHON) qgis/package.py

test-qgis: $(VENV)/.base     ## the plugin in the QGIS of this machine, which root gets from apt-get
	qgis/test.sh $(BIN)/python

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-newest $(VENV)-release .cache docs/_build docs/api/classes docs/auto_gallery out build dist
