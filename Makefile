# Every target sets up what it needs, in .venv, on a machine with Python 3.11 or later and make.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow java lint bench figures docs clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

demo: .venv/all ## One sensitive question under three trusts; saves headcount-demo.png
	$(BIN)/headcount demo

test: lint java ## Check and test everything that is quick (under 10 minutes)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-slow: .venv/dev java ## Run the long tests as well
	$(BIN)/python -m pytest -n 2

java: # Spark's tests run a real one, which needs it
	@command -v java > /dev/null || { \
		as_root=$$(test "$$(id -u)" = 0 || command -v sudo) && \
		$$as_root apt-get update --quiet && \
		$$as_root apt-get install --yes --quiet --no-install-recommends default-jre-headless; }

lint: .venv/dev ## Style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/bench ## Compare speed with peers, and write docs/benchmarks.md
	$(BIN)/python -m benchmarks

figures: .venv/dev ## Simulate how errors of densities fall, and write docs/densities.md
	$(BIN)/python -m benchmarks.densities

docs: .venv/docs ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## Remove everything that the targets made
	rm -rf .venv site headcount-demo.png .*_cache .hypothesis

.venv/%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@
