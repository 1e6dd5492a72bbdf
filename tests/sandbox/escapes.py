"""Attempts to get out of the sandbox, by family.

Each is a program of its own. It is run with these globals: MARK (an empty folder that anybody may
write to), PORT (a loopback port with a TCP and a UDP listener), PID (a process to kill or trace)
and SECRET_FILE (a readable file whose text is also in the host's environment). Next to the secret
lies a unix socket, SECRET_FILE + ".sock", and an abstract socket bears the name "mark" and the
port. An attempt that works leaves a file in MARK, connects, ends PID, prints the secret, or prints
ESCAPED where a success has no other trace.
"""

_C = """
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
    "ctypes_fopen": _C
    + """
libc.fopen.restype = ctypes.c_void_p
handle = libc.fopen((MARK + "/fopen").encode(), b"w")
if handle: libc.fclose(ctypes.c_void_p(handle))
""",
    "ctypes_creat": _C + "worked(libc.creat((MARK + '/creat').encode(), 0o666), 'creat')",
    "openat2": _C
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
    "vfork_clone": _C
    + """
pid = call(nr(56, 220), 17, 0, 0, 0, 0)
if pid == 0:
    libc.creat((MARK + "/clone").encode(), 0o666)
    os._exit(0)
worked(pid, "clone")
""",
    "clone3": _C
    + """
args = (ctypes.c_uint64 * 11)(0, 0, 0, 0, 17)
pid = call(435, args, 88)
if pid == 0: os._exit(0)
worked(pid, "clone3")
""",
    "exec_shell": "import os\nos.execv('/bin/sh', ['sh', '-c', f'touch {MARK}/exec'])",
    "execveat": _C
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
    "kill_everyone": _C
    + """
if os.getpid() > 1 and os.getuid() == 65534:  # As another user it would end far too much.
    worked(libc.kill(-1, 0), "kill -1")
""",
    "kill_server_group": "import os\nos.killpg(os.getpgid(0), 0)\nprint('ESCAPED')",
    "pidfd": """
import os, signal
signal.pidfd_send_signal(os.pidfd_open(PID), 9)
""",
    "tgkill": _C + "worked(call(nr(234, 131), PID, PID, 9), 'tgkill')",
    "sigqueue": _C + "worked(libc.sigqueue(PID, 9, 0), 'sigqueue')",
    "ptrace_victim": _C + "worked(libc.ptrace(16, PID, 0, 0), 'ptrace')",
    "ptrace_me": _C + "worked(libc.ptrace(0, 0, 0, 0), 'traceme')",
    "read_other_memory": _C
    + """
store = ctypes.create_string_buffer(64)
here = (ctypes.c_size_t * 2)(ctypes.addressof(store), 64)
there = (ctypes.c_size_t * 2)(0x400000, 64)
worked(libc.process_vm_readv(os.getppid(), here, 1, there, 1, 0), "process_vm_readv")
""",
    "prctl_dumpable": _C + "worked(libc.prctl(4, 1, 0, 0, 0), 'dumpable')",
    "prctl_no_death_signal": _C + "worked(libc.prctl(1, 0, 0, 0, 0), 'pdeathsig')",
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
    "syscall_socket": _C + "worked(call(nr(41, 198), 2, 1, 0), 'socket')",
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
    "mmap_shellcode": _C
    + _MACHINE_CODE
    + """
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 4]
at = libc.mmap(None, 4096, 7, 0x22, -1, 0)
if at not in (None, 2**64 - 1):
    ctypes.memmove(at, code, len(code)); run_at(at)
""",
    "mprotect_shellcode": _C
    + _MACHINE_CODE
    + """
import mmap
page = mmap.mmap(-1, 4096)
page.write(code)
at = ctypes.addressof(ctypes.c_char.from_buffer(page))
if libc.mprotect(ctypes.c_void_p(at), 4096, 5) == 0: run_at(at)
""",
    "pkey_mprotect": _C
    + _MACHINE_CODE
    + """
import mmap
page = mmap.mmap(-1, 4096)
page.write(code)
at = ctypes.addressof(ctypes.c_char.from_buffer(page))
if call(nr(329, 288), ctypes.c_void_p(at), 4096, 5, -1) == 0: run_at(at)
""",
    "shared_memory_exec": _C
    + """
number = call(nr(29, 194), 0, 4096, 0o1777)
worked(number, "shmget")
if number >= 0: worked(call(nr(30, 196), number, None, 0o100000), "shmat")
""",
    "read_implies_exec": _C + "worked(libc.personality(0x0400000), 'personality')",
    "x32_fork": _C
    + """
