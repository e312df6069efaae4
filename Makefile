# Palisade. `make` lists the targets.
.DEFAULT_GOAL := help
.PHONY: help setup demo check test test-unit test-faults bench lock dashboards clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCKS := deploy/requirements
# uv installs in seconds what takes pip minutes; pip does as well where there is no uv. Compiled once, every start is faster.
UV := $(shell command -v uv 2>/dev/null)
COMPILE := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet
SECONDS ?=
# Bytecode of our own modules is worth keeping between runs, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.ready ## Create .venv from the lock file, with the palisade command in it

demo: setup ## Run the whole product on this machine (SECONDS=90 to stop by itself)
	@$(BIN)/palisade demo $(if $(SECONDS),--seconds $(SECONDS))

check: $(VENV)/.ready-dev ## Lint, types, import contracts, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/palisade alerts check
	$(BIN)/palisade dashboards build --check

test: check test-unit ## Run every test, with real servers
	$(BIN)/pytest tests/integration

test-unit: $(VENV)/.ready-dev ## Run the tests that need no server
	$(BIN)/pytest -n 2 tests/unit tests/architecture

test-faults: $(VENV)/.ready-dev ## Inject every fault as often as the promise says (REPEATS=2 for fewer)
	PALISADE_FAULT_REPEATS=$(or $(REPEATS),full) $(BIN)/pytest tests/faults $(wildcard tests/integration/test_faults_*.py)

bench: $(VENV)/.ready-dev ## Measure what a batch costs (QUICK=1 for under three minutes)
	PYTHONPATH=tests $(BIN)/python -m bench.run $(if $(QUICK),--quick)

dashboards: setup ## Rebuild the committed dashboards
	$(BIN)/palisade dashboards build

lock: ## Write the lock files anew from pyproject.toml (needs uv; UPGRADE=1 for newer versions)
	$(COMPILE) --extra dev $(if $(UPGRADE),--upgrade) -o $(LOCKS)/dev.txt
	for group in ship stream dashboards all; do \
	  $(COMPILE) --extra $$group -c $(LOCKS)/dev.txt -o $(LOCKS)/$$group.txt || exit 1; \
	done

clean: ## Remove the environment and all state
	rm -rf $(VENV) var

$(VENV)/.ready: $(LOCKS)/all.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: install it, or run make PYTHON=python3.11" >&2; exit 1; }
ifeq ($(UV),)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCKS)/all.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
else
	@test -x $(BIN)/python || $(UV) venv --quiet --seed --python "$$(command -v $(PYTHON))" $(VENV)
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r $(LOCKS)/all.txt
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --no-deps --no-build-isolation --editable .
endif
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready $(LOCKS)/dev.txt
ifeq ($(UV),)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCKS)/dev.txt
else
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r $(LOCKS)/dev.txt
endif
	@touch $@
