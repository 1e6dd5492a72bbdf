"""The system-call filter as a program, for both architectures."""

import sys

import pytest

from beforehand.sandbox import lock
from sandbox import filters

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def filtered(machine: str, number: int, *args: int, arch: str | None = None) -> str:
    program = lock.program(machine, (4,), (1, 3, 4))
    return filters.verdict(program, filters.AUDIT[arch or machine], number, *args)


def known(machine: str) -> dict[str, int]:
    column = ("x86_64", "aarch64").index(machine)
    return {name: pair[column] for name, pair in filters.CALLS.items() if pair[column] is not None}


def test_the_filter_is_a_program_that_the_kernel_takes(machine: str) -> None:
    assert filters.jumps_stay_inside(lock.program(machine, (4,), (1, 3, 4)))


def test_the_filter_on_each_known_call(machine: str) -> None:
    for name, number in known(machine).items():
        if name in filters.BY_ARGUMENT:
            continue
        expected = filters.ALLOW if name in filters.ALWAYS else filters.ERRNO
        assert filtered(machine, number, 1, 1, 1) == expected, name


def test_the_filter_allows_few_of_all_calls(machine: str) -> None:
    """Whatever the arguments, what is not named is refused; the number is not decided by luck."""
    for args in ((0,) * 6, (1, 0, 7), (4, 0, 0), (2**64 - 1,) * 6):
        verdicts = [filtered(machine, number, *args) for number in range(1024)]
        assert verdicts.count(filters.ALLOW) <= 36
        assert set(verdicts) == {filters.ALLOW, filters.ERRNO}
    assert filtered(machine, 2**30 - 1) == filters.ERRNO


def test_the_filter_on_descriptors(machine: str) -> None:
    calls = known(machine)
    for fd in (*range(64), 1023, 2**31, 2**32 - 1):
        reads, writes = filtered(machine, calls["read"], fd), filtered(machine, calls["write"], fd)
        assert reads == (filters.ALLOW if fd == 4 else filters.ERRNO), fd
        assert writes == (filters.ALLOW if fd in (1, 3, 4) else filters.ERRNO), fd


@pytest.mark.parametrize("call", ["mmap", "mprotect"])
def test_the_filter_on_executable_memory(machine: str, call: str) -> None:
    number = known(machine)[call]
    for protection in range(16):
        expected = filters.ERRNO if protection & 4 else filters.ALLOW
        assert filtered(machine, number, 0, 4096, protection, 0x22) == expected


def test_the_filter_kills_foreign_architectures(machine: str) -> None:
    for arch in filters.AUDIT:
        if arch != machine:
            for number in (0, 3, 11, 39, 60, 172, 1024):
                assert filtered(machine, number, arch=arch) == filters.KILL


def test_the_filter_kills_the_numbers_of_x32() -> None:
    for number in (0, 1, 3, 39, 60, 231, 512, 547):
        assert filtered("x86_64", 0x4000_0000 | number) == filters.KILL
    assert filtered("x86_64", 0xFFFF_FFFF) == filters.KILL
    assert filtered("aarch64", 0x4000_0000 | 172) == filters.ERRNO


def test_no_machine_without_a_filter() -> None:
    with pytest.raises(KeyError):
        lock.program("riscv64", (4,), (1,))