if X86:
    pid = call(0x40000000 | 57)
    if pid == 0: os._exit(0)
    worked(pid, "x32")
""",
    "x32_open": _C
    + """
if X86: worked(call(0x40000000 | 2, (MARK + "/x32").encode(), 0o101, 0o666), "x32")
""",
    "int80_gadget": _C
    + """
if X86:
    start = ctypes.cast(libc.syscall, ctypes.c_void_p).value & ~0xFFF
    text = ctypes.string_at(start, 2**17)
    found = text.find(b"\\xcd\\x80")
    if found >= 0: worked(ctypes.CFUNCTYPE(ctypes.c_int)(start + found)(), "int80")
""",
    "patch_code_page": _C
    + """
at = ctypes.cast(libc.getppid, ctypes.c_void_p).value
ctypes.memmove(at, b"\\xc3", 1)
print("ESCAPED")
""",
    "closure_memory": _C
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
    "io_uring": _C + "worked(call(425, 4, (ctypes.c_uint32 * 30)()), 'io_uring')",
    "io_submit": _C + "worked(call(nr(206, 0), 1, ctypes.byref(ctypes.c_ulong())), 'aio')",
    "bpf": _C + "worked(call(nr(321, 280), 0, (ctypes.c_uint32 * 32)(1, 4, 4, 1), 72), 'bpf')",
    "unshare_user": _C + "worked(call(nr(272, 97), 0x10000000), 'unshare')",
    "unshare_files": _C + "worked(call(nr(272, 97), 0x00020000), 'unshare')",
    "setns": _C + "worked(call(nr(308, 268), 0, 0), 'setns')",
    "mount": _C
    + """
worked(libc.mount(b"none", MARK.encode(), b"tmpfs", 0, None), "mount")
""",
    "chroot": "import os\nos.chroot(MARK)\nprint('ESCAPED')",
    "keyctl": _C + "worked(call(nr(250, 219), 0, -3, 1), 'keyctl')",
    "add_key": _C + "worked(call(nr(248, 217), b'user', b'mark', b'x', 1, -3), 'add_key')",
    "memfd_exec": """
import os
fd = os.memfd_create("x", 0)
print("ESCAPED", flush=True)
os.write(fd, f"#!/bin/sh\\ntouch {MARK}/memfd\\n".encode())
os.execve(fd, ["x"], {})
""",
    "memfd_secret": _C + "worked(call(447, 0), 'memfd_secret')",
    "userfaultfd": _C + "worked(call(nr(323, 282), 1), 'userfaultfd')",
    "perf_event": _C
    + "worked(call(nr(298, 241), (ctypes.c_uint32 * 32)(1, 128), 0, -1, -1, 0), 'p')",
    "second_filter": _C + "worked(call(nr(317, 277), 1, 0, None), 'seccomp')",
    "notify_filter": _C + "worked(libc.prctl(22, 1, 0, 0, 0), 'strict')",
    "landlock_again": _C + "worked(call(444, None, 0, 1), 'landlock')",
    "kexec": _C + "worked(call(nr(246, 104), 0, 0, 0, 0), 'kexec')",
    "init_module": _C + "worked(call(nr(313, 273), 0, b'', 0), 'module')",
    "sysctl_time": "import time\ntime.clock_settime(0, 0)\nprint('ESCAPED')",
    "fanotify": _C + "worked(call(nr(300, 262), 0, 0), 'fanotify')",
    "inotify": _C + "worked(call(nr(294, 26), 0), 'inotify')",
    "message_queue": _C + "worked(call(nr(68, 186), 77, 0o1666), 'msgget')",
    "semaphores": _C + "worked(call(nr(64, 190), 77, 1, 0o1666), 'semget')",
    "uname": "import os\nprint('ESCAPED', os.uname().nodename)",
    "every_call": _C
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

_WALK = """
def every(kind):
    for sub in type.__subclasses__(kind):
        yield sub
        if sub is not type: yield from every(sub)
"""
INTERPRETER = {
    "wrap_close": _WALK
    + """
for kind in every(object):
    if kind.__name__ == "_wrap_close":
        kind.__init__.__globals__["system"](f"touch {MARK}/wrapclose")
""",
    "builtin_importer": _WALK
    + """
for kind in every(object):
    if kind.__name__ == "BuiltinImporter":
        posix = kind.load_module("posix")
        posix.close(posix.open(MARK + "/importer", 65, 0o666))
""",
    "catch_warnings": _WALK
    + """
