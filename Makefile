# Everything runs from .venv without activation, and every path is relative: any folder will do.
SHELL := /bin/sh
.DEFAULT_GOAL := help

PYTHON ?= python3
WORKERS ?= 2
SEEDS ?= 0-10000
KILLS ?= 20
MINUTES ?= 60
TALLY := build/tally.jsonl
UV := uv==0.13.7

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
# Holds the folder the install was made in: the editable install knows it by its full path.
STAMP := $(VENV)/.installed

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: install
install: $(STAMP) ## Make .venv from requirements-dev.txt (PYTHON=python3.12 picks the interpreter)
	@echo "$(VENV) is ready"

.PHONY: test
test: $(STAMP) ## Run the tests, without the slow ones (ARGS="-k name" is handed to pytest)
	@$(PY) -m pytest -q -n $(WORKERS) --dist loadgroup -m "not slow" $(ARGS)

.PHONY: test-all
test-all: $(STAMP) ## Run every test
	@$(PY) -m pytest -q -n $(WORKERS) --dist loadgroup $(ARGS)

.PHONY: coverage
coverage: $(STAMP) ## Measure branch coverage by the fast tests without Spark; fails under the floor in pyproject.toml
	@$(PY) -m pytest -q -n $(WORKERS) --dist loadgroup -m "not slow" --cov --cov-report=term:skip-covered $(ARGS) \
		tests/channel tests/session tests/tables --ignore tests/session/test_differential.py \
		--ignore tests/tables/test_simulation.py

.PHONY: simulate
simulate: $(STAMP) ## Run the commit protocol under 10,000 seeds (SEEDS=0-500, or one of them to print its steps)
	@PYTHONPATH=tests $(PY) -m support.simulation $(SEEDS)

.PHONY: differential
differential: SEEDS = 0-2000
differential: $(STAMP) ## Compare 20,000 random queries with plain DataFusion (SEEDS=0-100, or one of them to see it small)
	@PYTHONPATH=tests $(PY) -m support.differential $(SEEDS)

.PHONY: crash
crash: $(STAMP) ## Kill 20 Spark drivers at random moments, and count rows (KILLS=200; SEED=1 repeats the moments)
	@$(PY) tests/faults/crash.py $(KILLS) $(if $(SEED),--seed $(SEED))

.PHONY: long-run
long-run: $(STAMP) ## Leave `headrace run` alone for an hour with outages, full disks and a kill (MINUTES=10; SEED=1)
	@$(PY) tests/faults/long_run.py $(MINUTES) $(if $(SEED),--seed $(SEED))

.PHONY: matrix
matrix: $(STAMP) ## Make every fault, and write what was counted into docs/guarantees.md (more than an hour)
	@mkdir -p $(dir $(TALLY)) && rm -f $(TALLY)
	@$(PY) -m pytest -q -n $(WORKERS) --dist loadgroup --tally $(TALLY) tests/faults tests/tables
	@$(PY) tests/faults/crash.py $(KILLS) $(if $(SEED),--seed $(SEED)) --tally $(TALLY)
	@PYTHONPATH=tests $(PY) -m support.crash_matrix $(TALLY) docs/guarantees.md

.PHONY: lint
lint: $(STAMP) ## Check style, formatting, types, imports, spelling, the word list and links
	@ok=true; \
	$(PY) -m ruff check -q . || ok=false; \
	$(PY) -m ruff format --check . || ok=false; \
	$(PY) -m mypy || ok=false; \
	$(VENV)/bin/lint-imports --no-logo --no-cache || ok=false; \
	$(VENV)/bin/codespell || ok=false; \
	$(PY) tools/words.py || ok=false; \
	$(PY) tools/links.py || ok=false; \
	$$ok

.PHONY: format
format: $(STAMP) ## Format the code and fix what can be fixed
	@$(PY) -m ruff check -q --fix-only .
	@$(PY) -m ruff format .

.PHONY: hooks
hooks: $(STAMP) ## Have git run the quick checks before a commit, and make lint before a push
	@$(VENV)/bin/pre-commit install --hook-type pre-commit --hook-type pre-push

.PHONY: bench
bench: $(STAMP) ## Run every benchmark, one after the other, and save the results (about a quarter of an hour)
	@failed=; \
	for file in $(filter-out bench/_% bench/peers.py,$(sort $(wildcard bench/*.py))); do \
		echo "== $$file"; $(PY) "$$file" --save || failed="$$failed $$file"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi; \
	echo "make bench-report writes docs/benchmarks.md from the results."

.PHONY: bench-report
bench-report: $(STAMP) ## Write docs/benchmarks.md, its plots and the README's figures from the saved results
	@PYTHONPATH=bench $(PY) -m harness.report

.PHONY: bench-peers
bench-peers: $(STAMP) ## Measure other projects' Spark writers; fetches them from Maven Central, and a PySpark (1 GB)
	@$(PY) bench/peers.py

.PHONY: demo
demo: $(STAMP) ## See a Spark stream killed and restarted, and every row there once (about a minute)
	@$(VENV)/bin/headrace demo

.PHONY: lock
lock: $(PY) ## Write both requirements files again (UPGRADE=1 takes the newest releases allowed)
	@echo "Locking with $(UV)"
	@$(PIP) install -qq --only-binary :all: "$(UV)"
	@for file in requirements requirements-dev; do \
		case $$file in *-dev) more="--extra spark --group dev --constraint requirements.txt" ;; *) more= ;; esac; \
		UV_CUSTOM_COMPILE_COMMAND="make lock" $(PY) -m uv pip compile -q pyproject.toml $$more \
			--universal --python-version 3.11 --generate-hashes --no-annotate --no-emit-index-url \
			--no-emit-find-links $(if $(UPGRADE),--upgrade) --output-file $$file.txt || exit 1; \
	done

.PHONY: clean
clean: ## Remove .venv, caches and build products
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
	@find src tests tools bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "headrace needs Python 3.11 or newer and $(PYTHON) is not that: name one, as in 'make install PYTHON=python3.12'." >&2; \
		exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# A copied or moved checkout would otherwise still import the code of the old one.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

# All is wheels but pyspark, which is published as source only. Its build is not isolated, since pip would then
# download a setuptools that nobody pinned; so the pinned one is there first.
$(STAMP): requirements-dev.txt pyproject.toml | $(PY)
	@echo "Installing requirements-dev.txt and headrace into $(VENV)"
	@sed -n '/^setuptools==/,/[^\\]$$/p' requirements-dev.txt > $(VENV)/build.txt
	@$(PIP) install -qq --require-hashes --only-binary :all: -r $(VENV)/build.txt
	@$(PIP) install -qq --require-hashes --only-binary :all: --no-binary pyspark --no-build-isolation --use-pep517 \
		-r requirements-dev.txt
	@$(PIP) install -qq --no-deps --no-build-isolation -e .
	@printf '%s\n' "$(CURDIR)" > $(STAMP)
