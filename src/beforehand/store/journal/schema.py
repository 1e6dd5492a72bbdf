"""The journal's tables, and their rows as values. `worker_runs` and `task_outputs` are as
documented; the rest is ours."""

from dataclasses import dataclass
from typing import Literal

import orjson

from beforehand.store.database import Row

Status = Literal["running", "success", "failed", "stopped", "cancelling", "cancelled"]

ASIDE = "aside"
"""The id, and the kind, of the standing run that holds the calls made outside of runs."""
VERSION = 3
"""The version of the tables below; a journal of another version is refused."""
SCHEMA = f"""
CREATE TABLE IF NOT EXISTS journal_version (version INTEGER PRIMARY KEY);
INSERT INTO journal_version VALUES ({VERSION}) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS runs (
  run_id TEXT PRIMARY KEY, kind TEXT NOT NULL, status TEXT NOT NULL, reason TEXT,
  request TEXT NOT NULL, fingerprint TEXT NOT NULL, home TEXT NOT NULL, parent TEXT,
  total INTEGER NOT NULL DEFAULT 0, limits TEXT NOT NULL DEFAULT '{{{{}}}}',
  policy TEXT NOT NULL DEFAULT 'resend',
  calls INTEGER NOT NULL DEFAULT 0, tokens BIGINT NOT NULL DEFAULT 0,
  cost DOUBLE PRECISION NOT NULL DEFAULT 0, answered INTEGER NOT NULL DEFAULT 0,
  most_tokens BIGINT NOT NULL DEFAULT 0, most_cost DOUBLE PRECISION NOT NULL DEFAULT 0,
  expected_cost DOUBLE PRECISION NOT NULL DEFAULT 0,
  restarts TEXT NOT NULL DEFAULT '[]',
  created_at TEXT NOT NULL, updated_at TEXT NOT NULL, seal TEXT
);
CREATE TABLE IF NOT EXISTS worker_runs (
  run_id TEXT NOT NULL, task_id TEXT NOT NULL, agent_name TEXT NOT NULL, status TEXT NOT NULL,
  started_at TEXT NOT NULL, completed_at TEXT, duration_ms REAL, error TEXT,
  output_file_path TEXT, created_at TEXT, PRIMARY KEY (run_id, task_id)
);
CREATE INDEX IF NOT EXISTS idx_worker_run_id ON worker_runs (run_id);
CREATE INDEX IF NOT EXISTS idx_worker_task_id ON worker_runs (task_id);
CREATE TABLE IF NOT EXISTS task_outputs (
  id {{identity}}, run_id TEXT NOT NULL, task_id TEXT NOT NULL, agent_name TEXT NOT NULL,
  output_data TEXT NOT NULL, metadata TEXT NOT NULL, created_at TEXT,
  FOREIGN KEY (run_id, task_id) REFERENCES worker_runs (run_id, task_id)
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_run_task ON task_outputs (run_id, task_id);
CREATE INDEX IF NOT EXISTS idx_run_id ON task_outputs (run_id);
CREATE INDEX IF NOT EXISTS idx_task_id ON task_outputs (task_id);
CREATE INDEX IF NOT EXISTS idx_agent ON task_outputs (agent_name);
CREATE TABLE IF NOT EXISTS task_parts (
  run_id TEXT NOT NULL, task_id TEXT NOT NULL, name TEXT NOT NULL, data {{blob}} NOT NULL,
  digest TEXT NOT NULL, PRIMARY KEY (run_id, task_id, name)
);
CREATE TABLE IF NOT EXISTS calls (
  run_id TEXT NOT NULL, call_key TEXT NOT NULL, task_id TEXT NOT NULL, provider TEXT NOT NULL,
  simulation_index INTEGER NOT NULL, question TEXT, instant BIGINT, state TEXT NOT NULL,
  owner TEXT NOT NULL, lease_until DOUBLE PRECISION NOT NULL, attempts INTEGER NOT NULL,
  unanswered INTEGER NOT NULL DEFAULT 0, answer TEXT, answer_digest TEXT, error TEXT,
  tokens BIGINT, cost DOUBLE PRECISION, first_sent_at TEXT NOT NULL, sent_at TEXT NOT NULL,
  answered_at TEXT, latency_ms REAL, origin TEXT, PRIMARY KEY (run_id, call_key)
);
CREATE INDEX IF NOT EXISTS idx_call_provider ON calls (provider, instant);
CREATE INDEX IF NOT EXISTS idx_call_state ON calls (run_id, state);
CREATE INDEX IF NOT EXISTS idx_call_owner ON calls (owner, state);
CREATE TABLE IF NOT EXISTS events (
  run_id TEXT NOT NULL, number INTEGER NOT NULL, at TEXT NOT NULL, what TEXT NOT NULL,
  task_id TEXT, detail TEXT NOT NULL, PRIMARY KEY (run_id, number)
);
CREATE TABLE IF NOT EXISTS workers (
  worker_id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, started_at TEXT NOT NULL,
  beat_at DOUBLE PRECISION NOT NULL
);
"""
CALL_COLUMNS = (
    "run_id, call_key, task_id, provider, simulation_index, question, instant, state, owner, "
    "lease_until, attempts, unanswered, answer, answer_digest, error, tokens, cost, "
    "first_sent_at, sent_at, answered_at, latency_ms, origin"
)
RUN_COLUMNS = (
    "run_id kind status reason request fingerprint home parent total limits policy calls tokens "
    "cost restarts created_at updated_at seal"
).split()


@dataclass(frozen=True)
class RunRow:
    """One run. `fingerprint` identifies request and world: the same run id with another fingerprint
    is another run. `limits` caps calls, tokens and cost (USD); `policy` says what happens to a call
    that was sent and never answered; `restarts` are the times at which its forecasters are said to
    have been restarted; `seal` holds digests of the run's files."""

    run_id: str
    kind: str
    status: Status
    reason: str | None
    request: dict[str, object]
    fingerprint: str
    home: str
    parent: str | None
    total: int
    limits: dict[str, float]
    policy: str
    calls: int
    tokens: int
    cost: float
    restarts: list[str]
    created_at: str
    updated_at: str
    seal: dict[str, str] | None


@dataclass(frozen=True)
class Done:
    """A finished task: what it was given and what it returned, as digests."""

    inputs: str
    output: str


@dataclass(frozen=True)
class Task:
    """A row of worker_runs."""

    task_id: str
    agent_name: str
    status: str
    error: str | None
    duration_ms: float | None


def run_row(row: Row) -> RunRow:
    """A row of `runs`, in the order of RUN_COLUMNS."""
    found = dict(zip(RUN_COLUMNS, row, strict=True))
    for name in ("request", "limits", "restarts", "seal"):
        found[name] = None if found[name] is None else orjson.loads(found[name])
    return RunRow(**found)
