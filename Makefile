# The commands to remember. Each installs what it needs the first time; nothing else has to be run before.
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.SUFFIXES:

VENV := .venv
WHEEL_VENV := .venvs/danube-client
BIN := $(VENV)/bin
# Set by their own rules below; a stamp is newer than the lock that it was installed from.
INSTALLED := $(VENV)/.installed
LOCKED := $(VENV)/.locked
WHEEL_INSTALLED := $(WHEEL_VENV)/.installed

CHECKED := danube spark_analytics lab tests scripts $(wildcard bench examples)
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-input --use-pep517
UV_COMPILE := $(BIN)/uv pip compile --quiet --system-certs --universal --python-version 3.11 --generate-hashes --no-annotate \
              --custom-compile-command "make lock"
IMAGE_COMPILE := $(BIN)/uv pip compile --quiet --system-certs --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
                 --generate-hashes --no-annotate --custom-compile-command "make lock" --constraint $(VENV)/constraints.txt \
                 --extra lz4 --extra security --extra speed --extra zstd
PYTEST := $(BIN)/python -m pytest -q
WORKERS ?= auto
ROUNDS ?= 10
SEEDS ?= 1000
FROM ?= 0
STORE ?= raft
STORAGE ?= shared_fs
KEEP ?=
OWN_BASE ?=
TARGETS ?=
export PYTHON

.PHONY: help
help: ## List the commands
	@echo "Needs: Python 3.11 or newer, git, make. Everything else is installed into .venv and .venvs."
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{ printf "  make %-13s %s\n", $$1, $$2 }'

.PHONY: demo
demo: $(INSTALLED) $(WHEEL_INSTALLED) ## Publish, kill -9 the broker, read everything back (KEEP=1 leaves a broker running, SECURE=1: TLS and tokens)
	@$(BIN)/python -m scripts.demo --wheel-python $(WHEEL_VENV)/bin/python $(if $(KEEP),--keep) $(if $(SECURE),--secure)

.PHONY: cluster
cluster: $(INSTALLED) ## Three brokers over one folder of messages, until Ctrl-C (STORAGE=local, object; FOLDER=f keeps all)
	@$(BIN)/python -m scripts.cluster --storage $(patsubst object,object_store,$(STORAGE)) $(if $(FOLDER),--folder $(FOLDER))

.PHONY: test
test: $(INSTALLED) $(WHEEL_INSTALLED) ## Every promise: fast tests, simulations by seed, real processes; 15 minutes on two processors
	@echo "[test] every promise (WORKERS=0 runs one test after the other, SEED=new tries seeds that nobody tried, SEED=n those of a run)"
	@$(PYTEST) -n $(WORKERS) --dist loadgroup --durations=40 -m "not nightly" || { [ $$? -eq 1 ] && \
	  echo "[test] what failed, once more and alone: what passes now is slow or has a race, and wants mending" && \
	  $(PYTEST) -x -n 0 -m "not nightly" --last-failed --last-failed-no-failures none; }

.PHONY: nightly
nightly: $(INSTALLED) $(WHEEL_INSTALLED) ## The same at length: 200 seeds, sabotages, long fuzz, trials and soaks; some hours
	@echo "[nightly 1/5] the whole suite, 200 seeds"
	@HYPOTHESIS_PROFILE=soak SEED=$(or $(SEED),new) SEEDS=200 $(PYTEST) -n $(WORKERS) --dist loadgroup
	@echo "[nightly 2/5] hostile input"
	@$(MAKE) fuzz
	@echo "[nightly 3/5] simulated power cuts"
	@$(MAKE) simulate
	@echo "[nightly 4/5] trials of Raft"
	@$(MAKE) trials
	@echo "[nightly 5/5] kills, pauses and cuts of real processes"
	@$(MAKE) soak
	@$(MAKE) failover
	@for store in raft alone etcd zookeeper; do $(MAKE) soak-metadata STORE=$$store || exit 1; done

.PHONY: static
static: $(INSTALLED) ## Format, lint, types, import contracts, stubs: what needs no test to run
	@echo "[static 1/5] format"
	@$(BIN)/ruff format --quiet --check . || { echo "Run: make format"; exit 1; }
	@echo "[static 2/5] lint"
	@$(BIN)/ruff check --quiet .
	@echo "[static 3/5] types (the first run fills a cache and takes longer)"
	@$(BIN)/mypy --no-error-summary
	@echo "[static 4/5] import contracts"
	@$(BIN)/lint-imports > $(VENV)/lint-imports.out 2>&1 || { cat $(VENV)/lint-imports.out; exit 1; }
	@echo "[static 5/5] generated stubs are fresh"
	@$(BIN)/python scripts/generate_stubs.py --check

.PHONY: check
check: static ## The same, and the fast tests: two minutes on two processors
	@echo "[check] fast tests"
	@HYPOTHESIS_PROFILE=fast $(PYTEST) -n $(WORKERS) -m "not cluster and not slow and not nightly"

.PHONY: format
format: $(INSTALLED) ## Format the code and mend what lint can mend
	@$(BIN)/ruff format --quiet . && $(BIN)/ruff check --quiet --fix .

.PHONY: proto
proto: $(INSTALLED) ## Generate the stubs from the .proto files again
	@$(BIN)/python scripts/generate_stubs.py