for kind in every(object):
    if kind.__name__ == "catch_warnings":
        found = kind()._module.__builtins__
        found["open"](MARK + "/warnings", "w").close()
""",
    "subclass_globals": _WALK
    + """
for kind in every(object):
    space = getattr(getattr(kind, "__init__", None), "__globals__", {})
    if "sys" in space:
        os = space["sys"].modules.get("os") or space["sys"].modules["posix"]
        os.close(os.open(MARK + "/globals", 65, 0o666))
        break
""",
    "frames": """
def look():
    try:
        raise ValueError
    except ValueError as error:
        frame = error.__traceback__.tb_frame
    while frame:
        found = frame.f_globals.get("os") or frame.f_globals.get("builtins")
        if found and hasattr(found, "open"):
            if found.__name__ == "builtins": found.open(MARK + "/frame", "w").close()
            else: found.close(found.open(MARK + "/frame", 65, 0o666))
        frame = frame.f_back
look()
""",
    "generator_frames": """
def steps():
    yield g.gi_frame.f_back.f_back
g = steps()
frame = next(g)
while frame.f_back: frame = frame.f_back
print(list(frame.f_globals))
frame.f_builtins["open"](MARK + "/generator", "w").close()
""",
    "coroutine_frames": """
async def step(): pass
made = step()
made.cr_frame.f_builtins["__import__"]("os").mkdir(MARK + "/coroutine")
""",
    "getframe": "import sys\nsys._getframe(1).f_builtins['open'](MARK + '/getframe', 'w')",
    "module_chain": """
import json
json.codecs.builtins.open(MARK + "/chain", "w").close()
""",
    "random_os": "import random\nrandom._os.mkdir(MARK + '/random')",
    "statistics_sys": "import statistics\nstatistics.sys.modules['os'].mkdir(MARK + '/statistics')",
    "collections_sys": "import collections\ncollections._sys.modules['os'].mkdir(MARK + '/coll')",
    "re_enum": "import re\nre.enum.sys.modules['os'].mkdir(MARK + '/enum')",
    "asyncio_os": "import asyncio\nasyncio.events.os.mkdir(MARK + '/asyncio')",
    "asyncio_shell": """
import asyncio
p = await asyncio.create_subprocess_shell(f"touch {MARK}/shell")
await p.wait()
""",
    "asyncio_executor": """
import asyncio
await asyncio.get_running_loop().run_in_executor(None, open, MARK + "/executor", "w")
""",
    "gc_objects": """
import statistics
gc = statistics.sys.modules["gc"]
for found in gc.get_objects():
    if isinstance(found, dict) and found.get("__name__") == "posix":
        found["mkdir"](MARK + "/gc")
        break
""",
    "gc_secrets": """
import statistics
gc = statistics.sys.modules["gc"]
kinds = (str, bytes)
for found in gc.get_objects():
    if isinstance(found, (dict, list, tuple)):
        for part in (list(found.values()) if isinstance(found, dict) else found):
            if isinstance(part, kinds) and len(part) < 500: print(repr(part))
""",
    "new_code": """
def plain(): pass
kind = type(plain)
source = plain.__code__.replace(co_names=("open", "MARK"), co_consts=(None, "w"))
maker = type(source)
print(maker)
made = kind(source, {"__builtins__": plain.__globals__["__builtins__"]})
made.__builtins__["__import__"].__globals__["builtins"].open(MARK + "/code", "w").close()
""",
    "import_closure": """
cells = __import__.__closure__ or ()
for cell in cells:
    found = cell.cell_contents
    if callable(found): found("os").mkdir(MARK + "/closure")
""",
    "import_globals": "__import__.__globals__['builtins'].open(MARK + '/ig', 'w').close()",
    "blocked_closure": "open.__globals__['builtins'].open(MARK + '/bg', 'w').close()",
    "replace_builtins": """
import json
__builtins__.update(vars(json.codecs.builtins))
import os
os.mkdir(MARK + "/builtins")
""",
    "import_from_c": "__import__('time', fromlist=['x']).sleep(0)\n__import__('os', fromlist=['x']).mkdir(MARK + '/c')",
    "subclassed_name": """
class Name(str):
    def partition(self, _): return ("json", "", "")
__import__(Name("os")).mkdir(MARK + "/name")
""",
    "format_walk": """
import json
class Target: pass
text = "{0.codecs.builtins.open.__self__} {0.codecs.sys.modules[os].environ}".format(json)
print(text)
""",
    "string_formatter": """
