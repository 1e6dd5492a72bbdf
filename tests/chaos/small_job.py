"""A run of three stages as a process to be killed: `small_job.py HOME ADDRESS ITEMS CAP`.

Each item is asked for (paid), asked for again with the first answer (paid, by a step of the same
action), and summed up. All sums are joined in one file.
"""

import json
import sys
from pathlib import Path
from typing import Any

from beforehand.config import Home, Workspace
from beforehand.engine.context import StepContext
from beforehand.engine.driver import drive, raise_for
from beforehand.engine.plan import Plan, Step
from beforehand.engine.runtime import Runtime, ThreadExecutor
from beforehand.errors import exit_code
from beforehand.forecast.schemes import http
from beforehand.gateway.opening import open_traffic
from beforehand.store.database import Database
from beforehand.store.files import write_json
from beforehand.store.journal.calls import Usage
from beforehand.store.journal.journal import Journal


class Work:
    """The plan and its actions."""

    def __init__(self, home: Path, address: str, items: int) -> None:
        self._home, self._address = home, address
        providers = {address: http.provider(address, timeout=20.0)}
        self._traffic = open_traffic(Workspace(Home(home)), providers)
        fetch = [Step(f"fetch/{i:04d}", "ask", {"item": i}) for i in range(items)]
        refine = [
            Step(f"refine/{i:04d}", "ask", {"item": i}, (f"fetch/{i:04d}",)) for i in range(items)
        ]
        add = [
            Step(f"add/{i:04d}", "add", {}, (f"fetch/{i:04d}", f"refine/{i:04d}"))
            for i in range(items)
        ]
        join = Step("join", "join", {}, tuple(s.id for s in add), here=True)
        self.plan = Plan("r", [*fetch, *refine, *add, join])
        self.actions = {"ask": self.ask, "add": self.add, "join": self.join}

    def ask(self, args: Any, outputs: Any, context: StepContext) -> Any:
        body = {"item": args["item"], "before": sorted(outputs.values(), key=str)}

        def send(key: str) -> str:
            request = http.request(self._address, body, 0, key, "r")
            return self._traffic.fetch(request).text

        def usage(answer: str) -> Usage:
            return http.Address.usage(answer)

        answer = context.call(self._address, body, send, usage)
        return http.parse(self._address, answer).probability

    def add(self, args: Any, outputs: Any, context: StepContext) -> Any:
        return round(sum(outputs.values()), 9)

    def join(self, args: Any, outputs: Any, context: StepContext) -> Any:
        write_json(self._home / "result.json", outputs)
        return {"items": len(outputs)}


def main() -> int:
    home, address, items, cap = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    database = Database(Home(home).journal)
    journal = Journal(database)
    journal.enter("r", "small", {}, "f", str(home))
    work = Work(home, address, items)
    with database.hold("drive:r", Home(home).engine / "r.lock"):
        runtime = Runtime(journal, lambda row: work, ThreadExecutor(cap), cap)
        try:
            with runtime:
                journal.calls.release("r", runtime.worker_id)
                outcome = drive(work, runtime)
            raise_for(outcome, "r")
        except Exception as error:
            print(json.dumps({"error": str(error)}), file=sys.stderr)
            return exit_code(error)
    journal.mark("r", "success", seal={})
    return 0


if __name__ == "__main__":
    sys.exit(main())
