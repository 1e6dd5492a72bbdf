"""A program in any language (`command:./bot.sh --fast`): contexts as JSON lines in, decisions out.

It gets the IntervalContext with an `id` on one line, and answers with one line: a JSON object
(`{"id": …, "probability": 0.4, "rationale": …}`), or a probability alone. It goes on running from
one question to the next, and is asked one after the other; with `#each` it is started for each, and
its last line counts. It is asked in order of time, and what it answered is on record: a run that
goes on asks nothing again. Its own words are read with the options of `mapping.py`.
"""

import os
import shlex
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

import orjson

from beforehand.config import in_a_probe
from beforehand.errors import BadAnswer, InputError
from beforehand.forecast.base import (
    Context,
    Decision,
    Forecaster,
    Meter,
    Opening,
    scheme,
)
from beforehand.forecast.mapping import Questions, answer_map, flag, split_options, written
from beforehand.forecast.process import own_environment
from beforehand.forecast.programs import (
    Lines,
    Start,
    can_hide,
    clean_environment,
    hidden_places,
    run_once,
)
from beforehand.forecast.schemes.http import Address, measured, parse
from beforehand.ids import digest
from beforehand.store.files import file_digest
from beforehand.store.journal.calls import Usage
from beforehand.store.run_folder import last_probe

HIDDEN, SHOWN = "archive and journal hidden from it", "nothing is hidden from it on this machine"
PARTLY = "its folder lies in what would be hidden from it: it can see that"


class Program(Forecaster):
    """A program that is asked in JSON lines; `command` is how it is started."""

    stateful = False  # What it remembers lies in a process of its own.

    def __init__(
        self, rest: str, name: str | None, command: tuple[str, ...], place: Path, opening: Opening
    ) -> None:
        """`place` is the file that holds its code."""
        super().__init__(rest, name)
        options = split_options(rest)[1]
        self._map = answer_map(rest, options, opening.folder)
        self._each = flag(options, "each", rest)
        self.memoryless = flag(options, "memoryless", rest)
        self._questions = Questions(opening.world, opening.workspace.clock)
        self.place = place
        self.code = _code(command, place, [self._map.code, options])
        network = flag({"network": options.get("network", "yes")}, "network", rest)
        self._start = start_of(command, place, opening, network)
        if not network and not can_hide():
            raise InputError(f"{rest[:100]}: network=no needs bubblewrap, which does not work here")
        self.isolation = _isolation(self._start, opening, self.code, str(place.resolve()))
        if self.isolation.startswith("caught"):
            self.caught = "a probe found that it looks ahead"
        self._timeout, self._cost_per_call = opening.timeout, opening.cost_per_call
        self._turn = threading.Lock()
        self._lines = Lines(self._start, self._timeout, self.note, self._is_answer)

    @property
    def anywhere(self) -> str:
        """Its entry with whole paths, as another folder can open it."""
        options = split_options(self.provider)[1]
        if "map" in options:
            options["map"] = str((self._start.folder / options["map"]).resolve())
        if "python" in options:
            options["python"] = self._start.command[0]
        said = written(options)
        name = f"{self.entry.removesuffix(self.provider)}"
        return f"{name}{self._plain()}{'#' if said else ''}{said}"

    def _plain(self) -> str:
        return f"command:{shlex.join(self._start.command)}"

    def close(self) -> None:
        """End the program."""
        self._lines.close()

    def check(self) -> None:
        """Raises InputError where it cannot be started."""
        first = self._start.command[0]
        if shutil.which(first) is None:
            why = (
                f"{first} is not executable: `chmod +x` it, or name what runs it, as in "
                "command:python3 bot.py"
                if os.path.isfile(first)
                else f"there is no program {first} on the path: a file here is ./{first}"
            )
            raise InputError(f"{self.provider[:100]}: {why}")

    def decide(self, context: Context, meter: Meter) -> Decision:
        """Ask it, unless the journal has its answer."""
        # One that goes on running takes one question at a time: no other counts as sent meanwhile.
        with nullcontext() if self._each else self._turn:
            send = self._sender(context, meter)
            asked = meter.call(self.provider, context.wire(), send, self._measure)
        return parse(self.provider, asked)

    def _sender(self, context: Context, meter: Meter) -> Callable[[str], str]:
        asked = {"simulation": meter.simulation, "run": meter.run_id}

        def send(key: str) -> str:
            try:
                return self._answer({**self._body(context), **asked}, key[:16], context)
            except BadAnswer as error:
                self.note("no answer")
                return orjson.dumps({"error": str(error)}).decode()

        return send

    def _answer(self, question: Mapping[str, object], name: str, context: Context) -> str:
        """What is kept of its answer to a question of this name. Raises BadAnswer for none."""
        if self._each:
            line = orjson.dumps({**question, "id": name})
            return self._read(run_once(self._start, line, self._timeout).line())
        return self._read(self._lines.ask(name, question))

    def _body(self, context: Context) -> Mapping[str, object]:
        """What it is asked, without its name."""
        body: Mapping[str, object] = self._map.body(context, self._questions)
        return body

    def _read(self, said: str) -> str:
        """What is kept of its answer. Raises BadAnswer for a line that is none."""
        if not self._is_answer(said.encode()):
            raise BadAnswer(f"its last line is no answer: {said[:100]!r}")
        return self._map.kept(said)

    def _is_answer(self, line: bytes) -> bool:
        return self._map.answers(line)

    def _measure(self, answer: str) -> Usage:
        return measured(answer, self._cost_per_call)

    @staticmethod
    def usage(answer: str) -> Usage:
        """Tokens and US dollars that it states."""
        return Address.usage(answer)


