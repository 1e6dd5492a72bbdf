"""Locking the current process in, with ctypes alone: limits, another user, Landlock, seccomp.

Runs in the forked child just before untrusted code. `lock` returns the layers that took hold and
raises OSError where seccomp did not: then nothing may run. Sources: prctl(2), seccomp(2),
landlock(7), linux/landlock.h.
"""

import ctypes
import os
import platform
import resource
import struct

from beforehand.sandbox import seccomp

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 1, 4, 38, 22
SECCOMP_MODE_FILTER = 2
LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF = 444, 446
"""The same numbers on both architectures."""
FILE_RIGHTS = (0, 13, 14, 15, 15, 16)
"""How many file rights each Landlock ABI knows (5 added ioctl)."""
NOBODY = 65534
_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def machine() -> str:
    """The architecture, as the kernel names it."""
    return platform.machine()


def limits(memory: int, timeout: float) -> None:
    """Resource limits: memory (bytes), processor seconds, and none of the rest."""
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
    code = seccomp.program(machine(), readable, writable)
    prog = _Program(len(code) // 8, code)
    _must(
        _libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(prog), 0, 0),
        "the seccomp filter",
    )
    layers.append("seccomp")
    return layers


def _become_nobody() -> bool:
    """False where a container holds root's privileges back; seccomp stands all the same."""
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
