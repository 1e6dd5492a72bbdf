"""The remote engine: a Daytona sandbox, made for one run and deleted after it, whatever happens.

`network_block_all` is always set: its default leaves the network open, and code on a network could
fetch what became known after t. The input and the program travel as files.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from beforehand.clock import stopwatch
from beforehand.errors import NotConfigured, Unavailable
from beforehand.sandbox import reports
from beforehand.sandbox.policy import DEFAULT, Execution, Policy, Tools, check
from beforehand.sandbox.reports import Ended
from beforehand.sandbox.wasi import REPORT, script

KEY = "DAYTONA_API_KEY"
FOLDER = "/tmp/beforehand"
STARTUP_S = 60


class Daytona:
    """One sandbox a run."""

    name = "daytona"
    layers = ("remote", "network_block_all", "ephemeral")

    def __init__(
        self, settings: Mapping[str, str], connect: Callable[[], Any] | None = None
    ) -> None:
        """`connect` gives the SDK's client (for tests of the protocol)."""
        self._connect = connect or partial(_client, settings)

    def run(
        self,
        code: str,
        input_data: Any = None,
        policy: Policy = DEFAULT,
        tools: Tools | None = None,
    ) -> Execution:
        """Run the code there. Raises NotConfigured without the key or the SDK, Unavailable where
        Daytona fails. Tools are not offered here."""
        source, raw = check(code, input_data, policy)
        client = self._connect()
        started = stopwatch()
        sandbox = None
        try:
            sandbox = client.create(_parameters(), timeout=STARTUP_S)
            sandbox.fs.create_folder(FOLDER, "700")
            sandbox.fs.upload_file(source + raw, f"{FOLDER}/job")
            sandbox.fs.upload_file(script(policy, len(source)).encode(), f"{FOLDER}/main.py")
            done = sandbox.process.exec(
                f"ulimit -v {policy.memory // 1024}; cd {FOLDER}; "
                f"timeout -s KILL {policy.timeout:g} python3 -S -B main.py < job 2> report; "
                'echo "exit $?" >> report',
                timeout=int(policy.timeout) + 5,
            )
            said = sandbox.fs.download_file(f"{FOLDER}/report").decode("utf-8", "replace")
        except Exception as error:
            raise Unavailable(
                f"Daytona failed ({type(error).__name__}: {error}): try again, or use jail"
            ) from None
        finally:
            if sandbox is not None:
                with suppress(Exception):
                    sandbox.delete()
        return self._read(str(done.result), said, policy, 1000 * (stopwatch() - started))

    def check(self) -> None:
        """NotConfigured without the key or the SDK."""
        self._connect()

    def close(self) -> None:
        """Nothing is kept between runs."""

    def _read(self, printed: str, said: str, policy: Policy, took: float) -> Execution:
        text, _, code = said.rpartition("exit ")
        _, found, report = text.rpartition(REPORT)
        ended = reports.parse(report.strip().encode()) if found else None
        error = reports.error_of(ended)
        if ended is None:
            late = code.strip() == "137"
            error = (
                f"the time limit of {policy.timeout:g} s was reached"
                if late
                else f"the run ended without a report (exit code {code.strip()})"
            )
        result = None if ended is None else ended.get("result")
        return Ended(self.name, self.layers, took).execution(
            printed.encode(), error, result, policy
        )


def _client(settings: Mapping[str, str]) -> Any:
    if not settings.get(KEY):
        raise NotConfigured(
            f"the engine daytona needs {KEY}; the engines jail and monty run here without it"
        )
    try:
        from daytona import Daytona as Client
    except ImportError:
        raise NotConfigured(
            "the engine daytona needs the extra: pip install 'beforehand[daytona]'; the engines "
            "jail and monty run without it"
        ) from None
    return Client()


def _parameters() -> Any:
    values = {"language": "python", "network_block_all": True, "ephemeral": True}
    try:
        from daytona import CreateSandboxFromSnapshotParams
    except ImportError:
        return values
    return CreateSandboxFromSnapshotParams(**values)
