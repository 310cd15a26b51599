# Every target installs what it needs into .venv. The machine must have Python 3.11 or later and make.
PYTHON ?= python3
BIN := .venv/bin

# Some machines forbid Python to keep compiled modules. Then every command would compile them again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow packages programs browser guide chromium java postgres compiler lint bench figures \
	docs wheel node clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

demo: .venv/all ## Ask one sensitive question under three trust models, and save headcount-demo.png
	$(BIN)/headcount demo

# What the jobs of a step need is made by the step before, since each of them would make it. Some
# tests wait for servers and browsers, so there are more workers than cores.
test: ## Check and test everything that is quick (under 10 minutes)
	$(MAKE) --no-print-directory --jobs=2 --output-sync packages programs
	$(MAKE) --no-print-directory --jobs=2 --output-sync lint browser guide
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow"

test-slow: .venv/dev browser guide chromium java postgres compiler ## Run the long tests as well
	$(BIN)/python -m pytest -n 3 --dist worksteal

# pip works on one environment, and apt on one system, so neither can do two things at once.
packages:
	@MAKEFLAGS= $(MAKE) --no-print-directory .venv/dev .venv/all

programs:
	@MAKEFLAGS= $(MAKE) --no-print-directory chromium java postgres browser/node_modules

browser: browser/node_modules ## Check the client in TypeScript, and build the pages that a shuffler serves
	cd browser && npm run --silent check && npm run --silent build

guide: .venv/all browser/node_modules ## Build the guide, an interactive page
	cd browser && npm run --silent guide

wheel: browser guide ## Build a wheel with all pages into dist/, for example for the files in deploy/
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

browser/node_modules: browser/package.json | node
	npm install --silent --no-audit --no-fund --no-package-lock --prefix browser
	@touch $@

# The tests of pages drive a real browser.
chromium:
	@command -v chromium >/dev/null || \
	{ test "$$(id -u)" = 0 && apt-get update --quiet && \
	apt-get install --yes --quiet --no-install-recommends chromium; } || \
	{ echo "The tests need a browser: install Debian's package 'chromium'" >&2; exit 1; }

# The tests of Spark start a real Spark, which needs Java.
java:
	@command -v java >/dev/null || \
	{ test "$$(id -u)" = 0 && apt-get update --quiet && \
	apt-get install --yes --quiet --no-install-recommends default-jre-headless; } || \
	{ echo "The tests need Java 17 or later: install Debian's package 'default-jre-headless'" >&2; \
	exit 1; }

lint: .venv/dev ## Check style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The tests start a real PostgreSQL server for ledgers. Only its programs must be installed.
postgres:
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
	{ test "$$(id -u)" = 0 && apt-get update --quiet && \
	DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet postgresql; } || \
	{ echo "The tests need a PostgreSQL server: install Debian's package 'postgresql'," \
	"or have initdb and pg_ctl in PATH" >&2; exit 1; }

# The fuzzer uses a small library in C to make system calls fail.
compiler:
	@command -v cc >/dev/null || \
	{ test "$$(id -u)" = 0 && apt-get update --quiet && \
	apt-get install --yes --quiet --no-install-recommends gcc libc6-dev; } || \
	{ echo "The slow tests need a C compiler: install Debian's packages 'gcc' and 'libc6-dev'" >&2; \
	exit 1; }

bench: .venv/bench browser chromium ## Compare speed with peers, and write docs/benchmarks.md
	$(BIN)/python -m benchmarks

figures: .venv/dev ## Simulate how the errors of densities fall, and write docs/densities.md
	$(BIN)/python -m benchmarks.densities

docs: .venv/docs guide ## Build the documentation into site/
	$(BIN)/python docs/generate.py
	$(BIN)/zensical build --strict --clean
	$(BIN)/python docs/typeset.py

# The pages are built in Node. Formulas are typeset when pages are built, by KaTeX, which runs in Node.
node:
	@command -v npm >/dev/null || \
	{ test "$$(id -u)" = 0 && apt-get update --quiet && \
	apt-get install --yes --quiet --no-install-recommends nodejs npm; } || \
	{ echo "The documentation and the pages need Node 18 or later: install Debian's packages 'nodejs' and" \
	"'npm'" >&2; exit 1; }

clean: ## Remove everything that the targets made
	rm -rf .venv .cache build dist site headcount-demo.png .*_cache .hypothesis browser/node_modules \
	src/headcount/collect/pages src/headcount/guide/pages browser/guide/data.json

.venv/%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@
