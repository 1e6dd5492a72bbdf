"""Attempts on files, processes, the network, memory and the kernel."""

C_LIBRARY = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
call = libc.syscall
call.restype = ctypes.c_long
X86 = "x86_64" in sys.implementation._multiarch
def nr(x86, arm):
    return x86 if X86 else arm
def worked(value, what):
    if value >= 0:
        print("ESCAPED", what, value)
"""

FILES = {
    "open_passwd": """
text = open("/etc/passwd").read()
if "root:" in text: print("ESCAPED", text)
""",
    "open_mark": "open(MARK + '/open', 'w').write('x')",
    "open_append_tmp": "open(MARK + '/append', 'a').close()",
    "read_secret": "print(open(SECRET_FILE).read())",
    "os_open_mark": """
import os
fd = os.open(MARK + "/osopen", os.O_CREAT | os.O_WRONLY, 0o666)
os.write(fd, b"x")
""",
    "posix_open_secret": """
import posix
print(posix.read(posix.open(SECRET_FILE, 0), 1000))
""",
    "fileio": """
import _io
print(_io.FileIO(SECRET_FILE).read())
""",
    "fileio_opener": """
import io
io.FileIO(MARK + "/opener", "w", opener=lambda p, f: __import__("os").open(p, f | 64, 0o666))
""",
    "io_open_code": "import io\nprint(io.open_code(SECRET_FILE).read())",
    "pathlib": "import pathlib\n(pathlib.Path(MARK) / 'pathlib').touch()",
    "symlink": "import os\nos.symlink(SECRET_FILE, MARK + '/link')",
    "hard_link": "import os\nos.link(SECRET_FILE, MARK + '/hard')",
    "mkdir": "import os\nos.mkdir(MARK + '/folder')",
    "mkfifo": "import os\nos.mkfifo(MARK + '/fifo')",
    "rename_secret": "import os\nos.rename(SECRET_FILE, MARK + '/moved')",
    "list_folder": """
import os
names = os.listdir(os.path.dirname(SECRET_FILE))
if names: print("ESCAPED", names)
""",
    "change_folder": "import os\nos.chdir('/tmp')\nprint('ESCAPED', os.getcwd())",
    "openat_by_folder": """
import os
folder = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
print(os.read(os.open(SECRET_FILE.lstrip("/"), 0, dir_fd=folder), 1000))
""",
    "proc_root": "print(open('/proc/self/root' + SECRET_FILE).read())",
    "tempfile": "import tempfile\ntempfile.NamedTemporaryFile(dir=MARK, delete=False)",
    "sqlite": "import sqlite3\nsqlite3.connect(MARK + '/db').execute('create table t(a)')",
    "logging_handler": "import logging\nlogging.FileHandler(MARK + '/log').emit",
    "linecache": "import linecache\nprint(linecache.getlines(SECRET_FILE))",
    "tokenize_open": "import tokenize\nprint(tokenize.open(SECRET_FILE).read())",
    "ctypes_fopen": C_LIBRARY
    + """
libc.fopen.restype = ctypes.c_void_p
handle = libc.fopen((MARK + "/fopen").encode(), b"w")
if handle: libc.fclose(ctypes.c_void_p(handle))
""",
    "ctypes_creat": C_LIBRARY + "worked(libc.creat((MARK + '/creat').encode(), 0o666), 'creat')",
    "openat2": C_LIBRARY
    + """
how = (ctypes.c_uint64 * 3)(0o101, 0o666, 0)
worked(call(437, -100, (MARK + "/openat2").encode(), how, 24), "openat2")
""",
    "truncate_secret": "import os\nos.truncate(SECRET_FILE, 0)\nprint('ESCAPED')",
    "chmod_secret": "import os\nos.chmod(SECRET_FILE, 0o777)\nprint('ESCAPED')",
    "loader_data": """
import importlib.machinery as m
print(m.SourceFileLoader("x", SECRET_FILE).get_data(SECRET_FILE))
""",
}

PROCESSES = {
    "fork": """
import os
if os.fork() == 0:
    open(MARK + "/fork", "w").close()
    os._exit(0)
""",
    "vfork_clone": C_LIBRARY
    + """
pid = call(nr(56, 220), 17, 0, 0, 0, 0)
if pid == 0:
    libc.creat((MARK + "/clone").encode(), 0o666)
    os._exit(0)