import string
value, _ = string.Formatter().get_field("0._sys.modules", (__import__("collections"),), {})
value["os"].mkdir(MARK + "/formatter")
""",
    "exception_frame": """
try:
    import os
except ImportError as error:
    trace = error.__traceback__
    while trace.tb_next: trace = trace.tb_next
    trace.tb_frame.f_globals["builtins"].open(MARK + "/exception", "w").close()
""",
    "pickle": """
import pickle
pickle.loads(b"cposix\\nsystem\\n(S'touch " + MARK.encode() + b"/pickle'\\ntR.")
""",
    "metaclass_main": """
import sys
sys.modules["__main__"].__builtins__
sys.modules["__main__"].__dict__["sys"].modules["os"].mkdir(MARK + "/main")
""",
    "audit_and_trace": """
import sys
sys.settrace(lambda f, e, a: f.f_builtins["open"](MARK + "/trace", "w"))
(lambda: 0)()
""",
    "lru_globals": """
import functools
functools.wraps.__globals__["__builtins__"]["open"](MARK + "/functools", "w").close()
""",
    "at_exit": """
import atexit
atexit.register(lambda: open(MARK + "/exit", "w").close())
""",
}

DESCRIPTORS = {
    "write_all": """
import os
for fd in range(1024):
    try: os.write(fd, b"\\x00\\xff{}\\n")
    except OSError: pass
""",
    "read_all": """
import os
for fd in range(1024):
    if fd != 4:
        try: print("ESCAPED", fd, os.read(fd, 100))
        except OSError: pass
""",
    "close_all": """
import os
for fd in range(1024):
    try: os.close(fd)
    except OSError: pass
""",
    "forge_report": """
import os
os.write(3, b'{"result": "forged", "error": null, "layers": []}\\n')
os._exit(0)
""",
    "forge_deep_report": """
import os
os.write(3, b'{"result":' + b"[" * 60000 + b"\\n")
os._exit(0)
""",
    "forge_refusal": """
import os
os.write(3, b'{"refused": "no seccomp"}\\n{"refused": 1}\\n')
os._exit(71)
""",
    "forge_status": """
import os, struct
for fd in (5, 6, 7, 8):
    try: os.write(fd, struct.pack("<iiq", 0, 0, 0)); print("ESCAPED", fd)
    except OSError: pass
""",
    "other_jobs": """
import os
try: print("ESCAPED", os.read(0, 100))
except OSError: pass
import socket
s = socket.socket(fileno=0)
print("ESCAPED", s.recv(100))
""",
    "control_socket": """
import socket, struct
for fd in (0, 5, 6):
    try:
        s = socket.socket(fileno=fd)
        socket.send_fds(s, [struct.pack("<d?", 30.0, False)], [1, 1, 3, 4, 1])
        print("ESCAPED", fd)
    except (OSError, ValueError): pass
""",
    "send_descriptor": """
import socket
s = socket.socket(fileno=4)
socket.send_fds(s, [b"x"], [1])
print("ESCAPED")
""",
    "duplicate": "import os\nprint('ESCAPED', os.dup2(1, 9))",
    "fcntl": "import fcntl\nprint('ESCAPED', fcntl.fcntl(1, 1024 + 7, 4096))",
    "ioctl": "import fcntl\nfcntl.ioctl(1, 0x5412, b'x')\nprint('ESCAPED')",
    "terminal_input": "import fcntl\nfcntl.ioctl(0, 0x5412, b'x')\nprint('ESCAPED')",
    "sendfile": "import os\nos.sendfile(1, 4, 0, 10)\nprint('ESCAPED')",
    "pipe": "import os\nprint('ESCAPED', os.pipe())",
    "vector_write": "import os\nos.writev(1, [b'ESCAPED'])",
    "positional_read": "import os\nprint('ESCAPED', os.pread(1, 10, 0))",
    "tool_line_junk": """
import os
junk = [b"[", b"{}", b"[1]", b'[true, "x", [], {}]', b'[1, ["x"], [], {}]', b"[1e999, 1, [], {}]"]
junk += [b"[" * 5000, b"\\xff\\xfe", b'[NaN, "x", [], {}]', b"9" * 5000, b'"four"']
os.write(4, b"\\n".join(junk) + b"\\n")
""",
}

STATE = {
    "patch_builtins": """
import json
json.codecs.builtins.print = None
json.codecs.builtins.len = lambda _: 666
""",
    "patch_modules": """
import json, math, random, statistics
json.loads = json.dumps = None
math.sqrt = lambda _: 666
statistics.mean = lambda _: 666
random.random = lambda: 666
""",
    "patch_module_table": """
