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
    "regex_groups": (
        r'''import re

line = re.compile(
    r"""
    (?P<who>[A-Z]\w+)\s+(?P<verb>leads|trails)\s+
    (?P<by>\d+(?:\.\d+)?)%   # the margin
    (?:\s+in\s+(?P<where>[A-Z]{2}))?
    """,
    re.VERBOSE,
)
for m in line.finditer(polls):
    print(m.groupdict(), m.span("by"))
print(re.sub(r"(\d+)\.(\d+)", lambda m: f"{float(m[0]):.0f}", polls))
print(re.split(r"[;.]\s+", polls)[:2], bool(re.fullmatch(r"[\w\s%.;]+", polls)))
print(re.sub(r"(?i)\bLEADS\b", r"<\g<0>>", polls).count("<leads>"))
''',
        {
            "polls": "Smith leads 3.5% in PA; Jones trails 2% in MI; Brown leads 10.25%. Nobody wins."
        },
        """\
{'who': 'Smith', 'verb': 'leads', 'by': '3.5', 'where': 'PA'} (12, 15)
{'who': 'Jones', 'verb': 'trails', 'by': '2', 'where': 'MI'} (37, 38)
{'who': 'Brown', 'verb': 'leads', 'by': '10.25', 'where': None} (59, 64)
Smith leads 4% in PA; Jones trails 2% in MI; Brown leads 10%. Nobody wins.
['Smith leads 3.5% in PA', 'Jones trails 2% in MI'] True
2
""",
    ),
    "template_text": (
        r"""from string import Template, ascii_uppercase, digits, capwords, punctuation

t = Template("$name: ${price}c ($$${size})")
print(t.substitute(name="Fed", price=12, size=500))
print(t.safe_substitute(name="CPI"))
try:
    t.substitute(name="x")
except KeyError as error:
    print("missing", error)
print(ascii_uppercase[:5], digits, capwords("will it rain"), len(punctuation))
print("a,b".translate(str.maketrans({",": ";"})), "%-8s|%5.1f|%+d" % ("x", 2.25, 3))
print("{0:>8}|{1:^8}|{2:<8}|{3:08.3f}".format("a", "b", "c", 3.14159))
""",
        {},
        """\
Fed: 12c ($500)
CPI: ${price}c ($${size})
missing 'price'
ABCDE 0123456789 Will It Rain 32
a;b x       |  2.2|+3
       a|   b    |c       |0003.142
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
    "match_statement": (
        r"""class Point:
    __match_args__ = ("x", "y")
    def __init__(self, x, y): self.x, self.y = x, y

def read(event):
    match event:
        case {"type": "trade", "price": float() | int() as price, **rest} if price > 0:
            return f"trade at {price} {sorted(rest)}"
        case {"type": "book", "levels": [[best, _], *others]}:
            return f"book {best} and {len(others)} more"
        case [first, *_, last]:
            return f"from {first} to {last}"
        case Point(0, y):
            return f"on the axis at {y}"
        case "halt" | "pause":
            return "stopped"
        case None:
            return "nothing"
        case _:
            return f"unknown {type(event).__name__}"

for event in [*events, Point(0, 3), Point(1, 1)]:
    print(read(event))
""",
        {
            "events": [
                {"type": "trade", "price": 0.4, "id": 7},
                {"type": "trade", "price": -1},
                {"type": "book", "levels": [[0.41, 10], [0.4, 20]]},
                [1, 2, 3],
                "halt",
                None,
                5,
            ]
        },
        """\
trade at 0.4 ['id']
unknown dict
book 0.41 and 1 more
from 1 to 3
stopped
nothing
unknown int
on the axis at 3
unknown Point
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
    "unicode": (
        r"""names = {"São Paulo": 1, "Zürich": 2, "東京": 3, "Łódź": 4}
for name, n in sorted(names.items()):
    print(f"{name:·<12}|{n:>3}|{len(name.encode())}")
print("naïve café — “quotes” … ✓ 📈", "ß".upper(), "İ".lower() == "i̇")
print("\N{GREEK SMALL LETTER SIGMA}", ascii("é"), "é".encode("utf-8"), b"\xc3\xa9".decode())
print(note[::-1], note.casefold(), "ａ".isalpha(), "½".isnumeric(), "٣".isdigit(), int("٣"))
""",
        {"note": "Ärger 50€"},
        """\
São Paulo···|  1|10
Zürich······|  2|7
Łódź········|  4|7
東京··········|  3|6
naïve café — “quotes” … ✓ 📈 SS True
σ '\\xe9' b'\\xc3\\xa9' é
€05 regrÄ ärger 50€ True True True 3
""",
    ),
    "formatting": (
        r"""value, width = 1234567.891, 15
print(f"{value:,.2f}|{value:>{width}_.1f}|{value:e}|{0.1234:.1%}|{42:#x}|{42:08b}|{-5:+}")
print(f"{'x':*^9}|{[1, 2]!s:>8}|{'q'!r}|{value!r:.6}|{{braces}}|{3 if value else 4}")
for head, p in [("yes", 0.375), ("no", 0.625)]:
    print(f"{head:<5}{p:>8.3f}{'#' * round(p * 16):>20}")
print(*[1, 2, 3], sep=" / ", end=" !\n")
print("a\tb".expandtabs(4), "x".zfill(3), "A-b".swapcase(), "one two".title(), sep="\n")
""",
        {},
        """\
1,234,567.89|    1_234_567.9|1.234568e+06|12.3%|0x2a|00101010|-5
****x****|  [1, 2]|'q'|123456|{braces}|3
yes     0.375              ######
no      0.625          ##########
1 / 2 / 3 !
a   b
00x
a-B
One Two
""",
    ),
    "errors_and_tracebacks": (
        r"""class MarketClosed(Exception):
    def __init__(self, market, *, reason="settled"):
        super().__init__(f"{market} is {reason}")
        self.market = market

def trade(market):
    if market not in open_markets:
        raise MarketClosed(market)
    return {"A": 1}[market]

for m in ["A", "B", "C"]:
    try:
        value = trade(m)
    except MarketClosed as error:
        print("closed:", error, error.market, error.args)
    except KeyError as error:
        print("key:", error)
    else:
        print("value:", value)
    finally:
        print("done", m)
try:
    int("x")
except ValueError as error:
    error.add_note("while reading")
    print(error, error.__notes__)
assert open_markets, "none"
""",
        {"open_markets": ["A", "B"]},
        """\
value: 1
done A
key: 'B'
done B
closed: C is settled C ('C is settled',)
done C
invalid literal for int() with base 10: 'x' ['while reading']
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