worked(pid, "clone")
""",
    "clone3": C_LIBRARY
    + """
args = (ctypes.c_uint64 * 11)(0, 0, 0, 0, 17)
pid = call(435, args, 88)
if pid == 0: os._exit(0)
worked(pid, "clone3")
""",
    "exec_shell": "import os\nos.execv('/bin/sh', ['sh', '-c', f'touch {MARK}/exec'])",
    "execveat": C_LIBRARY
    + """
argv = (ctypes.c_char_p * 4)(b"sh", b"-c", f"touch {MARK}/execveat".encode(), None)
call(nr(322, 281), -100, b"/bin/sh", argv, None, 0)
""",
    "system": "import os\nos.system(f'touch {MARK}/system')",
    "popen": "import os\nos.popen(f'touch {MARK}/popen').read()",
    "subprocess": "import subprocess\nsubprocess.run(['touch', MARK + '/subprocess'])",
    "fork_exec": """
import _posixsubprocess, os
_posixsubprocess.fork_exec
import subprocess
subprocess._USE_VFORK = False
subprocess.Popen(["/bin/sh", "-c", f"touch {MARK}/forkexec"]).wait()
""",
    "posix_spawn": """
import os
pid = os.posix_spawn("/bin/sh", ["sh", "-c", f"touch {MARK}/spawn"], {})
os.waitpid(pid, 0)
""",
    "multiprocessing": """
import multiprocessing as m
p = m.get_context("fork").Process(target=lambda: open(MARK + "/mp", "w").close())
p.start(); p.join()
""",
    "kill_victim": "import os\nos.kill(PID, 9)",
    "kill_parent": "import os\nos.kill(os.getppid(), 9)\nprint('ESCAPED')",
    "kill_everyone": C_LIBRARY
    + """
if os.getpid() > 1 and os.getuid() == 65534:  # As another user it would end far too much.
    worked(libc.kill(-1, 0), "kill -1")
""",
    "kill_server_group": "import os\nos.killpg(os.getpgid(0), 0)\nprint('ESCAPED')",
    "pidfd": """
import os, signal
signal.pidfd_send_signal(os.pidfd_open(PID), 9)
""",
    "tgkill": C_LIBRARY + "worked(call(nr(234, 131), PID, PID, 9), 'tgkill')",
    "sigqueue": C_LIBRARY + "worked(libc.sigqueue(PID, 9, 0), 'sigqueue')",
    "ptrace_victim": C_LIBRARY + "worked(libc.ptrace(16, PID, 0, 0), 'ptrace')",
    "ptrace_me": C_LIBRARY + "worked(libc.ptrace(0, 0, 0, 0), 'traceme')",
    "read_other_memory": C_LIBRARY
    + """
store = ctypes.create_string_buffer(64)
here = (ctypes.c_size_t * 2)(ctypes.addressof(store), 64)
there = (ctypes.c_size_t * 2)(0x400000, 64)
worked(libc.process_vm_readv(os.getppid(), here, 1, there, 1, 0), "process_vm_readv")
""",
    "prctl_dumpable": C_LIBRARY + "worked(libc.prctl(4, 1, 0, 0, 0), 'dumpable')",
    "prctl_no_death_signal": C_LIBRARY + "worked(libc.prctl(1, 0, 0, 0, 0), 'pdeathsig')",
    "setrlimit": """
import resource
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
print("ESCAPED")
""",
    "setrlimit_soft": """
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
print("ESCAPED")
""",
    "setuid_root": "import os\nos.setuid(0)\nprint('ESCAPED', os.getuid())",
    "setsid": "import os\nos.setsid()\nprint('ESCAPED')",
    "nice": "import os\nos.sched_setaffinity(PID, {0})\nprint('ESCAPED')",
    "thread": """
import _thread, time
_thread.start_new_thread(lambda: print("ESCAPED"), ())
time.sleep(0.05)
""",
    "wait_for_siblings": "import os\nprint('ESCAPED', os.wait())",
}

_CONNECT = "s.connect(('127.0.0.1', PORT)); s.sendall(b'x')"
NETWORK = {
    "tcp": f"import socket\ns = socket.socket()\n{_CONNECT}",
    "tcp6": "import socket\nsocket.socket(socket.AF_INET6).connect(('::ffff:127.0.0.1', PORT))",
    "create_connection": "import socket\nsocket.create_connection(('localhost', PORT))",
    "raw_module": f"import _socket\ns = _socket.socket(2, 1)\n{_CONNECT}",
    "udp": "import socket\nsocket.socket(2, 2).sendto(b'x', ('127.0.0.1', PORT))",
    "asyncio_tcp": "import asyncio\nawait asyncio.open_connection('127.0.0.1', PORT)",
    "unix_socket": """