import statistics
statistics.sys.modules["json"] = statistics.sys.modules["math"] = None
""",
    "mutate_constants": """
import ctypes
number = 7
ctypes.c_int.from_address(id(number) + 24).value = 8
""",
    "mutate_type": """
import ctypes
space = ctypes.py_object.from_address(id(str.__dict__) + 16).value
space["upper"] = lambda self: "LEFT"
""",
    "leave_file": "open(MARK + '/left', 'w').write('x')",
    "leave_shared_memory": """
from multiprocessing import shared_memory
shared_memory.SharedMemory("left", create=True, size=100)
print("ESCAPED")
""",
    "leave_thread": """
import threading, time
threading.Thread(target=lambda: (time.sleep(0.3), open(MARK + "/late", "w"))).start()
print("ESCAPED")
""",
    "leave_alarm": "import signal\nsignal.setitimer(0, 0.01)\nprint('ESCAPED')",
    "ignore_signals": """
import signal
for number in range(1, 32):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
""",
    "leave_environment": "import os\nos.environ['LEFT'] = 'x'\nos.putenv('LEFT2', 'x')",
}

ENVIRONMENT = {
    "environment": "import os\nprint(dict(os.environ))\nprint(os.getenv('BEFOREHAND_TEST_SECRET'))",
    "environment_c": _C
    + """
libc.getenv.restype = ctypes.c_char_p
print(libc.getenv(b"BEFOREHAND_TEST_SECRET"))
""",
    "environment_block": _C
    + """
block = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, "environ")
i = 0
while block[i]:
    print(block[i]); i += 1
""",
    "parent_environment": "import os\nprint(open(f'/proc/{os.getppid()}/environ', 'rb').read())",
    "victim_environment": "print(open(f'/proc/{PID}/environ', 'rb').read())",
    "init_environment": """
for number in range(1, 400):
    try: print("ESCAPED", open(f"/proc/{number}/environ", "rb").read())
    except OSError: pass
""",
    "own_memory": "print('ESCAPED', open('/proc/self/mem', 'r+b'))",
    "victim_memory": "print('ESCAPED', open(f'/proc/{PID}/mem', 'rb'))",
    "command_lines": "print('ESCAPED', open('/proc/self/cmdline').read())",
    "maps": "print('ESCAPED', open('/proc/self/maps').read())",
    "host_name": "import socket\nprint('ESCAPED', socket.gethostname())",
    "users": "import pwd\nprint('ESCAPED', pwd.getpwall()[0])",
    "load": "import os\nprint('ESCAPED', os.getloadavg())",
}

FAMILIES = {
    "files": FILES,
    "processes": PROCESSES,
    "network": NETWORK,
    "memory": MEMORY,
    "kernel": KERNEL,
    "interpreter": INTERPRETER,
    "descriptors": DESCRIPTORS,
    "state": STATE,
    "environment": ENVIRONMENT,
}
ESCAPES: dict[str, str] = {
    f"{family}_{name}": source
    for family, found in FAMILIES.items()
    for name, source in found.items()
}
"""All of them, by family and name."""

UNGUARD = """
import json
__builtins__.update(vars(json.codecs.builtins))
del json
"""
"""Takes the guard off from inside, so that what follows meets the wall alone."""

CONTROLS = {
    "files_open_mark": "mark",
    "files_os_open_mark": "mark",
    "files_symlink": "mark",
    "files_ctypes_creat": "mark",
    "files_read_secret": "secret",
    "files_fileio": "secret",
    "processes_fork": "mark",
    "processes_subprocess": "mark",
    "processes_posix_spawn": "mark",
    "processes_kill_victim": "victim",
    "processes_thread": "escaped",
    "network_tcp": "tcp",
    "network_udp": "udp",
    "network_unix_socket": "unix",
    "network_abstract_socket": "abstract",
    "network_netlink": "escaped",
    "memory_mmap_shellcode": "escaped",
    "kernel_memfd_exec": "mark",
    "interpreter_wrap_close": "mark",
    "interpreter_module_chain": "mark",
    "interpreter_random_os": "mark",
    "descriptors_duplicate": "escaped",
    "state_leave_file": "mark",
    "environment_environment": "secret",
    "environment_victim_environment": "secret",
}
"""Attempts that plain Python carries out, and by what that is seen."""

CLOCK = """
import datetime
clock = datetime.datetime.__mro__[1]
print(clock.now(datetime.UTC).year)
"""
"""The real clock is there for those who look for it: known, and recorded by a test."""
