"""A tool's answer through a meter: in a run it is on record before anybody reads it, so that a run
that was killed and resumed does not pay for it again."""

from collections.abc import Mapping

import orjson

from beforehand.errors import NotFound, ReplayMiss
from beforehand.meter import Meter, tool_usage
from beforehand.store.journal.calls import TOOL
from beforehand.tools.registry import Toolbox

NOT_FOUND = "_not_found"


def metered(
    toolbox: Toolbox, meter: Meter | None, name: str, arguments: Mapping[str, object]
) -> dict[str, object]:
    """The content of a tool's answer; without a meter the tool is called at once. Raises what the
    tool raises. That something is not there, or not on record, is an answer too, and kept as one.
    """
    if meter is None:
        return dict(toolbox.call(name, arguments).content)

    def send(_: str) -> str:
        try:
            content = toolbox.call(name, arguments).content
        except (NotFound, ReplayMiss) as error:
            return orjson.dumps({NOT_FOUND: str(error)}).decode()
        return orjson.dumps(content).decode()

    text = meter.call(f"{TOOL}{name}", dict(arguments), send, tool_usage)
    found: dict[str, object] = orjson.loads(text)
    if NOT_FOUND in found:
        raise NotFound(str(found[NOT_FOUND]))
    return found
