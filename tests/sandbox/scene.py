"""The host that an escape would touch, and what can be seen of it. Standard library only.

Run as a program it becomes an unprivileged user (or stays root, if told `root`), lets every escape loose on jails that it starts
itself, and prints what got out as JSON.
"""

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from sandbox.escapes import ESCAPES, UNGUARD

SECRET = "the-host-keeps-4711-to-itself"
VARIABLE = "BEFOREHAND_TEST_SECRET"
UNPRIVILEGED = 65534
PROBE = """
import json, math, statistics, random
print(len([1]), json.dumps([math.sqrt(4)]), statistics.mean([1, 3]), "x".upper(), 7 + 0)
print(sorted(k for k in globals() if not k.startswith("__")), random.random())
"""
"""The next run after an attempt: it prints the same every time, whatever was done before."""


class Scene:
    """A folder, a secret, listeners and a victim."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="scene"))
        self.folder.chmod(0o777)
        self.mark = self.folder / "mark"
        self.mark.mkdir()
        self.mark.chmod(0o777)  # No permission stands in the way: the sandbox has to.
        self.secret = self.folder / "secret"
        self.secret.write_text(SECRET)
        self.secret.chmod(0o666)
        os.environ[VARIABLE] = SECRET
        tcp = socket.create_server(("127.0.0.1", 0))
        self.port = tcp.getsockname()[1]
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", self.port))
        unix, abstract = (socket.socket(socket.AF_UNIX) for _ in range(2))
        path = f"{self.secret}.sock"
        unix.bind(path)
        Path(path).chmod(0o777)
        abstract.bind(f"\0mark{self.port}")
        unix.listen()
        abstract.listen()
        self.listening = {tcp: "tcp", udp: "udp", unix: "unix", abstract: "abstract"}
        self.victim = self._victim()

    def given(self) -> dict[str, Any]:
        """The globals of an attempt."""
        return {
            "MARK": str(self.mark),
            "PORT": self.port,
            "PID": self.victim.pid,
            "SECRET_FILE": str(self.secret),
        }

    def seen(self, said: str) -> set[str]:
        """What an attempt did that it must not be able to do; `said` is all that came back."""
        found = {
            kind for kind, sign in (("secret", SECRET), ("escaped", "ESCAPED")) if sign in said
        }
        if self.secret.exists() and self.secret.read_text() != SECRET:
            found.add("spoiled")
        for left in list(self.mark.iterdir()):
            found.add("mark")
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        ready, _, _ = select.select(list(self.listening), [], [], 0)
        for listener in ready:
            found.add(self.listening[listener])
            if listener.type == socket.SOCK_DGRAM:
                listener.recv(100)
            else:
                listener.accept()[0].close()
        if not self._victim_answers():
            found.add("victim")
            self.victim = self._victim()
        return found

    def _victim_answers(self) -> bool:
        """A process that was sent SIGKILL never answers again; poll() may still call it alive."""
        assert self.victim.stdin is not None
        assert self.victim.stdout is not None
        with suppress(BrokenPipeError):
            self.victim.stdin.write(b"?")
        # One that was stopped does not answer either.
        if select.select([self.victim.stdout], [], [], 5)[0] and self.victim.stdout.read(1):
            return True
        self._end_victim()
        return False

    def _end_victim(self) -> None:
        self.victim.kill()
        self.victim.wait()
        for pipe in (self.victim.stdin, self.victim.stdout):
            assert pipe is not None
            pipe.close()

    def close(self) -> None:
        """Take it all down."""
        os.environ.pop(VARIABLE, None)
        self._end_victim()
        for listener in self.listening:
            listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def _victim() -> subprocess.Popen[bytes]:
        return subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)


def attack(engine: Any, policy: Any, scene: Scene, names: list[str], before: str = "") -> list[str]:
    """Let attempts loose; what got out, or broke the engine, in a line each."""
    usual = said(engine.run(PROBE, None, policy))
    wrong = []
    for name in names:
        try:
            done = engine.run(before + ESCAPES[name], scene.given(), policy)
            found = scene.seen(said(done))
        except Exception as error:
            found = {f"raised {type(error).__name__}: {error}"}
        if said(engine.run(PROBE, None, policy)) != usual:
            found.add("the next run differs")
        wrong += [f"{name}: {', '.join(sorted(found))}"] if found else []
    return wrong


def said(done: Any) -> str:
    """All that comes back of a run."""
    return f"{done.output}\n{done.error}\n{done.result!r}\n{done.notes}"


def main() -> None:
    """Everything once more, as a user without privileges."""
    if os.getuid() == 0 and "root" not in sys.argv:
        os.setgroups([])
        os.setresgid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
        os.setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
    from beforehand.sandbox.jail import Jail
    from beforehand.sandbox.policy import CODE_MODULES, Policy

    policy = Policy(timeout=2, modules=CODE_MODULES)
    scene, report = Scene(), {}
    try:
        for name, jail, before in (
            ("unguarded", Jail(), UNGUARD),
            ("bare", Jail(bubblewrap=False, guard=False), ""),
        ):
            wrong = attack(jail, policy, scene, list(ESCAPES), before)
            report[name] = {"layers": jail.run("1", None, policy).layers, "wrong": wrong}
            jail.close()
    finally:
        scene.close()
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
