# Commands of the README and CI; `make help` lists them.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= accord-demo
DATA ?=
TORCH ?= torch==2.13.0
# Tests start hundreds of `accord` processes, which share compiled bytecode.
unexport PYTHONDONTWRITEBYTECODE

# Failed tests run again alone, since a loaded machine can delay them; a defect fails again. The summary lists each test
# that passed at the second try.
AGAIN = { echo "Some tests failed; they run again. Those listed as PASSED below are unstable:"; \
  $(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none -rfEp; }

.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "  %-15s %s\n", $$1, $$2}'

$(VENV)/ready: pyproject.toml packages/accord-papers/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --editable packages/accord-papers --group dev
	touch $@

setup: $(VENV)/ready ## create the virtual environment

finetune: $(VENV)/ready ## install PyTorch and other packages for fine-tuning (gigabytes unless a CPU build is available)
	$(BIN)/python -m pip install --quiet "$(TORCH)" --editable ".[finetune]"

models: $(VENV)/ready ## download the two small models (177 MB)
	$(BIN)/accord models pull

demo: $(VENV)/ready ## run all steps on the sample; on your data: make demo DATA="FOLDER ..."
ifeq ($(strip $(DATA)),)
	$(BIN)/accord demo --out $(OUT)
else
	$(BIN)/accord run $(DATA) $(foreach folder,$(DATA),--recorded $(folder)) --out $(OUT)
endif

# Type checks take one core for most of a minute without a cache; tests run on the other cores.
check: $(VENV)/ready ## check style and types, and run the quick tests that your change affects; ALL=1: all quick tests
	$(MAKE) --no-print-directory --jobs=2 lint quick

# pytest-testmon knows which functions each test executed. It does not see templates and other data, whose digest names its
# records, and texts that a test reads from the checkout: such tests have the marker `repository` and always run.
ALL ?=
DATA_FILES = $(shell git ls-files -z src packages tests examples ':!*.py' | xargs -0 cat 2>/dev/null | git hash-object --stdin)

quick: $(VENV)/ready
ifneq ($(strip $(ALL)),)
	$(BIN)/python -m pytest -q -n auto -m "not slow" || $(AGAIN)
else
	$(BIN)/python -m pytest -q -n auto -m "not slow and not repository" \
	  --testmon --testmon-forceselect --testmon-env=$(DATA_FILES) || $(AGAIN)
	$(BIN)/python -m pytest -q -m "not slow and repository" || $(AGAIN)
endif

slow: $(VENV)/ready ## run the slow tests, which `make check` leaves out
	$(BIN)/python -m pytest -q -n auto -m slow tests packages/accord-papers/tests || $(AGAIN)

times: $(VENV)/ready ## measure all tests, and move those above half a second of processor time to the slow ones and back
	$(BIN)/python -m pytest -q -n auto --record-times

# Lines that all tests run, in percent; lower figures fail.
COVERAGE := 90

test: $(VENV)/ready ## run all tests, and print the share of lines that they run
	$(BIN)/python -m pytest -q -n auto --cov --cov-report= || $(AGAIN)
	@printf 'lines that tests run, in percent (at least $(COVERAGE)): '
	@$(BIN)/coverage report --format=total --fail-under=$(COVERAGE)

lint: $(VENV)/ready ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/ready ## fix style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: tables ## write the generated pages: tables, commands, JSON Schemas and the Python API
	$(BIN)/python tools/write_docs.py

site: $(VENV)/ready ## build the documentation site in site/, offline, and check its links; open site/index.html
	PYTHONPATH=tools $(BIN)/zensical build --clean --strict
	$(BIN)/python tools/check_site.py

notebooks: $(VENV)/ready ## run the notebooks of examples and write docs/notebooks
	$(BIN)/python tools/write_notebooks.py

lock: $(VENV)/ready ## write requirements-dev.lock from the installed packages
	$(BIN)/python tools/lock.py

# Without isolation the tools of the development group build, whose versions are pinned.
build: $(VENV)/ready ## build the wheels and source archives of both distributions into dist, and check them
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m build --no-isolation --outdir dist packages/accord-papers
	$(BIN)/twine check --strict dist/*

TAG ?= $(shell git describe --tags --abbrev=0 2>/dev/null)

api: $(VENV)/ready ## list incompatible changes of the Python API since the last tag or TAG=COMMIT
ifeq ($(strip $(TAG)),)
	@echo "There is no tag to compare the API with; name a commit: make api TAG=COMMIT"
else
	$(BIN)/griffe check accord --against $(TAG) --search src
endif

upgrade-fixture: $(VENV)/ready ## write tests/upgrades for TAG=v0.2.0, or for TAG=COMMIT VERSION=0.2.0
	$(BIN)/python tools/write_upgrade_fixtures.py $(TAG) $(if $(VERSION),--version $(VERSION))

tables: $(VENV)/ready ## write the tables of the README and the docs from benchmarks/results, and mark figures of changed code
	$(BIN)/python tools/write_tables.py

screenshots: $(VENV)/ready ## take the pictures of docs/gallery; needs Chromium
	$(BIN)/python tools/screenshots.py

papers: $(VENV)/ready ## run the papers' studies on the public data and write docs/papers; DATA=FOLDER
	for name in llm-rubric rubicon soda-eval ciu adoror; do \
	  $(BIN)/accord paper $$name --data $(DATA) --out docs/papers && \
	  $(BIN)/python benchmarks/harness.py docs/papers/$$name.md --stamp || exit 1; done

BENCHMARKS := adapters architecture loop check_table first_hour first_labels agreement agreement_labels specification_gaps decision import_speed compare_speed calibration_speed \
  judging_overhead faults attacks privacy drift batches failure_modes \
  live_scoring workbench scale embedded_model true_numbers rubicon rubric_selection issues issue_contexts adoror \
  peers agent_steps demonstration_selection ciu simulated_annotators llm_rubric one_figure papers \
  paper_claims synth

RESULTS = $(if $(QUICK),$(OUT)-quick,benchmarks/results)

bench: $(VENV)/ready ## run all benchmarks (five hours) and write benchmarks/results; QUICK=1: short runs into accord-demo-quick
	mkdir -p $(RESULTS)
	for name in $(BENCHMARKS); do \
	  $(BIN)/python benchmarks/$$name.py $(if $(QUICK),--quick) --json $(RESULTS)/$$name.json || exit 1; done
	$(BIN)/python benchmarks/harness.py benchmarks/results

BASE ?=

shape: $(VENV)/ready ## print sizes of functions, files and faces next to those of BASE=COMMIT, by default the last tag
	$(BIN)/python benchmarks/architecture.py --quick $(if $(or $(BASE),$(TAG)),--baseline $(or $(BASE),$(TAG)))

cost: $(VENV)/ready ## compare processor time and memory with BASE=COMMIT, by default the last tag (three minutes)
	$(BIN)/python benchmarks/cost.py $(if $(BASE),--baseline $(BASE)) $(if $(QUICK),--quick) $(if $(STOP),--stop $(STOP))

clean: ## remove generated files
	rm -rf $(VENV) $(OUT) dist site .cache .jax_cache .pytest_cache .mypy_cache .ruff_cache .testmondata*

.PHONY: help setup finetune models demo check quick slow times test lint format docs site notebooks lock build api upgrade-fixture tables screenshots papers bench shape cost clean
