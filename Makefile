# Two words do everything: `make demo` and `make test`. Both set up .venv on first use and reuse it afterwards.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two workers that take over each other's tests: those of a file stay together and share its fixtures.
PYTEST := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal --durations=40

.PHONY: demo test test-all test-slow test-onnx lint install dist docs results fuzz soak points power flips gpu gpu-backbone clean

install: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "headstart needs Python >= 3.11; name one with: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/headstart demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# At most 10 minutes on two cores: docs/decisions/0026-tests-in-ten-minutes.md.
test: lint
	$(PYTEST) -m 'not slow'

# Everything, before an issue is called resolved; at most 35 minutes.
test-all: lint
	$(PYTEST)

# What test-all has and test has not.
test-slow: $(READY)
	$(PYTEST) -m slow

# The export of networks, which needs the extra [onnx]: installs it into .venv.
test-onnx: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[onnx]'
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 tests/serve/test_onnx_export.py tests/plugins/test_plugin_fit.py tests/docs

# The sdist and the wheel, in dist. What they hold is tested by tests/test_wheel.py (slow).
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation

# The site, in build/site: installs the extra [docs] into .venv. A warning is an error.
docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

# Every page of docs/results again from the results beside it, and their index; trains nothing.
results: $(READY)
	$(BIN)/python benchmarks/publish_results.py
	$(BIN)/python docs/withdrawn.py

# Damaged files for every parser of outside input, MINUTES each: `make fuzz MINUTES=5 NAMES="csv npz"`; counts are added to
# docs/benchmarks/reliability.json, of which `python benchmarks/reliability.py` makes the page.
fuzz: $(READY)
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m support.fuzz $(NAMES) --minutes $(or $(MINUTES),1) --folder ../build/fuzz --json ../docs/benchmarks/reliability.json

# Kills, races, full disks and damage at random instants for MINUTES; counts are added to docs/benchmarks/reliability.json.
soak: $(READY)
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m support.soak --minutes $(or $(MINUTES),30) --json ../docs/benchmarks/reliability.json

# Every point at which a command can fail, or those of NAMES (`make points NAMES="fit 'store gc'"`), each STRIDE-th; counts are
# written to docs/benchmarks/reliability.json.
points: $(READY)
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m support.points $(NAMES) --stride $(or $(STRIDE),1) --json ../docs/benchmarks/reliability.json

# Power that goes after each STRIDE-th operation of the commands NAMES; counts as of `points`.
power: $(READY)
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m support.points $(NAMES) --power --stride $(or $(STRIDE),1) --json ../docs/benchmarks/reliability.json

# One bit turned in memory, 300 times, and 1,000 clean resumes; counts as of `points`.
flips: $(READY)
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m support.flips --json ../docs/benchmarks/reliability.json

# Image at the paper's size on a GPU, three seeds, in pieces of 9 minutes: the same command goes on. DATA names the folder of cifar10/.
gpu: $(READY)
	$(BIN)/python benchmarks/coser_image.py --data $(DATA) --limit 540

# A language model of our own of 25 million parameters, then lu-2 with it on bits and MNIST, one seed, on a GPU; the same command goes on.
LARGE = model.width=512 model.blocks=8 model.mixer.heads=8 model.feed_forward.width=2048 language.task.length=512 \
	language.budget.steps=5000 language.optim.lr=3e-4 language.optim.warmup_steps=500 language.optim.precision=bfloat16 \
	bits.optim.lr=3e-4 bits.optim.precision=bfloat16 pictures.optim.lr=1e-4 pictures.optim.precision=bfloat16 finetune.optim.precision=bfloat16
gpu-backbone: $(READY)
	$(BIN)/headstart run lu-2 --scale small --device cuda --data $(DATA) 'seed=[0]' 'columns=["memory","xor","mnist"]' $(LARGE)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build dist src/*.egg-info