.PHONY: bench
bench: $(INSTALLED) $(WHEEL_INSTALLED) ## Measure, and print the machine with the numbers
	@$(BIN)/python -m bench

.PHONY: soak
soak: $(INSTALLED) $(WHEEL_INSTALLED) ## Rounds of kill -9 and pauses under load, in .soak: nothing may be lost (ROUNDS=10)
	@$(BIN)/python -m lab.soak.rounds --rounds $(ROUNDS) --folder .soak --wheel-python $(WHEEL_VENV)/bin/python

.PHONY: failover
failover: $(INSTALLED) $(WHEEL_INSTALLED) ## Rounds of kills, pauses, restarts and drains on three brokers, in .failover (ROUNDS=10)
	@$(BIN)/python -m lab.failover --rounds $(ROUNDS) --folder .failover --wheel-python $(WHEEL_VENV)/bin/python

.PHONY: trials
trials: $(INSTALLED) ## Raft: fifty times kill -9 of all members, ten minutes beside a busy broker without an election, 15 beside twenty busy processes without a takeover
	@$(BIN)/python -m lab.trials.raft kill-all --rounds 50
	@$(BIN)/python -m lab.trials.raft busy --minutes 10
	@$(BIN)/python -m lab.trials.raft crowded --minutes 15

.PHONY: soak-metadata
soak-metadata: $(INSTALLED) ## Rounds of kills, pauses and cuts on a metadata store: histories are judged (ROUNDS=10 STORE=raft)
	@$(BIN)/python -m lab.metadata.soak --store $(STORE) --rounds $(ROUNDS) --folder .soak-metadata

.PHONY: simulate
simulate: $(INSTALLED) ## Power cuts, kills, failing and damaged disks, simulated by seed on all cores (SEEDS=1000 FROM=0)
	@$(BIN)/python -m lab.simulation --seeds $(SEEDS) --from $(FROM)

.PHONY: fuzz
fuzz: $(INSTALLED) ## Hostile input at the client port: an answer to each, no traceback (ROUNDS=100000)
	@FUZZ_ROUNDS=$(if $(filter command line environment,$(origin ROUNDS)),$(ROUNDS),100000) $(PYTEST) tests/fuzz

.PHONY: image
image: $(INSTALLED) ## Build the images of broker, admin and connect (OWN_BASE=1: on a base made here, without a registry or a daemon)
	@$(BIN)/python -m scripts.image $(if $(OWN_BASE),--own-base) $(TARGETS)

.PHONY: release-check
release-check: $(INSTALLED) ## What a release still needs: versions, wheel and its install, bills of materials, man pages
	@$(BIN)/python -m scripts.release_check

.PHONY: chart-tools
chart-tools: ## Build helm and kube-score with Go, into .venvs/go (some minutes, once): for the tests of the chart
	@GOBIN="$(CURDIR)/.venvs/go/bin" go install helm.sh/helm/v3/cmd/helm@v3.22.0
	@GOBIN="$(CURDIR)/.venvs/go/bin" go install github.com/zegl/kube-score/cmd/kube-score@v1.20.0

.PHONY: chart
chart: $(INSTALLED) ## Render the golden files of the chart again, after a change of it
	@$(BIN)/python -m tests.deploy.charts

.PHONY: lock
lock: $(INSTALLED) ## Resolve the dependencies again, within the bounds of pyproject.toml
	@echo "[lock] requirements/dev.txt, requirements/danube-client.txt"
	@$(UV_COMPILE) --extra all --group dev --upgrade --output-file requirements/dev.txt pyproject.toml
	@$(UV_COMPILE) --excludes requirements/danube-client.excludes --upgrade \
	    --output-file requirements/danube-client.txt requirements/danube-client.in
	@sed 's/ \\$$//; /--hash/d' requirements/dev.txt | grep == > $(VENV)/constraints.txt
	@$(IMAGE_COMPILE) --extra s3 --extra schema --output-file requirements/image-broker.txt pyproject.toml
	@$(IMAGE_COMPILE) --extra admin --output-file requirements/image-admin.txt pyproject.toml
	@$(IMAGE_COMPILE) --extra schema --extra webhook --output-file requirements/image-connect.txt pyproject.toml
	@$(IMAGE_COMPILE) --extra spark --output-file requirements/image-analytics.txt pyproject.toml

.PHONY: clean
clean: ## Remove what was installed, built and cached
	@rm -rf $(VENV) .venvs dist build .soak .soak-metadata .failover .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(LOCKED): requirements/dev.txt scripts/find_python.sh
	@python="$$(scripts/find_python.sh)" && \
	    echo "[set-up 1/2] $$python -> $(VENV), from requirements/dev.txt (about a minute, once)" && \
	    "$$python" -m venv $(VENV)
	@$(BIN)/python $(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

$(INSTALLED): $(LOCKED) pyproject.toml
	@$(BIN)/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(WHEEL_INSTALLED): requirements/danube-client.txt scripts/find_python.sh
	@python="$$(scripts/find_python.sh)" && \
	    echo "[set-up 2/2] the published danube-client -> $(WHEEL_VENV) (some seconds, once)" && \
	    "$$python" -m venv $(WHEEL_VENV)
	@$(WHEEL_VENV)/bin/python $(PIP_INSTALL) --require-hashes --no-deps -r requirements/danube-client.txt
	@touch $@
