# make study   everything: environment, the study of config.yaml, its report
# make test    everything that is checked, the cheap checks first
# make setup   only the environment, in .venv
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.ONESHELL:

VENV := .venv
BIN := $(VENV)/bin
REQUIREMENTS := requirements/cpu.txt
# Extra flags of the installation, such as --extra-index-url with PyTorch's index of CPU builds.
PIP_FLAGS ?=
CORES ?= 2
# The environment is made again when the pins or the package's own metadata change.
STAMP := $(VENV)/.ready-$(shell cat $(REQUIREMENTS) pyproject.toml | sha256sum | cut -c1-16)
LOCK := .snakemake/make.lock
SOURCES := workflow tests

.PHONY: help setup study smoke test test-fast test-engines check format schema clean dag

help:
	@sed -n 's/^# make/make/p' Makefile

setup: $(STAMP)

$(STAMP): $(REQUIREMENTS) pyproject.toml
	@python=
	for candidate in python3.11 python3 python; do
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
	    python=$$candidate; break
	  fi
	done
	if [ -z "$$python" ]; then
	  echo "error: no Python 3.11 found (tried python3.11, python3, python); install it and run make again" >&2
	  exit 2
	fi
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then
	  echo "error: $$python cannot make virtual environments; on Debian: apt-get install python3-venv" >&2
	  exit 2
	fi
	for tool in g++ make; do
	  command -v $$tool > /dev/null || { echo "error: $$tool is missing (two parsers are compiled); on Debian: apt-get install build-essential" >&2; exit 2; }
	done
	echo "making $(VENV) with $$("$$python" --version)"
	"$$python" -m venv --clear $(VENV)
	export PATH="$$PWD/$(BIN):$$PATH"
	command -v cmake > /dev/null || $(BIN)/python -m pip install --quiet $(PIP_FLAGS) 'cmake<4'
	$(BIN)/python -m pip install --quiet $(PIP_FLAGS) -r $(REQUIREMENTS)
	$(BIN)/python -m pip install --quiet --no-deps -e .
	touch $(STAMP)

# One `make study` at a time in a folder: who holds the lock may clear what a killed run left behind.
define run_study
@mkdir -p .snakemake
exec 9> $(LOCK)
if ! flock --nonblock 9; then
  echo "error: another run is at work in this folder; wait for it or stop it" >&2
  exit 2
fi
$(BIN)/snakemake --profile local --unlock --cores $(CORES) $(1) > .snakemake/unlock.log 2>&1 || { cat .snakemake/unlock.log >&2; exit 2; }
$(BIN)/snakemake --profile local --cores $(CORES) $(1) -- all
study_dir=$$($(BIN)/python -m wmlab study show --json $(2) | $(BIN)/python -c 'import json, sys; print(json.load(sys.stdin)["results"])')
$(BIN)/python -m wmlab study headline --study-dir "$$study_dir"
endef

study: $(STAMP)
	$(call run_study,,)

smoke: $(STAMP)
	$(call run_study,--configfile studies/smoke.yaml,--config studies/smoke.yaml)

test: check
	$(BIN)/python -m pytest -m "not slow"
	$(BIN)/python -m pytest -m slow

test-fast: $(STAMP)
	$(BIN)/python -m pytest -m "not slow"

# verl and vLLM exclude each other's pins and ours: an environment each, in the user's cache.
test-engines: $(STAMP)
	PYTHON=$(CURDIR)/$(BIN)/python PIP_FLAGS="$(PIP_FLAGS)" tests/engines/run verl vllm

check: $(STAMP)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/snakemake --lint
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/snakefmt Snakefile rules

schema: $(STAMP)
	$(BIN)/python -m wmlab.config.schema > workflow/schemas/config.schema.json

# Results stay: they are what the time went into.
clean:
	rm -rf $(VENV) .snakemake .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find workflow tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The picture of the workflow in the README, from the rules themselves.
dag: $(STAMP)
	$(BIN)/snakemake --profile local --rulegraph mermaid-js all 2>/dev/null | $(BIN)/python -m wmlab study dag --readme README.md
