# make demo: train the calculator agent; make test: everything that CI runs; make coverage: which
# lines the tests reach. Each installs on first use, into .venv.

PYTHON ?= python3
BIN := .venv/bin
CALCULATOR := examples/calculator
DEMO_RUN := runs/demo-$(shell date +%Y%m%d-%H%M%S)
SEED ?= 42
PYTEST_OPTIONS ?=

.PHONY: install demo test coverage lint

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "retrain needs Python 3.11 or later; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[trl,dev]"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt llama-models
	touch $@

demo: install
	$(BIN)/python $(CALCULATOR)/make_model.py --seed $(SEED)
	$(BIN)/python $(CALCULATOR)/make_demonstrations.py
	$(BIN)/retrain train $(CALCULATOR)/config.yaml --set seed=$(SEED) --set output_dir=$(DEMO_RUN)
	$(BIN)/retrain rollout $(CALCULATOR)/config.yaml -n 3 --checkpoint $(DEMO_RUN)/stages/grpo/model

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy retrain bridges backends

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal $(PYTEST_OPTIONS)

coverage: install
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered
