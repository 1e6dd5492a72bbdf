"""The system calls that a jailed process may still make, as a classic BPF program.

Everything not named is refused with EPERM; a foreign architecture (and x32) kills. Reading and
writing are allowed on the jail's own descriptors only, memory may never become executable. The
program is data: tests run it in an interpreter of their own, for both architectures.

Layout of `struct seccomp_data`: nr at 0, arch at 4, the instruction pointer at 8, args at 16
(linux/seccomp.h); instructions are `struct sock_filter` (linux/filter.h).
"""

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
