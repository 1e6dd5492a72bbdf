"""Every documented field of the agent system, its form, and where a run writes it: `test_agents_documented.py`
holds each one against golden runs of the documents' own examples.

A row is (file, field, form). A field is a dotted path; `[]` stands for every element of a list. A form is
a pattern of the text, or a type: number and integer, with `?` where null is allowed.
"""

TIME = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z"
RUN = r"\d{8}_\d{6}(_\d+)?"
SESSION = r"\d{14}_[0-9a-f]{6}"
VERSION = r"1\.0"


def envelope(agent: str, query: str) -> list[tuple[str, str, str]]:
    """The fields of every output."""
    file = f"{agent}/out"
    return [
        (file, "data", "list"),
        (file, "metadata.query", query),
        (file, "metadata.timestamp", TIME),
        (file, "metadata.row_count", "integer"),
        (file, "metadata.agent", agent),
        (file, "metadata.version", VERSION),
    ]


def log(agent: str, *more: tuple[str, str]) -> list[tuple[str, str, str]]:
    """The fields of every log, and what the agent was asked."""
    file = f"{agent}/logs"
    path = rf"workspace/agents/{agent}/out/\d{{6}}\.json"
    return [
        (file, "run_id", RUN),
        *((file, field, form) for field, form in more),
        (file, "output_path", path),
        (file, "status", "success"),
        (file, "timestamp", TIME),
        (file, "duration_ms", "number"),
        (file, "agent", agent),
        (file, "version", VERSION),
    ]


def of_market(file: str, path: str) -> list[tuple[str, str, str]]:
    """The fields of a market that was found."""
    forms = {
        "market_id": r"\w+",
        "title": ".+",
        "description": ".+",
        "outcomes": "list",
        "prices.Yes": "number",
        "prices.No": "number",
        "volume": "number?",
        "liquidity": "number?",
        "status": "active|closed|resolved",
        "url": "text?",
        "slug": "text?",
        "close_time": TIME,
        "relevance_score": "number",
        "relevance_reason": ".+",
    }
    return [(file, f"{path}[].{field}", form) for field, form in forms.items()]


SEARCH = "Polymarket search: .+"
FIELDS: list[tuple[str, str, str]] = [
    *envelope("market-data-agent", "SELECT .+"),
    ("market-data-agent/out", "data[].symbol", r"[A-Z0-9.]+"),
    ("market-data-agent/out", "data[].bid", "number?"),
    ("market-data-agent/out", "data[].ask", "number?"),
    *log("market-data-agent", ("sql", "SELECT .+"), ("params.symbol_pattern", r"%\.C"),
         ("row_count", "integer")),
    *envelope("consumer-agent", "Processed from .+"),
    ("consumer-agent/out", "data[].source", "market-data-agent"),
    ("consumer-agent/out", "data[].source_query", "SELECT .+"),
    ("consumer-agent/out", "data[].source_row_count", "integer"),
    ("consumer-agent/out", "data[].timestamp", TIME),
    *(
        ("consumer-agent/out", f"data[].statistics.{name}", form)
        for name, form in {
            "total_records": "integer", "records_with_bid": "integer",
            "records_with_ask": "integer", "bid_min": "number", "bid_max": "number",
            "bid_avg": "number", "ask_min": "number", "ask_max": "number", "ask_avg": "number",
        }.items()
    ),
    *log("consumer-agent", ("input_path", r"workspace/agents/market-data-agent/out/\d{6}\.json")),
    *envelope("predictive-markets-agent", SEARCH),
    ("predictive-markets-agent/out", "data[].query", ".+"),
    ("predictive-markets-agent/out", "data[].session_id", SESSION),
    ("predictive-markets-agent/out", "data[].results[].url", "https://.+"),
    ("predictive-markets-agent/out", "data[].results[].title", ".+"),
    ("predictive-markets-agent/out", "data[].results[].snippet", "text"),
    ("predictive-markets-agent/out", "data[].results[].domain",
     r"(polymarket|kalshi|predictit)\.(com|org)"),
    ("predictive-markets-agent/out", "data[].result_count", "integer"),
    ("predictive-markets-agent/out", "data[].domains_searched",
     r"polymarket\.com, kalshi\.com, predictit\.org"),
    *log("predictive-markets-agent", ("query", ".+"), ("session_id", SESSION),
         ("result_count", "integer")),
    *envelope("polymarket-agent", SEARCH),
    ("polymarket-agent/out", "metadata.search_method", "hybrid_llm"),
    ("polymarket-agent/out", "data[].query", ".+"),
    ("polymarket-agent/out", "data[].session_id", SESSION),
    ("polymarket-agent/out", "data[].search_method", "hybrid_llm"),
    ("polymarket-agent/out", "data[].llm_scoring_enabled", "true"),
    *of_market("polymarket-agent/out", "data[].markets"),
    ("polymarket-agent/out", "data[].result_count", "integer"),
    *log("polymarket-agent", ("query", ".+"), ("session_id", SESSION), ("result_count", "integer")),
    ("polymarket-agent/meta.json", "next_id", "integer"),
    ("polymarket-agent/meta.json", "last_updated", TIME),
    ("polymarket-agent/meta.json", "total_runs", "integer"),
    ("failed/logs", "run_id", RUN),
    ("failed/logs", "status", "failed"),
    ("failed/logs", "error", ".+"),
    *of_market("search_polymarket_markets", "markets"),
    ("search_polymarket_markets", "metadata.query", ".+"),
    ("search_polymarket_markets", "metadata.search_method", "hybrid_llm"),
    ("search_polymarket_markets", "metadata.llm_scoring_enabled", "true"),
    ("search_polymarket_markets", "metadata.session_id", ".+"),
    ("search_polymarket_markets", "metadata.result_count", "integer"),
    ("search_polymarket_markets", "metadata.platform", "polymarket"),
    ("search_polymarket_markets", "metadata.timestamp", TIME),
    *(
        ("worker_runs", name, form)
        for name, form in {
            "run_id": RUN, "task_id": r"[a-z-]+", "agent_name": r"[a-z-]+", "status": "success",
            "started_at": TIME, "completed_at": TIME, "duration_ms": "number", "error": "text?",
            "output_file_path": "text?", "created_at": TIME,
        }.items()
    ),
    *(
        ("task_outputs", name, form)
        for name, form in {
            "id": "integer", "run_id": RUN, "task_id": r"[a-z-]+", "agent_name": r"[a-z-]+",
            "output_data": r"\{.*\}", "metadata": r"\{.*\}", "created_at": TIME,
        }.items()
    ),
    *(
        ("prediction_queries", name, form)
        for name, form in {
            "id": "integer", "session_id": ".+", "user_query": ".+", "expanded_keywords": r"\[\]",
            "timestamp": TIME, "results": r"\[.*\]", "platform": "polymarket",
            "market_ids": r"\[.*\]", "avg_probability": "number", "total_volume": "integer?",
            "result_count": "integer", "created_at": TIME,
        }.items()
    ),
]  # fmt: skip
INDICES = {
    "worker_runs": {"idx_worker_run_id", "idx_worker_task_id"},
    "task_outputs": {"idx_run_id", "idx_task_id", "idx_agent"},
    "prediction_queries": {"idx_session_id", "idx_timestamp", "idx_platform"},
}