import socket
socket.socket(socket.AF_UNIX).connect(SECRET_FILE + ".sock")
""",
    "abstract_socket": """
import socket
socket.socket(socket.AF_UNIX).connect(f"\\0mark{PORT}")
""",
    "netlink": """
import socket
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
s.bind((0, 0))
print("ESCAPED", s.getsockname())
""",
    "vsock": "import socket\nprint('ESCAPED', socket.socket(40, 1))",
    "packet_socket": "import socket\nprint('ESCAPED', socket.socket(17, 3, 768))",
    "dns": "import socket\nprint('ESCAPED', socket.getaddrinfo('localhost', PORT, 0, 1))",
    "listen": """
import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
print("ESCAPED", s.getsockname())
""",
    "urllib": "import urllib.request\nurllib.request.urlopen(f'http://127.0.0.1:{PORT}', timeout=1)",
    "syscall_socket": C_LIBRARY + "worked(call(nr(41, 198), 2, 1, 0), 'socket')",
    "socketpair": "import socket\nprint('ESCAPED', socket.socketpair())",
}

_MACHINE_CODE = """
code = b"\\xb8\\x2a\\x00\\x00\\x00\\xc3" if X86 else b"\\x40\\x05\\x80\\x52\\xc0\\x03\\x5f\\xd6"
def run_at(address):
    print("ESCAPED", ctypes.CFUNCTYPE(ctypes.c_int)(address)())
"""
MEMORY = {
    "mmap_exec": """
import mmap
mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)
print("ESCAPED")
""",
    "mmap_shellcode": C_LIBRARY
    + _MACHINE_CODE
    + """
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 4]
at = libc.mmap(None, 4096, 7, 0x22, -1, 0)
if at not in (None, 2**64 - 1):
    ctypes.memmove(at, code, len(code)); run_at(at)
""",
    "mprotect_shellcode": C_LIBRARY
    + _MACHINE_CODE
    + """
import mmap
page = mmap.mmap(-1, 4096)
page.write(code)
at = ctypes.addressof(ctypes.c_char.from_buffer(page))
if libc.mprotect(ctypes.c_void_p(at), 4096, 5) == 0: run_at(at)
""",
    "pkey_mprotect": C_LIBRARY
    + _MACHINE_CODE
    + """
import mmap
page = mmap.mmap(-1, 4096)
page.write(code)
at = ctypes.addressof(ctypes.c_char.from_buffer(page))
if call(nr(329, 288), ctypes.c_void_p(at), 4096, 5, -1) == 0: run_at(at)
""",
    "shared_memory_exec": C_LIBRARY
    + """
number = call(nr(29, 194), 0, 4096, 0o1777)
worked(number, "shmget")
if number >= 0: worked(call(nr(30, 196), number, None, 0o100000), "shmat")
""",
    "read_implies_exec": C_LIBRARY + "worked(libc.personality(0x0400000), 'personality')",
    "x32_fork": C_LIBRARY
    + """
if X86:
    pid = call(0x40000000 | 57)
    if pid == 0: os._exit(0)
    worked(pid, "x32")
""",
    "x32_open": C_LIBRARY
    + """
if X86: worked(call(0x40000000 | 2, (MARK + "/x32").encode(), 0o101, 0o666), "x32")
""",
    "int80_gadget": C_LIBRARY
    + """
if X86:
    start = ctypes.cast(libc.syscall, ctypes.c_void_p).value & ~0xFFF
    text = ctypes.string_at(start, 2**17)
    found = text.find(b"\\xcd\\x80")
    if found >= 0: worked(ctypes.CFUNCTYPE(ctypes.c_int)(start + found)(), "int80")
""",
    "patch_code_page": C_LIBRARY
    + """
at = ctypes.cast(libc.getppid, ctypes.c_void_p).value
ctypes.memmove(at, b"\\xc3", 1)
print("ESCAPED")
""",
    "closure_memory": C_LIBRARY
    + """
kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
back = kind(lambda a, b: 0)
items = (ctypes.c_int * 4)(3, 1, 2, 0)
libc.qsort(items, 4, 4, back)
libc.creat((MARK + "/closure").encode(), 0o666)
""",
    "wild_pointer": "import ctypes\nctypes.memset(0x10, 0, 8)\nprint('ESCAPED')",
}

KERNEL = {
    "io_uring": C_LIBRARY + "worked(call(425, 4, (ctypes.c_uint32 * 30)()), 'io_uring')",
    "io_submit": C_LIBRARY + "worked(call(nr(206, 0), 1, ctypes.byref(ctypes.c_ulong())), 'aio')",
    "bpf": C_LIBRARY
    + "worked(call(nr(321, 280), 0, (ctypes.c_uint32 * 32)(1, 4, 4, 1), 72), 'bpf')",
    "unshare_user": C_LIBRARY + "worked(call(nr(272, 97), 0x10000000), 'unshare')",
    "unshare_files": C_LIBRARY + "worked(call(nr(272, 97), 0x00020000), 'unshare')",
    "setns": C_LIBRARY + "worked(call(nr(308, 268), 0, 0), 'setns')",
    "mount": C_LIBRARY
    + """
worked(libc.mount(b"none", MARK.encode(), b"tmpfs", 0, None), "mount")
""",
    "chroot": "import os\nos.chroot(MARK)\nprint('ESCAPED')",
    "keyctl": C_LIBRARY + "worked(call(nr(250, 219), 0, -3, 1), 'keyctl')",
    "add_key": C_LIBRARY + "worked(call(nr(248, 217), b'user', b'mark', b'x', 1, -3), 'add_key')",
    "memfd_exec": """
import os
fd = os.memfd_create("x", 0)
print("ESCAPED", flush=True)
os.write(fd, f"#!/bin/sh\\ntouch {MARK}/memfd\\n".encode())
os.execve(fd, ["x"], {})
""",
    "memfd_secret": C_LIBRARY + "worked(call(447, 0), 'memfd_secret')",
    "userfaultfd": C_LIBRARY + "worked(call(nr(323, 282), 1), 'userfaultfd')",
    "perf_event": C_LIBRARY
    + "worked(call(nr(298, 241), (ctypes.c_uint32 * 32)(1, 128), 0, -1, -1, 0), 'p')",
    "second_filter": C_LIBRARY + "worked(call(nr(317, 277), 1, 0, None), 'seccomp')",
    "notify_filter": C_LIBRARY + "worked(libc.prctl(22, 1, 0, 0, 0), 'strict')",
    "landlock_again": C_LIBRARY + "worked(call(444, None, 0, 1), 'landlock')",
    "kexec": C_LIBRARY + "worked(call(nr(246, 104), 0, 0, 0, 0), 'kexec')",
    "init_module": C_LIBRARY + "worked(call(nr(313, 273), 0, b'', 0), 'module')",
    "sysctl_time": "import time\ntime.clock_settime(0, 0)\nprint('ESCAPED')",
    "fanotify": C_LIBRARY + "worked(call(nr(300, 262), 0, 0), 'fanotify')",
    "inotify": C_LIBRARY + "worked(call(nr(294, 26), 0), 'inotify')",
    "message_queue": C_LIBRARY + "worked(call(nr(68, 186), 77, 0o1666), 'msgget')",
    "semaphores": C_LIBRARY + "worked(call(nr(64, 190), 77, 1, 0o1666), 'semget')",
    "uname": "import os\nprint('ESCAPED', os.uname().nodename)",
    "every_call": C_LIBRARY
    + """
harmless = {nr(60, 93), nr(231, 94), nr(15, 139), nr(219, 128), nr(35, 101), nr(3, 57), nr(11, 215)}
harmless |= {nr(230, 115), nr(202, 98), nr(232, 22), nr(281, 22), nr(24, 124), nr(34, 22)}
harmless |= {335, 336}  # uretprobe and uprobe: no filter sees them, and they end the caller
allowed = []
for number in range(500):
    if number in harmless: continue
    ctypes.set_errno(0)
    if call(number, -1, -1, -1, -1, -1, -1) == -1 and ctypes.get_errno() != 1:
        allowed.append(number)
if len(allowed) > 40: print("ESCAPED", allowed)
""",
}
