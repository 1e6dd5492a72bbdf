"""A classic BPF machine, as small as seccomp needs it (linux/filter.h), and the kernel's tables.

Written from the documentation of the instructions, not from the program under test.
"""

import struct

CLASS, SIZE_MODE = 0x07, 0xF8
LD, JMP, RET = 0x00, 0x05, 0x06
ALLOW, ERRNO, KILL = "allow", "refuse", "kill"
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003, "arm": 0x40000028}

CALLS = {
    # name: (x86_64, aarch64), from arch/x86/entry/syscalls/syscall_64.tbl and asm-generic/unistd.h
    "read": (0, 63),
    "write": (1, 64),
    "open": (2, None),
    "close": (3, 57),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "ioctl": (16, 29),
    "pread64": (17, 67),
    "writev": (20, 66),
    "dup": (32, 23),
    "getpid": (39, 172),
    "socket": (41, 198),
    "connect": (42, 203),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "sendmsg": (46, 211),
    "recvmsg": (47, 212),
    "bind": (49, 200),
    "socketpair": (53, 199),
    "clone": (56, 220),
    "fork": (57, None),
    "execve": (59, 221),
    "exit": (60, 93),
    "kill": (62, 129),
    "uname": (63, 160),
    "fcntl": (72, 25),
    "ptrace": (101, 117),
    "getppid": (110, 173),
    "setuid": (105, 146),
    "personality": (135, 92),
    "prctl": (157, 167),
    "setrlimit": (160, 164),
    "chroot": (161, 51),
    "mount": (165, 40),
    "futex": (202, 98),
    "clock_gettime": (228, 113),
    "exit_group": (231, 94),
    "keyctl": (250, 219),
    "openat": (257, 56),
    "unshare": (272, 97),
    "splice": (275, 76),
    "perf_event_open": (298, 241),
    "prlimit64": (302, 261),
    "process_vm_readv": (310, 270),
    "seccomp": (317, 277),
    "getrandom": (318, 278),
    "memfd_create": (319, 279),
    "bpf": (321, 280),
    "execveat": (322, 281),
    "userfaultfd": (323, 282),
    "pkey_mprotect": (329, 288),
    "pidfd_send_signal": (424, 424),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "clone3": (435, 435),
    "openat2": (437, 437),
    "pidfd_getfd": (438, 438),
    "landlock_create_ruleset": (444, 444),
}
ALWAYS = "close munmap brk getpid recvfrom exit futex clock_gettime exit_group getrandom".split()
BY_ARGUMENT = ("read", "write", "mmap", "mprotect")


def verdict(program: bytes, arch: int, number: int, *args: int) -> str:
    """What the filter says to a system call."""
    data = struct.pack("<IIQ6Q", number, arch, 0x7F00_0000_0000, *args, *([0] * (6 - len(args))))
    steps = list(struct.iter_unpack("<HBBI", program))
    at, value = 0, 0
    for _ in range(len(steps)):  # There are no jumps back: each step is taken once at most.
        code, yes, no, operand = steps[at]
        at += 1
        if code == 0x20:  # BPF_LD | BPF_W | BPF_ABS
            value = struct.unpack_from("<I", data, operand)[0]
        elif code & CLASS == JMP:
            met = {
                0x15: value == operand,
                0x25: value > operand,
                0x35: value >= operand,
                0x45: bool(value & operand),
            }[code]
            at += yes if met else no
        elif code == RET:
            action = operand & 0xFFFF0000
            if action == 0x00050000:
                return ERRNO if operand & 0xFFFF == 1 else f"errno {operand & 0xFFFF}"
            return {0x7FFF0000: ALLOW, 0x80000000: KILL}[action]
        else:
            raise AssertionError(f"instruction {code:#x} is none that seccomp takes here")
    raise AssertionError("the program ran over its end")


def jumps_stay_inside(program: bytes) -> bool:
    """Whether every jump lands on an instruction, and the last one returns (as the kernel asks)."""
    steps = list(struct.iter_unpack("<HBBI", program))
    inside = all(
        at + 1 + max(yes, no) < len(steps)
        for at, (code, yes, no, _) in enumerate(steps)
        if code & CLASS == JMP
    )
    return inside and steps[-1][0] == RET and len(steps) <= 4096
