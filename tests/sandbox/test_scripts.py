"""Scripts as a model writes them: they print what plain Python prints."""

import subprocess
import sys
from typing import Any

import pytest

from beforehand.sandbox.engines import Sandbox
from beforehand.sandbox.policy import CODE_MODULES, Policy
from sandbox.policies import QUICK
from sandbox.scripts import CLOCKED, NOW, SCRIPTS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_prints_what_python_prints(engines: dict[str, tuple[Any, str]], name: str) -> None:
    source, given, expected = SCRIPTS[name]
    policy = Policy(timeout=5, now=NOW, modules=CODE_MODULES)
    done = engines["guarded"][0].run(source, given, policy)
    assert (done.error, done.output) == (None, expected)
    if name in CLOCKED:
        return
    program = (
        f"space = {{'__name__': '__main__', 'input_data': {given!r}, **{given!r}}}\n"
        f"exec(compile({source!r}, '<code>', 'exec', 0, True), space)"
    )
    plain = subprocess.run([sys.executable, "-X", "utf8", "-c", program], capture_output=True)
    assert plain.stdout.decode() == expected


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_in_monty_or_after_it_in_the_jail(fallback: Sandbox, name: str) -> None:
    source, given, expected = SCRIPTS[name]
    done = fallback.run(source, given, Policy(timeout=5, now=NOW, modules=CODE_MODULES))
    assert (done.error, done.output) == (None, expected)


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("print(round(2.675, 2))", "2.67\n"),
        ("print(any((hit := x) > 3 for x in [1, 5, 2]), hit)", "True 5\n"),
        ("import itertools\nprint(next(x for x in itertools.count() if x > 5))", "6\n"),
        ("import re\nprint(re.sub('a*', '-', 'baac'))", "-b--c-\n"),
    ],
)
def test_monty_computes_what_python_computes(fallback: Sandbox, code: str, printed: str) -> None:
    done = fallback.run(code, None, QUICK)
    assert (done.error, done.output) == (None, printed)
