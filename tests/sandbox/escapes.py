"""Attempts to get out of the sandbox, by family.

Each is a program of its own. It is run with these globals: MARK (an empty folder that anybody may
write to), PORT (a loopback port with a TCP and a UDP listener), PID (a process to kill or trace)
and SECRET_FILE (a readable file whose text is also in the host's environment). Next to the secret
lies a unix socket, SECRET_FILE + ".sock", and an abstract socket bears the name "mark" and the
port. An attempt that works leaves a file in MARK, connects, ends PID, prints the secret, or prints
ESCAPED where a success has no other trace.
"""

from sandbox.escapes_host import C_LIBRARY, FILES, KERNEL, MEMORY, NETWORK, PROCESSES

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
    "environment_c": C_LIBRARY
    + """
libc.getenv.restype = ctypes.c_char_p
print(libc.getenv(b"BEFOREHAND_TEST_SECRET"))
""",
    "environment_block": C_LIBRARY
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
import sys
del sys.modules["time"]
import time
print(time.gmtime()[0])
"""
"""Whoever takes the interpreter apart finds the real clock (no lock can keep a process from reading
the processor's): known, and recorded by a test."""
