# make demo   from recipe to arch-matched install, on this machine's own tools
# make test   lint, types and tests (about 10 minutes on two cores); make test-all adds the long ones
# Each installs what it needs: Python packages into .venv, Debian packages when run as root.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

# A virtual environment that was not finished is made again.
.DELETE_ON_ERROR:
.PHONY: demo test test-all lint setup setup-test clean

demo: setup
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash demo.sh

# Debian 13 has GCC 11 in a folder of its own.
test test-all: export PATH := $(PATH):$(CURDIR)/.cache/gcc-11/usr/bin

test: setup-test lint
	$(PYTEST) -m "not slow"

test-all: setup-test lint
	$(PYTEST)

lint: setup-test
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@cd conda_plugin && ../$(BIN)/mypy --cache-dir ../.mypy_cache
	@$(BIN)/rocm-channel recipes check

setup: $(VENV)/.ready
	@bash build_scripts/host_packages.sh

setup-test: $(VENV)/.ready-test
	@bash build_scripts/host_packages.sh --with-tests

$(VENV)/bin/python:
	@PYTHON="$(PYTHON)" bash build_scripts/host_packages.sh --venv $(VENV)

$(VENV)/.ready: pyproject.toml | $(VENV)/bin/python
	@echo "pip: rocm-channel and its build tools into $(VENV)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[build]'
	@touch $@

$(VENV)/.ready-test: $(VENV)/.ready
	@echo "pip: test tools into $(VENV)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[build,test]'
	@touch $@

clean:
	rm -rf $(VENV) .cache channel demo work logs quarantine
