# Every verb sets up what it needs: a virtual environment in .venv with what constraints.txt pins.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test check bench slow-test gpu-test schemas techniques-page rules-page api-page docs clean

demo: $(READY)  ## tune a bundled workload, from measuring to a proven recipe
	$(BIN)/hasten tune gallery:bloom --out demo-out

test: $(READY)  ## all tests that need no GPU; three at a time on two cores, as many wait for processes
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder

check: $(READY)  ## lint, format, types, import layers, docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest tests/test_layers.py
	$(BIN)/mkdocs build --strict --quiet

bench: $(READY)  ## the measured claims of the docs; more than an hour on a quiet machine
	$(BIN)/python benchmarks/verdicts.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/tune_gallery.py
	$(BIN)/python benchmarks/nothing_to_gain.py
	$(BIN)/python benchmarks/trials_curve.py
	$(BIN)/python benchmarks/naive_scripts.py
	$(BIN)/python benchmarks/fixed_scripts.py
	$(BIN)/python benchmarks/encoders.py
	$(BIN)/python benchmarks/loaders.py
	$(BIN)/python benchmarks/worker_search.py
	$(BIN)/python benchmarks/cache.py
	$(BIN)/python benchmarks/scan_speed.py --tree torch=$$($(BIN)/python -c 'import torch; print(torch.__path__[0])') --write

slow-test: $(READY)  ## tests that generate code, for some minutes; the log is kept with the results
	$(BIN)/python benchmarks/slow_tests.py

gpu-test:  ## on a machine with a GPU and the dependencies installed there
	PYTHONPATH=$(CURDIR)/src:$(PYTHONPATH) $(PYTHON) -m pytest -m gpu

schemas: $(READY)  ## the JSON Schemas in docs/schema, after a record has changed
	$(BIN)/python docs/schema/make.py

techniques-page: $(READY)  ## docs/techniques.md, after a technique's text or settings have changed
	$(BIN)/python docs/techniques.py

rules-page: $(READY)  ## docs/rules.md, after a rule's text or examples have changed
	$(BIN)/python docs/rules.py

api-page: $(READY)  ## docs/api.md, after a public name, a signature or a docstring has changed
	$(BIN)/python docs/api.py

docs: $(READY)  ## the docs as a site in site/
	$(BIN)/mkdocs build --strict

clean:
	rm -rf .venv site demo-out

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)
