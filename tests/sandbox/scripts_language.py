"""Scripts that use the language in its breadth, with what plain CPython prints."""

from typing import Any

LANGUAGE: dict[str, tuple[str, dict[str, Any], str]] = {
    "class_hierarchy": (
        r'''import math

class Instrument:
    """What can be priced."""
    count = 0

    def __init__(self, name: str) -> None:
        self.name = name
        type(self).count += 1
        Instrument.count += type(self) is not Instrument

    def price(self) -> float:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.price():.3f}>"

class Binary(Instrument):
    def __init__(self, name, p):
        super().__init__(name)
        self._p = p

    @property
    def p(self):
        return self._p

    @p.setter
    def p(self, value):
        if not 0 <= value <= 1:
            raise ValueError(f"{value} is no probability")
        self._p = value

    def price(self):
        return self.p

class Scaled(Binary):
    __slots__ = ()

    def price(self):
        return super().price() * 100

    @classmethod
    def from_odds(cls, name, odds):
        return cls(name, 1 / odds)

    @staticmethod
    def logit(p):
        return math.log(p / (1 - p))

items = [Binary("a", 0.25), Scaled.from_odds("b", 4), Binary("c", 0.9)]
print(items, Instrument.count, Binary.count, Scaled.count)
try:
    items[0].p = 1.5
except ValueError as error:
    print("refused:", error)
try:
    Instrument("x").price()
except NotImplementedError as error:
    print(type(error).__name__, [k.__name__ for k in Scaled.__mro__])
print(round(Scaled.logit(0.9), 6))
''',
        {},
        """\
[<Binary a 0.250>, <Scaled b 25.000>, <Binary c 0.900>] 3 2 2
refused: 1.5 is no probability
NotImplementedError ['Scaled', 'Binary', 'Instrument', 'object']
2.197225
""",
    ),
    "generators": (
        r"""import itertools

def ticks():
    price = 50
    while True:
        step = yield price
        price += step if step is not None else 1

def pipeline(source, *stages):
    for stage in stages:
        source = stage(source)
    yield from source

g = ticks()
print(next(g), g.send(5), next(g), g.send(-10))
g.close()
evens = lambda xs: (x for x in xs if x % 2 == 0)
squares = lambda xs: (x * x for x in xs)
print(list(itertools.islice(pipeline(itertools.count(1), evens, squares), 5)))

def summing():
    total = 0
    try:
        while True:
            total += yield total
    finally:
        print("closed at", total)

s = summing(); next(s)
for n in (1, 2, 3):
    s.send(n)
s.close()
""",
        {},
        """\
50 55 56 46
[4, 16, 36, 64, 100]
closed at 6
""",
    ),
    "decorators": (
        r'''from functools import wraps, partial, reduce, lru_cache, cached_property, total_ordering

def logged(prefix):
    def outer(function):
        @wraps(function)
        def inner(*args, **kwargs):
            result = function(*args, **kwargs)
            print(f"{prefix} {function.__name__}{args} -> {result}")
            return result
        return inner
    return outer

@logged("call")
def kelly(p, b):
    """Bet size."""
    return round((p * (b + 1) - 1) / b, 4)

kelly(0.6, 1.0)
print(kelly.__doc__, kelly.__name__)

@lru_cache(maxsize=None)
def paths(n, k):
    return 1 if k in (0, n) else paths(n - 1, k - 1) + paths(n - 1, k)

print(paths(60, 30), paths.cache_info().misses)

@total_ordering
class Bid:
    def __init__(self, price): self.price = price
    def __eq__(self, other): return self.price == other.price
    def __lt__(self, other): return self.price < other.price
    @cached_property
    def heavy(self):
        print("once")
        return self.price * 2

a, b = Bid(1), Bid(2)
print(a <= b, a > b, max(a, b).price, b.heavy, b.heavy)
print(partial(pow, 2)(10), reduce(lambda x, y: x * y, range(1, 8)))
''',
        {},
        """\
call kelly(0.6, 1.0) -> 0.2
Bet size. kelly
118264581564861424 960
once
True False 2 4 4
1024 5040
""",
    ),
    "singledispatch": (
        r"""from functools import singledispatch, singledispatchmethod

@singledispatch
def show(value):
    return f"? {value!r}"

@show.register
def _(value: int):
    return f"int {value:,}"

@show.register(float)
def _(value):
    return f"float {value:.2%}"

@show.register(list)
@show.register(tuple)
def _(value):
    return "[" + ", ".join(map(show, value)) + "]"

class Report:
    @singledispatchmethod
    def add(self, item): raise TypeError(type(item).__name__)
    @add.register
    def _(self, item: str): return item.upper()

print(show([1234567, 0.256, (None, True), "x"]))
print(Report().add("ok"))
try:
    Report().add(3)
except TypeError as error:
    print("TypeError:", error)
""",
        {},
        """\
[int 1,234,567, float 25.60%, [? None, int 1], ? 'x']
OK
TypeError: int
""",
    ),
    "namedtuples": (
        r"""from collections import namedtuple, OrderedDict

Trade = namedtuple("Trade", "market side size price", defaults=[0.5])

trades = [Trade(**t) for t in rows]
for t in sorted(trades, key=lambda t: (-t.size, t.market)):
    print(t)
print(trades[0]._replace(size=0), Trade._fields, trades[0]._asdict())
market, side, *rest = trades[1]
print(market, side, rest)
d = OrderedDict((t.market, t.size) for t in trades)
d.move_to_end("A")
print(list(d.items()))
""",
        {
            "rows": [
                {"market": "A", "side": "yes", "size": 10},
                {"market": "B", "side": "no", "size": 25, "price": 0.31},
                {"market": "C", "side": "yes", "size": 10, "price": 0.9},
            ]
        },
        """\
Trade(market='B', side='no', size=25, price=0.31)
Trade(market='A', side='yes', size=10, price=0.5)
Trade(market='C', side='yes', size=10, price=0.9)
Trade(market='A', side='yes', size=0, price=0.5) ('market', 'side', 'size', 'price') {'market': 'A', 'side': 'yes', 'size': 10, 'price': 0.5}
B no [25, 0.31]
[('B', 25), ('C', 10), ('A', 10)]
""",
    ),
    "main_guard": (
        r'''"""A script as people write it."""
from __future__ import annotations
import math

LIMIT: int = 3

def entropy(ps: list[float]) -> float | None:
    return -sum(p * math.log2(p) for p in ps if p > 0) or None

def main() -> int:
    global LIMIT
    LIMIT += 1
    print(f"{entropy([0.5, 0.25, 0.25])=} {LIMIT=} {__name__=}")
    print(entropy.__annotations__, main.__qualname__, __doc__)
    return 0

if __name__ == "__main__":
    main()
''',
        {},
        """\
entropy([0.5, 0.25, 0.25])=1.5 LIMIT=4 __name__='__main__'
{'ps': 'list[float]', 'return': 'float | None'} main A script as people write it.
""",
    ),
    "context_managers": (
        r"""class Ledger:
    def __init__(self): self.lines = []
    def __enter__(self):
        self.lines.append("open")
        return self
    def __exit__(self, kind, error, trace):
        self.lines.append(f"close {kind.__name__ if kind else None}")
        return kind is ZeroDivisionError

ledger = Ledger()
with ledger as l:
    l.lines.append("work")
with ledger:
    1 / 0
try:
    with ledger, Ledger() as other:
        raise KeyError("k") from ValueError("cause")
except KeyError as error:
    print(repr(error), repr(error.__cause__), other.lines)
finally:
    print(ledger.lines)
try:
    raise ExceptionGroup("two", [ValueError(1), TypeError("x")])
except* ValueError as group:
    print("values", group.exceptions)
except* TypeError as group:
    print("types", group.exceptions)
""",
        {},
        """\
KeyError('k') ValueError('cause') ['open', 'close KeyError']
['open', 'work', 'close None', 'open', 'close ZeroDivisionError', 'open', 'close KeyError']
values (ValueError(1),)
types (TypeError('x'),)
""",
    ),
    "walrus_and_unpacking": (
        r"""import re
rows = [m.groups() for line in log if (m := re.match(r"(\w+)=(\d+)", line))]
print(rows, {k: int(v) for k, v in rows})
a, *b, c = range(6)
print(a, b, c, [*b, *"xy"], {**{"k": 1}, "j": 2})
while (n := len(rows)) > 1:
    rows.pop()
print(n, any([(hit := x) > 3 for x in [1, 5, 2]]), hit)
def f(a, /, b=2, *args, c, d=4, **kw): return a, b, args, c, d, kw
print(f(1, 3, 5, c=6, e=7))
x = y = []
x += [1]; print(y, (lambda *a, **k: (a, k))(1, z=2))
""",
        {"log": ["bid=40", "junk", "ask=44", "last=42"]},
        """\
[('bid', '40'), ('ask', '44'), ('last', '42')] {'bid': 40, 'ask': 44, 'last': 42}
0 [1, 2, 3, 4] 5 [1, 2, 3, 4, 'x', 'y'] {'k': 1, 'j': 2}
1 True 2
(1, 3, (5,), 6, 4, {'e': 7})
[1] ((1,), {'z': 2})
""",
    ),
    "short_circuit": (
        r"""def seen(x):
    looked.append(x)
    return x > threshold

looked = []
print(any(seen(x) for x in prices), looked)
first = next((x for x in prices if x > threshold), None)
print(first, all((last := x) < threshold for x in prices), last)
""",
        {"prices": [1, 5, 2, 9], "threshold": 3},
        """\
True [1, 5]
5 False 5
""",
    ),
    "mutable_state": (
        r"""def counter():
    n = 0
    def step(by=1):
        nonlocal n
        n += by
        return n
    return step

c, d = counter(), counter()
print(c(), c(5), d(), c.__closure__[0].cell_contents)
grid = [[0] * 3 for _ in range(2)]
grid[0][1] = 5
print(grid, [row[:] for row in grid] == grid, sum(map(sum, grid)))
s = slice(None, None, -2)
print(list(range(9))[s], "abcdef"[1:-1:2], set("abca") == {"a", "b", "c"}, frozenset([1]) | {2})
data = list(range(5)); data[1:3] = ["x"]; del data[-1]
print(data, [*map(str, data)], dict(zip("ab", data)), list(enumerate("ab", 1)))
print(isinstance(True, int), type(1j), hash("") == 0, id(data) == id(data), callable(print), vars(type("T", (), {"a": 1}))["a"])
""",
        {},
        """\
1 6 1 6
[[0, 5, 0], [0, 0, 0]] True 5
[8, 6, 4, 2, 0] bd True frozenset({1, 2})
[0, 'x', 3] ['0', 'x', '3'] {'a': 0, 'b': 'x'} [(1, 'a'), (2, 'b')]
True <class 'complex'> True True True 1
""",
    ),
}
