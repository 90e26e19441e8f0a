# Every command of the README, and what CI calls. `make help` lists them.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= accord-demo
DATA ?=
TORCH ?= torch==2.13.0
# Hundreds of tests start `accord` as a process of its own: none compiles what another has.
unexport PYTHONDONTWRITEBYTECODE

# What failed beside all others, on a machine that may have other work, is tried once more alone; a defect fails again.
AGAIN = $(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none

.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "  %-10s %s\n", $$1, $$2}'

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	touch $@

setup: $(VENV)/ready ## make the virtual environment

finetune: $(VENV)/ready ## also install PyTorch and what else fine-tuning needs (gigabytes, unless a CPU build is at hand)
	$(BIN)/python -m pip install --quiet "$(TORCH)" --editable ".[finetune]"

models: $(VENV)/ready ## fetch the two small models once (177 MB)
	$(BIN)/accord models pull

demo: $(VENV)/ready ## the whole way on the sample; on recorded data: make demo DATA="FOLDER ..."
ifeq ($(strip $(DATA)),)
	$(BIN)/accord demo --out $(OUT)
else
	$(BIN)/accord run $(DATA) $(foreach folder,$(DATA),--recorded $(folder)) --out $(OUT)
endif

# Types take one core for most of a minute where nothing is known of them yet: tests run on the others meanwhile.
check: $(VENV)/ready ## check style and types, and run the tests that are quick
	$(MAKE) --no-print-directory --jobs=2 lint quick

quick: $(VENV)/ready
	$(BIN)/python -m pytest -q -n auto -m "not slow" || $(AGAIN)

test: $(VENV)/ready ## run all tests
	$(BIN)/python -m pytest -q -n auto || $(AGAIN)

lint: $(VENV)/ready ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/ready ## mend style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/ready ## write the generated pages: commands and the schema of accord.yaml
	$(BIN)/python tools/write_docs.py

tables: $(VENV)/ready ## write the tables of the README and the docs from benchmarks/results
	$(BIN)/python tools/write_tables.py

BENCHMARKS := architecture first_hour import_speed compare_speed calibration_speed judging_overhead faults follow attacks \
  live_scoring workbench scale embedded_model true_numbers rubicon rubric_selection issues adoror \
  demonstration_selection ciu simulated_annotators llm_rubric \
  synth

bench: $(VENV)/ready ## run the benchmarks in full (about five hours; the whole grid of networks is half of it); figures go to benchmarks/results
	mkdir -p benchmarks/results
	for name in $(BENCHMARKS); do \
	  $(BIN)/python benchmarks/$$name.py --json benchmarks/results/$$name.json || exit 1; done

clean: ## remove what the other targets made
	rm -rf $(VENV) $(OUT) .jax_cache .pytest_cache .mypy_cache .ruff_cache

.PHONY: help setup finetune models demo check quick test lint format docs tables bench clean
