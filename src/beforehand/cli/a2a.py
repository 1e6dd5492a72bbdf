"""`beforehand a2a`: the purple and the green agent over A2A."""

from typing import Annotated, Literal

import orjson
from cyclopts import Parameter

from beforehand.cli.output import ArchivePath, archive_path, note
from beforehand.config import Workspace
from beforehand.errors import EXIT_OK, InputError, NotConfigured


def a2a(
    kind: Annotated[
        Literal["purple", "green"],
        Parameter(help="purple answers events; green plays a round with a purple agent."),
    ],
    /,
    *,
    model: Annotated[
        str | None, Parameter(help="Purple: the model that forecasts [rules, without a model].")
    ] = None,
    port: Annotated[int, Parameter(help="0: any free one.")] = 9010,
    host: Annotated[str, Parameter(help="An address of this machine.")] = "127.0.0.1",
    archive: ArchivePath = None,
    json: Annotated[
        bool, Parameter(name="--json", negative="", help="Print the address as a line of JSON.")
    ] = False,
) -> int:
    """Serve an agent over A2A (JSON-RPC, 1.0 and 0.3) to programs of this machine, with its card at
    /.well-known/agent-card.json.

    Purple reads the archive as it was at each event's instant. Any agent of this kind is a
    forecaster here: `beforehand bench run --forecasters market,a2a:http://127.0.0.1:9010`.
    """
    try:
        from beforehand.serve import a2a as work
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("a2a", "google"):
            raise
        raise NotConfigured(
            "agents over A2A need a package: pip install 'beforehand[a2a]'"
        ) from None
    from beforehand.serve.guards import LOOPBACK
    from beforehand.serve.http import base_url, listen, run

    if host not in LOOPBACK:
        raise InputError(f"--host {host}: agents are served to this machine alone (127.0.0.1)")
    if kind == "green" and model is not None:
        raise InputError("--model is the purple agent's")
    answers = work.opened(kind, archive_path(archive), Workspace.from_environment(), model, note)
    socket = listen(host, port)
    url = f"{base_url(host, socket.getsockname()[1])}/"
    if json:
        print(orjson.dumps({"agent": kind, "url": url}).decode(), flush=True)
    note(f"the {kind} agent at {url} (its card: {url}.well-known/agent-card.json); Ctrl-C ends it")
    run(work.application(kind, answers, url, note), [socket], log=note)
    return EXIT_OK
