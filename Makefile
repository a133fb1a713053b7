# One virtual environment, .venv, grows with what a target needs. A stamp per extra remembers what is installed;
# a change of pyproject.toml or constraints.txt installs it again.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
SOAK ?= 600
PICTURES ?= all
PAPERS ?=
TAG ?=
NOTEBOOKS ?= out/notebooks

# What the lowest versions have to show: steps of every form on both back-ends, against dense oracles and their orders; boundary
# problems against dense KKT systems and closed forms.
LOWEST := out/lowest
BUILDER := out/hatchling
LOWEST_TESTS ?= tests/step/test_forms.py tests/boundary/test_boundary.py

# What the newest versions have to show: what they may have changed first, traced functions, arrays and files.
NEWEST_TESTS ?= tests/native/test_functions.py tests/native/test_many_functions.py tests/tracing tests/step/test_forms.py \
  tests/boundary/test_boundary.py tests/boundary/test_splines.py tests/systems/test_consistent_and_reference.py \
  tests/store tests/studies/test_stored_runs.py

BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
LOWEST_INSTALL := $(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c .ci/lowest.txt

# XLA's quick way of compiling, as in tests/conftest.py, where its default way has tests of its own: most of the time of the
# examples, notebooks and papers with --fast is compilation. `make EXAMPLES_XLA_FLAGS= examples` takes the defaults.
QUICK_XLA_FLAGS := --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false \
  --xla_cpu_parallel_codegen_split_count=1 --xla_disable_hlo_passes=while-loop-invariant-code-motion,hlo-verifier
EXAMPLES_XLA_FLAGS ?= $(QUICK_XLA_FLAGS)

# As in tests/conftest.py: what runs beside something else has one thread for the algebra of small matrices.
export OPENBLAS_NUM_THREADS ?= 1

# Many processes begin, and each would compile the sources of JAX again: what one has compiled, the next one finds.
unexport PYTHONDONTWRITEBYTECODE

export MPLBACKEND := Agg
export NO_MKDOCS_2_WARNING := 1

.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test processors mutants tag documents lowest newest package tools check format lint types docs browser examples papers notebooks pictures soak truth clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.with-run  ## run the demonstration; pictures and pages go to out/demo
	@mkdir -p out/demo
	$(BIN)/python examples/demo.py out/demo

test: $(VENV)/.with-test  ## run the tests of the library
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --ignore tests/documents

# The suite computes with the host's instructions and with the quick ways of XLA and LLVM: here as on older processors, and as both
# compile by default. What fails under one of them has a bound that is not rounding times condition.
processors: $(VENV)/.with-test  ## the tests as on five other processors and ways of compiling; an hour
	XLA_FLAGS="$(QUICK_XLA_FLAGS) --xla_cpu_max_isa=SSE4_2" $(MAKE) test
	XLA_FLAGS="$(QUICK_XLA_FLAGS) --xla_cpu_max_isa=AVX2" $(MAKE) test
	XLA_FLAGS= $(MAKE) test
	OPENBLAS_CORETYPE=NEHALEM $(MAKE) test
	NATIVE_CPU=generic $(MAKE) test

mutants: $(VENV)/.with-test  ## change signs, nodes, times and orders one at a time: does a test fail? hours; MUTANTS="m04 d17" for some
	$(BIN)/python tests/mutation/mutate.py $(MUTANTS)

tag: $(VENV)/.with-test  ## run pages, examples and tests of the commit before the halving with the code as it is; half an hour; TAG=pages for some
	$(BIN)/python tests/inventory/run_tag.py $(TAG)

documents: $(VENV)/.with-test  ## run every block of code of the README and the pages, and every example of a docstring
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal tests/documents

# Nothing but the wheel and what it asks for, at its lowest, is in the environment in which the demonstration runs.
# It is built with a hatchling in a folder of its own: what runs beside it in .venv is not disturbed.
package: $(VENV)/.created  ## build sdist and wheel into dist; the wheel runs the demo where nothing else is installed
	rm -rf dist $(LOWEST) $(BUILDER)
	$(PIP_INSTALL) --target $(BUILDER) hatchling hatch-fancy-pypi-readme
	PYTHONPATH=$(BUILDER) $(BIN)/python -m hatchling build -d dist
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST_INSTALL) dist/*.whl
	cd $(LOWEST) && DALEMBERT_EXAMPLES_FAST=1 bin/python -I $(CURDIR)/examples/demo.py demo
	cd $(LOWEST) && bin/dalembert list | grep "^car_with_trailers "
	cd $(LOWEST) && bin/dalembert page car_with_trailers --force && test -s car_with_trailers.html

lowest: package  ## and with these lowest versions run tests of step and boundary
	$(LOWEST_INSTALL) "$$(ls dist/*.whl)[test]"
	PYTHONPATH= $(LOWEST)/bin/python -m pytest -q -n $(WORKERS) --dist worksteal $(LOWEST_TESTS)

newest:  ## with the newest versions run the demonstration and tests; or say why that is skipped
	.ci/newest out/newest $(WORKERS) $(NEWEST_TESTS)

soak: $(VENV)/.with-run  ## random systems, interrupts, kills, full disks, flipped bytes: ten minutes, or SOAK=3600 seconds
	$(BIN)/python -m benchmarks.soak --seconds $(SOAK) --folder out/soak

truth: $(VENV)/.with-run  ## measure the truth table again: every system with every scheme; minutes
	$(BIN)/python -m benchmarks.truth docs

check: format lint types  ## format the code, then lint and type-check it

format: $(VENV)/.with-dev  ## format the code and apply the linter's safe fixes
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff format --quiet --config docs/ruff.toml README.md
	$(BIN)/ruff check --quiet --fix --exit-zero .

lint: $(VENV)/.with-dev  ## check format and lint rules, change nothing
	$(BIN)/ruff format --check --output-format=concise .
	$(BIN)/ruff format --check --output-format=concise --config docs/ruff.toml README.md
	$(BIN)/ruff check --output-format=concise .

types: $(VENV)/.with-dev  ## type-check src and papers
	$(BIN)/pyright --pythonpath $(BIN)/python

# Not with --quiet: mkdocs would not count the warnings that it does not show.
docs: $(VENV)/.with-docs  ## build the documentation into site; a warning is an error
	$(BIN)/mkdocs build --strict

browser: docs $(VENV)/.with-browser  ## open every built page in headless Chromium; screenshots (PICTURES=faulty: of faults) go to out/browser
	$(BIN)/python tests/browser/check_pages.py site --pictures $(PICTURES)
	$(BIN)/python tests/browser/check_runs.py

examples: $(VENV)/.with-run  ## run every example with its fast setting; results go to out/examples
	DALEMBERT_EXAMPLES_FAST=1 XLA_FLAGS="$(EXAMPLES_XLA_FLAGS)" $(BIN)/python examples/_run.py out/examples $(WORKERS)

papers: $(VENV)/.with-run  ## write the figures and tables of each paper into out/papers; minutes; PAPERS=--fast for less
	$(if $(findstring --fast,$(PAPERS)),XLA_FLAGS="$(EXAMPLES_XLA_FLAGS)") $(BIN)/python -m papers $(PAPERS)

notebooks: $(VENV)/.with-notebooks $(VENV)/.with-run  ## run every cell of the notebooks; they go to out/notebooks, or with NOTEBOOKS=docs/notebooks there
	XLA_FLAGS="$(EXAMPLES_XLA_FLAGS)" $(BIN)/python examples/notebooks/_build.py $(NOTEBOOKS)

pictures: $(VENV)/.with-run  ## draw the documentation's home and gallery again, into docs/figures; minutes
	$(BIN)/python examples/home.py docs/figures
	$(BIN)/python examples/cards.py docs/figures/gallery
	$(BIN)/python examples/cards.py docs/gallery.md

clean:  ## remove everything the Makefile made
	rm -rf .venv out site build dist .pytest_cache .ruff_cache .hypothesis .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "dalembert needs Python 3.11 or newer; '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)."; \
	  echo "Name another one, for example: make PYTHON=python3.12 test"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "'$(PYTHON) -m venv' failed; on Debian and Ubuntu it needs the package python3-venv."; exit 1; }
	@touch $@

$(VENV)/.with-run: pyproject.toml constraints.txt $(VENV)/.created
	$(PIP_INSTALL) -e .
	@touch $@

$(VENV)/.with-%: pyproject.toml constraints.txt $(VENV)/.created
	$(PIP_INSTALL) -e '.[$*]'
	@touch $@ $(VENV)/.with-run

# What the checks beside the tests need, at once: five installations take three times as long as one.
tools: $(VENV)/.created  ## install what lint, types, documentation, browser and notebooks need
	$(PIP_INSTALL) -e '.[dev,docs,browser,notebooks]'
	@touch $(VENV)/.with-dev $(VENV)/.with-docs $(VENV)/.with-browser $(VENV)/.with-notebooks $(VENV)/.with-run
