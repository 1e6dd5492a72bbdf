"""Programs that use up time, memory, output or descriptors.

Each either runs into a limit or is short by nature; none may make its caller wait, end the server
or hurt the next run. They run with all modules and without the guard.
"""

BOMBS: dict[str, str] = {
    # Memory, in many shapes
    "memory_list": "a = []\nwhile True: a.append([0] * 100_000)",
    "memory_bytes": "a = bytearray(10**12)",
    "memory_text": "a = 'x'\nwhile True: a += a",
    "memory_dict": "a = {}\ni = 0\nwhile True:\n    a[i] = i\n    i += 1",
    "memory_set_of_tuples": "a = set(tuple((i, i) for i in range(10**9)))",
    "memory_generator_to_list": "from itertools import repeat\nlist(repeat(0))",
    "memory_multiplied": "a = [[]] * 10**11",
    "memory_fstring": "a = f'{1:>9999999999}'",
    "memory_percent": "a = '%99999999999d' % 1",
    "memory_replace": "a = ('a' * 10**6).replace('a', 'b' * 10**6)",
    "memory_join": "a = ','.join(map(str, range(10**10)))",
    "memory_combinations": "from itertools import permutations\nlist(permutations(range(12)))",
    "memory_mmap": """
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 4]
while True:
    at = libc.mmap(None, 2**24, 3, 0x8021, -1, 0)
    if at in (None, 2**64 - 1): break
raise MemoryError("as far as it went")
""",
    "memory_stack": "import sys\nsys.setrecursionlimit(10**8)\ndef f(): return f()\nf()",
    "memory_ignored": """
a = []
while True:
    try:
        while True: a.append(bytearray(2**20))
    except MemoryError:
        pass
""",
    # Processor time that no signal handler of Python interrupts
    "cpu_loop": "while True: pass",
    "cpu_power": "a = 7 ** (7 ** 9)",
    "cpu_digits": "import sys\nsys.set_int_max_str_digits(0)\na = str(3 ** 10_000_000)",
    "cpu_factorial": "import math\nmath.factorial(50_000_000)",
    "cpu_regex": "import re\nre.match(r'(a|aa)+$', 'a' * 60 + 'b')",
    "cpu_sort": """
class Liar:
    def __lt__(self, other):
        return True
while True: sorted([Liar() for _ in range(10**5)])
""",
    "cpu_in_c": "from itertools import count\n-1 in count()",
    "cpu_hash_collisions": """
class Same(int):
    def __hash__(self): return 1
a = {Same(i): i for i in range(10**6)}
""",
    "cpu_comparison": "a = [0] * 10**7\nwhile a == list(a): pass",
    # Depth
    "depth_data": "a = []\nfor _ in range(10**6): a = [a]\nstr(a)",
    "depth_result": "a = []\nfor _ in range(10**5): a = [a]\na",
    "depth_json": "import json\njson.loads('[' * 10**6)",
    "depth_ast": "import ast\nast.parse('-' * 10**6 + '1')",
    "depth_compile": "compile('a' + '.b' * 10**5, 'x', 'eval')",
    "depth_regex": "import re\nre.compile('(' * 10**5 + ')' * 10**5)",
    "depth_exception_chain": """
def again(n):
    try: raise ValueError(n)
    except ValueError:
        if n: again(n - 1)
        raise
import sys
sys.setrecursionlimit(10**6)
again(10**5)
""",
    # Output
    "output_print": "while True: print('x' * 1000)",
    "output_one": "print('x' * 10**8)",
    "output_small_writes": "while True: print('x', end='')",
    "output_descriptor": "import os\nwhile True: os.write(1, b'\\xff' * 65536)",
    "output_report": "import os\nwhile True: os.write(3, b'{' * 65536)",
    "output_result": "'x' * 10**8",
    "output_result_list": "list(range(10**6))",
    "output_exception": "raise ValueError('x' * 10**8)",
    "output_exception_name": "raise type('x' * 10**7, (Exception,), {})",
    "output_exit_message": "raise SystemExit('x' * 10**8)",
    # Waiting
    "wait_sleep": "import time\ntime.sleep(1000)",
    "wait_async": "import asyncio\nawait asyncio.sleep(1000)",
    "wait_future": "import asyncio\nawait asyncio.get_running_loop().create_future()",
    "wait_lock": "import _thread\na = _thread.allocate_lock()\na.acquire(); a.acquire()",
    "wait_tools": "import os\nwhile True: os.read(4, 1)",
    "wait_stopped_signals": """
import signal, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: time.sleep(100)
""",
    # Processes and descriptors
    "fork_bomb": "import os\nwhile True: os.fork()",
    "fork_bomb_patient": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "thread_bomb": """
import _thread, time
while True:
    try: _thread.start_new_thread(time.sleep, (100,))
    except RuntimeError: pass
""",
    "descriptors": "import os\na = []\nwhile True: a.append(os.pipe())",
    "tasks": """
import asyncio
async def wait(): await asyncio.sleep(1000)
await asyncio.gather(*[wait() for _ in range(10**7)])
""",
    # Code that does not let go
    "stubborn": "while True:\n    try:\n        while True: pass\n    except BaseException: continue",
    "stubborn_del": """
class Again:
    def __del__(self): Again()
Again()
while True: Again()
""",
    "stubborn_repr": """
class Endless:
    def __repr__(self):
        while True: pass
Endless()
""",
    "stubborn_message": """
class Endless(Exception):
    def __str__(self):
        while True: pass
raise Endless
""",
    "stubborn_exit": "class E:\n    def __str__(self):\n        while True: pass\nraise SystemExit(E())",
    "stubborn_generator": """
def never():
    while True:
        try: yield
        except BaseException: pass
g = never(); next(g)
while True: g.close()
""",
    "stubborn_finally": "try:\n    raise ValueError\nfinally:\n    while True: pass",
    # The source itself
    "source_nested": "(" * 90 + "1" + ")" * 90 + "\n" + "[" * 500_000 + "]" * 500_000,
    "source_minus": "-" * 1_000_000 + "1",
    "source_sum": "+".join(["1"] * 500_000),
    "source_attributes": "a" + ".a" * 500_000,
    "source_lines": "x=1\n" * 250_000,
    "source_literal": "x = " + "9" * 1_000_000,
    "source_folding": "x = (((1 << 60) ** 20) ** 20) ** 20\ny = 'a' * 4000 * 4000 * 4000",
    "source_indents": "\n".join(" " * i + "if 1:" for i in range(1_000)),
    "source_strings": "x = " + "'a' " * 240_000,
    "source_fstrings": 'f"' + "{" * 300_000 + '"',
}
"""Programs by name; most run into the time limit."""
