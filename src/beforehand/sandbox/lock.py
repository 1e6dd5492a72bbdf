"""Locking the current process in, with ctypes alone: limits, another user, Landlock, seccomp.

Runs in the forked child just before untrusted code. `lock` returns the layers that are active, and
raises OSError where seccomp is not: then nothing may run. Sources: prctl(2), seccomp(2),
landlock(7), linux/landlock.h.

`program` gives the seccomp filter, the system calls that a jailed process may still make, as a
classic BPF program. Every other call is refused with EPERM; a call of a foreign architecture (or
x32) kills the process. Reading and writing are allowed on the jail's own descriptors only, and
memory may never become executable. The program is data: tests run it in an interpreter of their
own, for both architectures.

Layout of `struct seccomp_data`: nr at 0, arch at 4, the instruction pointer at 8, args at 16
(linux/seccomp.h); instructions are `struct sock_filter` (linux/filter.h).
"""

import ctypes
import os
import platform
import resource
import struct

LOAD, JEQ, JGE, JSET, RET = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | 1
"""The verdicts; REFUSE carries EPERM."""
NR, ARCH, ARG0, ARG2 = 0, 4, 16, 32
PROT_EXEC = 4
X32 = 0x40000000
ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_NUMBERS = {
    # name: (x86_64, aarch64); None where the architecture has no such call
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "nanosleep": (35, 101),
    "getpid": (39, 172),
    "recvfrom": (45, 207),
    "exit": (60, 93),
    "gettimeofday": (96, 169),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "time": (201, None),
    "futex": (202, 98),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "epoll_wait": (232, None),
    "epoll_ctl": (233, 21),
    "set_robust_list": (273, 99),
    "epoll_pwait": (281, 22),
    "getrandom": (318, 278),
    "rseq": (334, 293),
}
_READ, _WRITE = (0, 63), (1, 64)
_MMAP, _MPROTECT = (9, 222), (10, 226)
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 1, 4, 38, 22
SECCOMP_MODE_FILTER = 2
LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF = 444, 446
"""The same numbers on both architectures."""
FILE_RIGHTS = (0, 13, 14, 15, 15, 16)
"""How many file rights each Landlock ABI knows (5 added ioctl)."""
NOBODY = 65534
_libc = ctypes.CDLL(None, use_errno=True)


def program(machine: str, readable: tuple[int, ...], writable: tuple[int, ...]) -> bytes:
    """The filter for `machine` (x86_64 or aarch64), with the descriptors that may be read and
    written. Raises KeyError for another machine: nothing is run there."""
    arch = ARCHES[machine]
    column = 0 if machine == "x86_64" else 1
    code: list[tuple[int, int, int, int]] = [
        (LOAD, 0, 0, ARCH),
        (JEQ, 1, 0, arch),
        (RET, 0, 0, KILL),
        (LOAD, 0, 0, NR),
    ]
    if machine == "x86_64":
        code += [(JGE, 0, 1, X32), (RET, 0, 0, KILL)]
    numbers = [number for pair in _NUMBERS.values() if (number := pair[column]) is not None]
    for number in sorted(numbers):
        code += [(JEQ, 0, 1, number), (RET, 0, 0, ALLOW)]
    for pair in (_MMAP, _MPROTECT):
        code += _when(pair[column], [(LOAD, 0, 0, ARG2), (JSET, 0, 1, PROT_EXEC)], REFUSE, ALLOW)
    for pair, descriptors in ((_READ, readable), (_WRITE, writable)):
        tests: list[tuple[int, int, int, int]] = [(LOAD, 0, 0, ARG0)]
        for left, fd in zip(range(len(descriptors) - 1, -1, -1), descriptors, strict=True):
            tests.append((JEQ, left, 0 if left else 1, fd))
        code += _when(pair[column], tests, ALLOW, REFUSE)
    code.append((RET, 0, 0, REFUSE))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _when(
    number: int, tests: list[tuple[int, int, int, int]], met: int, unmet: int
) -> list[tuple[int, int, int, int]]:
    """For system call `number`: `met` if the last of the tests jumps true, else `unmet`."""
    body = [*tests, (RET, 0, 0, met), (RET, 0, 0, unmet)]
    return [(JEQ, 0, len(body), number), *body]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def machine() -> str:
    """The architecture, as the kernel names it."""
    return platform.machine()


def limits(memory: int, timeout: float) -> None:
    """Resource limits: memory (bytes), processor seconds, 8 MiB of stack, 16 descriptors; none of
    the other resources."""
    seconds = int(timeout) + 2
    for kind, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_STACK, 8 * 2**20),
        (resource.RLIMIT_NOFILE, 16),
    ):
        hard = resource.getrlimit(kind)[1]
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (allowed, allowed))


def lock(readable: tuple[int, ...], writable: tuple[int, ...]) -> list[str]:
    """Give up everything but reading and writing these descriptors. Returns the layers."""
    layers = ["rlimits"]
    if os.getuid() == 0 and _become_nobody():
        layers.append("uid")
    _libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)
    if os.getppid() == 1:  # The server died before this was set.
        raise OSError("the server is gone")
    _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    _must(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    layers.append("no_new_privs")
    if _landlock():
        layers.append("landlock")
    code = program(machine(), readable, writable)
    prog = _Program(len(code) // 8, code)
    _must(
        _libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(prog), 0, 0),
        "the seccomp filter",
    )
    layers.append("seccomp")
    return layers


def _become_nobody() -> bool:
    """False where a container withholds root's privileges; seccomp is still applied."""
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError:
        return False
    return True


def _landlock() -> bool:
    """Forbid every file, TCP, abstract sockets and signals, as far as this kernel knows them."""
    version = _libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    files = (1 << FILE_RIGHTS[min(version, len(FILE_RIGHTS) - 1)]) - 1
    rights = struct.pack("<QQQ", files, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _libc.syscall(LANDLOCK_CREATE_RULESET, rights, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    restricted = _libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    return bool(restricted == 0)


def _must(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what} could not be set: {os.strerror(error)}")