@scheme("command", shown=("command:PATH",))
class Command(Program):
    """A command line."""

    @classmethod
    def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
        """Raises InputError for a command that cannot be read."""
        words, place = command_of(rest, opening)
        return cls(rest, name, words, place, opening)


def command_of(rest: str, opening: Opening) -> tuple[tuple[str, ...], Path]:
    """The words of a command, and the file that holds its code: the program itself, or, for one of
    the path, the first file that it is given. Raises InputError."""
    plain = split_options(rest)[0]
    scheme_name, _, plain = plain.partition(":")
    try:
        words = shlex.split(plain)
    except ValueError as error:
        raise InputError(f"{rest[:100]!r}: the command cannot be read: {error}") from None
    if not words:
        raise InputError(f"{scheme_name}: name a program, as in {scheme_name}:./bot.sh")
    folder = opening.folder or Path.cwd()
    place = folder / words[0]
    if os.sep in words[0]:
        if not place.is_file():
            raise InputError(f"{rest[:100]}: there is no file {place}")
        words[0] = os.path.abspath(place)  # A link may be what makes an environment.
    else:
        files = (folder / word for word in words[1:])
        place = next((file for file in files if file.is_file()), place)
    return tuple(words), place


def start_of(command: tuple[str, ...], place: Path, opening: Opening, network: bool) -> Start:
    """How it is started: with nothing of ours in sight where the system can hide it. A probe shows
    it the archive, to see whether it looks."""
    settings, home = own_environment(), opening.workspace.home
    folder = opening.folder or Path.cwd()
    hidden = seen = tuple[Path, ...]()
    if not in_a_probe() and can_hide():
        # What is made there later is hidden as well.
        (home.root / "data").mkdir(parents=True, exist_ok=True)
        archive = getattr(opening.world, "archive", None)
        root = getattr(archive, "path", None)
        hidden, seen = hidden_places(
            home.root, root, settings.get("BEFOREHAND_DATA"), (place, folder, place.parent)
        )
    return Start(command, folder, clean_environment(), hidden, network, seen)


def _isolation(start: Start, opening: Opening, code: str | None, place: str) -> str:
    """How it is kept from the future, with what the last probe of it found."""
    found = last_probe(opening.workspace.home.probes, code, place)
    if found is not None and found["code"] == code and found["peeked"]:
        return "caught by a probe"
    if found is not None and found["code"] == code:
        return f"probed (0 of {found['n']:,} futures)"
    network = "" if start.network else "; without a network"
    how = HIDDEN if start.hidden and not start.shown else PARTLY if start.hidden else SHOWN
    return f"trusted ({how}{network})"


def _code(command: tuple[str, ...], place: Path, mapped: object) -> str:
    """The digest of what is run: the words, the file, the mapping."""
    own = file_digest(place) if place.is_file() else None
    return digest([*command[1:], own, mapped])
