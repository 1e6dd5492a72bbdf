"""The sandbox under attack: nothing gets out, nothing makes its caller wait.

A claim that nothing happened is worth what its observation is worth: for each kind of effect there
is a control in which plain Python, or a weaker limit, does what the sandbox prevents.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

import beforehand
from beforehand.sandbox.jail import Jail
from beforehand.sandbox.policy import Policy
from sandbox.bombs import BOMBS
from sandbox.escapes import CLOCK, CONTROLS, ESCAPES, FAMILIES, UNGUARD
from sandbox.policies import ALLOWED_MB, BOMBED, QUICK, SLACK_S
from sandbox.scene import UNPRIVILEGED, Scene, attack
from sandbox.scripts import NOW

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("how", ["guarded", "unguarded", "off", "bare", "monty"])
def test_no_escape_has_an_effect_on_the_host(
    scene: Scene, engines: dict[str, tuple[Any, str]], how: str, family: str
) -> None:
    engine, before = engines[how]
    names = [f"{family}_{name}" for name in FAMILIES[family]]
    assert attack(engine, QUICK, scene, names, before) == []


@pytest.mark.parametrize("name", CONTROLS)
def test_control_the_same_attempt_in_plain_python_is_seen(scene: Scene, name: str) -> None:
    program = f"globals().update({scene.given()!r})\n{ESCAPES[name]}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20
    )
    assert CONTROLS[name] in scene.seen(done.stdout), done.stderr


def test_no_escape_as_a_user_without_privileges() -> None:
    """As root the code is first made nobody; without root the other layers stand alone."""
    if os.getuid() != 0:
        pytest.skip("the whole file already runs without privileges")
    # Nobody may not read every home: an interpreter of the same version will do.
    roots = [str(Path(beforehand.__file__).parents[1]), str(Path(__file__).parents[1])]
    packages = str(Path(orjson.__file__).parents[1])
    environment = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join([*roots, packages])}
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, shutil.which(name, path=os.defpath)):
        if python is None:
            continue
        started = [python, "-B", "-c", "import orjson, sandbox.scene, beforehand.sandbox.jail"]
        try:
            ready = subprocess.run(started, env=environment, user=UNPRIVILEGED, cwd="/", stderr=-3)
        except PermissionError:
            continue
        if ready.returncode == 0:
            break
    else:
        pytest.skip("no interpreter of this version can be read by a user without privileges")
    done = subprocess.run(
        [python, "-B", "-m", "sandbox.scene"],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {name: found["wrong"] for name, found in report.items()} == {"unguarded": [], "bare": []}
    assert all("seccomp" in found["layers"] for found in report.values())
    assert all("uid" not in found["layers"] for found in report.values())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the restrictions are x86-64's")
def test_no_escape_in_a_container() -> None:
    """Without namespaces and Landlock the seccomp filter stands alone, and holds."""
    folder = Path(__file__).parent
    roots = [str(Path(beforehand.__file__).parents[1]), str(folder.parent)]
    command = [sys.executable, str(folder / "contain.py"), sys.executable, "-m", "sandbox.scene"]
    done = subprocess.run(
        [*command, "root"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(roots)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    for found in report.values():
        assert found["wrong"] == []
        assert "seccomp" in found["layers"]
        assert not {"landlock", "bubblewrap"} & set(found["layers"])


def test_the_real_clock_can_be_found_and_that_is_known(jail: Jail) -> None:
    """t is kept from the code by what it is given, not by the clock: this is no wall."""
    done = jail.run(CLOCK, None, Policy(timeout=1, now=NOW))
    assert int(done.output) != NOW.year


def test_the_guard_is_taken_off_from_inside(engines: dict[str, tuple[Any, str]]) -> None:
    """Control: after the prelude the attempts meet the wall, and not an ImportError."""
    done = engines["guarded"][0].run(UNGUARD + "import os, ctypes\nos.getpid() > 0", None, QUICK)
    assert done.result is True


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_in_time_and_harms_nobody(jail: Jail, name: str) -> None:
    server = jail._process
    started = time.monotonic()
    done = jail.run(BOMBS[name], None, BOMBED)
    assert time.monotonic() - started <= BOMBED.timeout + SLACK_S
    assert done.peak_mb is None or done.peak_mb <= ALLOWED_MB
    assert len(done.output) <= BOMBED.output
    assert len(done.error or "") < 5_000
    orjson.dumps(done.wire())
    assert jail._process is server
    assert server is not None
    assert server.poll() is None
    assert jail.run("6 * 7", None, QUICK).result == 42


@pytest.mark.parametrize(
    "name",
    [
        "memory_list",
        "memory_text",
        "cpu_loop",
        "cpu_power",
        "cpu_regex",
        "output_print",
        "depth_data",
        "depth_result",
        "wait_async",
        "source_nested",
        "stubborn",
    ],
)
def test_a_bomb_in_monty(engines: dict[str, tuple[Any, str]], name: str) -> None:
    engine = engines["monty"][0]
    started = time.monotonic()
    done = engine.run(BOMBS[name], None, BOMBED)
    assert time.monotonic() - started <= BOMBED.timeout + SLACK_S
    assert len(done.output.encode()) <= BOMBED.output
    orjson.dumps(done.wire())
    assert engine.run("6 * 7", None, QUICK).result == 42


def test_control_the_limits_are_what_ends_a_bomb(jail: Jail) -> None:
    need = "a = bytearray(300 * 2**20)\nlen(a)"
    assert jail.run(need, None, QUICK).result == 300 * 2**20
    small = jail.run(need, None, Policy(timeout=1, memory=200 * 2**20))
    assert "MemoryError" in str(small.error)
    peak = jail.run(need, None, QUICK).peak_mb
    assert peak is not None
    assert 300 < peak < 400
    wait = "import time\ntime.sleep(0.6)\n'slept'"
    assert jail.run(wait, None, QUICK).result == "slept"
    assert "time limit of 0.2 s" in str(jail.run(wait, None, Policy(timeout=0.2)).error)
    assert jail.run("print('x' * 1000)", None, Policy(timeout=1, output=1001)).success
    assert "longer" in str(jail.run("print('x' * 1000)", None, Policy(timeout=1, output=999)).error)
