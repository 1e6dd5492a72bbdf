"""Analysis scripts of the kind that a model writes, with what plain CPython prints for each.

Each is (source, input, exact output). A test runs every one in plain Python too, except for those
that read the clock: they are checked against NOW, which stands still.
"""

from datetime import UTC, datetime
from typing import Any

NOW = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
CLOCKED = frozenset({"clock"})

SCRIPTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "moving_average": (
        r"""from collections import deque
from statistics import mean

def moving(values, size):
    window = deque(maxlen=size)
    for value in values:
        window.append(value)
        if len(window) == size:
            yield round(mean(window), 4)

for i, value in enumerate(moving(prices, 3), start=3):
    print(f"{i:>2}: {value:.4f}")
print("max drawdown:", round(max(max(prices[:i + 1]) - p for i, p in enumerate(prices)), 4))
""",
        {"prices": [0.41, 0.44, 0.43, 0.5, 0.47, 0.55, 0.52]},
        """\
 3: 0.4267
 4: 0.4567
 5: 0.4667
 6: 0.5067
 7: 0.5133
max drawdown: 0.03
""",
    ),
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
    "dates": (
        r"""from datetime import datetime, timedelta, date, timezone, UTC

opens = datetime.strptime("2024-02-28 14:30:00", "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
closes = opens + timedelta(days=2, hours=10)
print(opens.isoformat(), closes.isoformat(), (closes - opens).total_seconds())
print(closes.strftime("%a %d %b %Y %H:%M %Z week %V day %j"))
east = timezone(timedelta(hours=-5), "EST")
print(closes.astimezone(east), closes.astimezone(east).utcoffset())
print(datetime.fromisoformat("2024-03-10T02:30:00+02:00").astimezone(UTC))
days = [date(2024, 2, 27) + timedelta(n) for n in range(4)]
print([d.isoformat() for d in days], [d.weekday() for d in days])
print(date(2024, 12, 30).isocalendar(), (date(2025, 1, 1) - date(2024, 1, 1)).days)
print(divmod(timedelta(hours=50, minutes=7), timedelta(days=1)), timedelta(seconds=-1))
print(sorted([closes, opens])[0] == opens, isinstance(opens, datetime), type(opens).__name__)
print(repr(opens), datetime.max.year, datetime(2024, 1, 1) < datetime(2024, 1, 2))
print(datetime.fromtimestamp(1700000000, UTC), int(opens.timestamp()))
print(datetime.combine(date(2024, 5, 5), datetime.min.time()), opens.time(), opens.date())
try:
    datetime.strptime("31/02/2024", "%d/%m/%Y")
except ValueError as error:
    print(error)
""",
        {},
        """\
2024-02-28T14:30:00+00:00 2024-03-02T00:30:00+00:00 208800.0
Sat 02 Mar 2024 00:30 UTC week 09 day 062
2024-03-01 19:30:00-05:00 -1 day, 19:00:00
2024-03-10 00:30:00+00:00
['2024-02-27', '2024-02-28', '2024-02-29', '2024-03-01'] [1, 2, 3, 4]
datetime.IsoCalendarDate(year=2025, week=1, weekday=1) 366
(2, datetime.timedelta(seconds=7620)) -1 day, 23:59:59
True True datetime
datetime.datetime(2024, 2, 28, 14, 30, tzinfo=datetime.timezone.utc) 9999 True
2023-11-14 22:13:20+00:00 1709130600
2024-05-05 00:00:00 14:30:00 2024-02-28
day is out of range for month
""",
    ),
    "counting": (
        r"""from collections import Counter, defaultdict, ChainMap
import re

words = re.findall(r"[a-z']+", text.lower())
counts = Counter(words)
print(counts.most_common(3), counts.total())
by_length = defaultdict(list)
for word in sorted(set(words)):
    by_length[len(word)].append(word)
for length, found in sorted(by_length.items()):
    print(length, found)
print(Counter(a=3, b=1) - Counter(a=1, b=2), Counter(a=3) | Counter(b=2))
print(dict(ChainMap({"a": 1}, {"a": 2, "b": 3})))
""",
        {
            "text": "Will the Fed cut rates? The Fed won't cut, the market says; the market's price is 0.12."
        },
        """\
[('the', 4), ('fed', 2), ('cut', 2)] 16
2 ['is']
3 ['cut', 'fed', 'the']
4 ['says', 'will']
5 ['price', 'rates', "won't"]
6 ['market']
8 ["market's"]
Counter({'a': 2}) Counter({'a': 3, 'b': 2})
{'a': 1, 'b': 3}
""",
    ),
    "deque_window": (
        r"""from collections import deque

def rolling_max(values, size):
    best, out = deque(), []
    for i, value in enumerate(values):
        while best and values[best[-1]] <= value:
            best.pop()
        best.append(i)
        if best[0] <= i - size:
            best.popleft()
        if i >= size - 1:
            out.append(values[best[0]])
    return out

print(rolling_max(values, 3))
d = deque(values, maxlen=4)
d.rotate(1); d.appendleft(99)
print(d, d.index(99), list(reversed(d)))
""",
        {"values": [4, 2, 12, 3, 8, 8, 1, 0, 5]},
        """\
[12, 12, 12, 8, 8, 8, 5]
deque([99, 5, 8, 1], maxlen=4) 0 [1, 8, 5, 99]
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
    "sorting": (
        r"""from functools import cmp_to_key

def by_edge(a, b):
    return (b["model"] - b["market"] > a["model"] - a["market"]) - (
        b["model"] - b["market"] < a["model"] - a["market"])

for row in sorted(rows, key=cmp_to_key(by_edge)):
    print(f"{row['id']:<4}{row['model'] - row['market']:+.2f}")
print(sorted(rows, key=lambda r: (len(r["id"]), r["id"]), reverse=True)[0]["id"])
print(max(rows, key=lambda r: r["market"])["id"], min(r["model"] for r in rows))
order = {"b": 0, "a": 1}
print(sorted("abcab", key=lambda c: order.get(c, 9)))
""",
        {
            "rows": [
                {"id": "x1", "model": 0.6, "market": 0.5},
                {"id": "y", "model": 0.3, "market": 0.45},
                {"id": "zz", "model": 0.8, "market": 0.55},
            ]
        },
        """\
zz  +0.25
x1  +0.10
y   -0.15
zz
zz 0.3
['b', 'b', 'a', 'a', 'c']
""",
    ),
    "json_round_trip": (
        r"""import json
from datetime import date, datetime

class Encoder(json.JSONEncoder):
    def default(self, o):
        if isinstance(o, (date, datetime)):
            return o.isoformat()
        if isinstance(o, set):
            return sorted(o)
        return super().default(o)

text = json.dumps({"day": date(2024, 1, 2), "tags": {"b", "a"}, "p": 0.1, "n": None, "é": "ü"},
                  cls=Encoder, indent=2, sort_keys=True, ensure_ascii=False)
print(text)
back = json.loads(text, object_hook=lambda d: {k.upper(): v for k, v in d.items()})
print(back == json.loads(json.dumps(back)), back["TAGS"])
try:
    json.loads('{"a": }')
except json.JSONDecodeError as error:
    print(error.msg, error.pos)
print(json.dumps(input_data, separators=(",", ":")))
print(json.loads("[1e3, -0.0, 12345678901234567890, true]"))
""",
        {"nested": {"a": [1, {"b": [2.5, None, "x"]}]}, "flag": True},
        """\
{
  "day": "2024-01-02",
  "n": null,
  "p": 0.1,
  "tags": [
    "a",
    "b"
  ],
  "é": "ü"
}
True ['a', 'b']
Expecting value 6
{"nested":{"a":[1,{"b":[2.5,null,"x"]}]},"flag":true}
[1000.0, -0.0, 12345678901234567890, True]
""",
    ),
    "itertools_recipes": (
        r"""from itertools import (accumulate, chain, combinations, compress, cycle, dropwhile, groupby,
                       islice, pairwise, product, starmap, takewhile, tee, zip_longest)
import itertools

def chunked(xs, n):
    it = iter(xs)
    while part := tuple(islice(it, n)):
        yield part

def powerset(xs):
    s = list(xs)
    return chain.from_iterable(combinations(s, r) for r in range(len(s) + 1))

print(list(chunked("ABCDEFG", 3)))
print(list(powerset([1, 2, 3])))
print(list(accumulate(returns, lambda a, r: round(a * (1 + r), 6), initial=100)))
print([(k, len(list(g))) for k, g in groupby(sorted("mississippi"))])
print([b - a for a, b in pairwise([1, 4, 9, 16])])
a, b = tee(range(3)); next(b)
print(list(zip_longest(a, b, fillvalue="-")))
print(list(takewhile(lambda x: x < 3, cycle([1, 2, 3]))), list(dropwhile(bool, [1, 0, 2])))
print(list(compress("abcd", [1, 0, 1, 0])), list(starmap(pow, product([2, 3], [1, 2]))))
print(sum(1 for _ in itertools.permutations(range(5), 3)))
""",
        {"returns": [0.1, -0.05, 0.02]},
        """\
[('A', 'B', 'C'), ('D', 'E', 'F'), ('G',)]
[(), (1,), (2,), (3,), (1, 2), (1, 3), (2, 3), (1, 2, 3)]
[100, 110.0, 104.5, 106.59]
[('i', 4), ('m', 1), ('p', 2), ('s', 4)]
[3, 5, 7]
[(0, 1), (1, 2), (2, '-')]
[1, 2] [0, 2]
['a', 'c'] [2, 4, 3, 9]
60
""",
    ),
    "statistics_module": (
        r"""import statistics as st
from statistics import NormalDist

print(st.mean(xs), st.median(xs), st.mode(xs), round(st.stdev(xs), 6), round(st.pvariance(xs), 6))
print([round(q, 4) for q in st.quantiles(xs, n=4)], st.multimode(xs))
slope, intercept = st.linear_regression(range(len(xs)), xs)
print(round(slope, 6), round(intercept, 6), round(st.correlation(range(len(xs)), xs), 6))
n = NormalDist(52, 3.5)
print(round(1 - n.cdf(50), 6), round(n.inv_cdf(0.975), 6), NormalDist.from_samples(xs).mean)
print(round((n + NormalDist(1, 2)).stdev, 6), round(n.overlap(NormalDist(50, 3)), 6))
print(st.harmonic_mean([40, 60]), round(st.geometric_mean([54, 24, 36]), 6), st.fmean(xs, [1] * len(xs)))
try:
    st.mean([])
except st.StatisticsError as error:
    print(error)
""",
        {"xs": [48, 51, 49, 53, 55, 51, 56]},
        """\
51.857142857142854 51 51 2.968084 7.55102
[49.0, 51.0, 55.0] [51]
1.071429 48.642857 0.779813
0.716145 58.859874 51.857142857142854
4.031129 0.751313
48.0 36.0 51.857142857142854
mean requires at least one data point
""",
    ),
    "own_seed": (
        r"""import random

rng = random.Random(7)
print([rng.randint(1, 6) for _ in range(8)], round(rng.random(), 12))
random.seed(42)
print(round(random.random(), 12), random.sample(range(100), 5), random.choice("abc"))
print([round(rng.gauss(0, 1), 6) for _ in range(3)], rng.choices("HT", weights=[3, 1], k=10))
deck = list(range(10)); rng.shuffle(deck); print(deck)
state = random.getstate(); first = random.random(); random.setstate(state)
print(first == random.random(), round(random.Random(1).betavariate(2, 3), 9))
""",
        {},
        """\
[3, 2, 4, 6, 1, 1, 5, 1] 0.365688916913
0.639426798458 [3, 94, 35, 31, 28] a
[1.111917, 0.424147, 1.036879] ['H', 'H', 'H', 'T', 'H', 'H', 'H', 'T', 'H', 'H']
[5, 4, 6, 8, 1, 9, 7, 2, 0, 3]
True 0.118593663
""",
    ),
    "bootstrap": (
        r"""import random
from statistics import mean, quantiles

def brier(pairs):
    return mean((p - o) ** 2 for p, o in pairs)

rng = random.Random(seed)
pairs = list(zip(forecast, outcome, strict=True))
draws = sorted(brier(rng.choices(pairs, k=len(pairs))) for _ in range(500))
print(f"{brier(pairs):.6f} [{draws[12]:.6f}, {draws[487]:.6f}] {quantiles(draws, n=10)[4]:.6f}")
""",
        {"seed": 11, "forecast": [0.1, 0.8, 0.65, 0.3, 0.95, 0.5], "outcome": [0, 1, 1, 0, 1, 0]},
        """\
0.085833 [0.023750, 0.160833] 0.084792
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
    "matrices": (
        r"""import math

def multiply(a, b):
    return [[math.fsum(x * y for x, y in zip(row, col)) for col in zip(*b)] for row in a]

def power(m, n):
    size = range(len(m))
    out = [[float(i == j) for j in size] for i in size]
    while n:
        if n & 1: out = multiply(out, m)
        m, n = multiply(m, m), n >> 1
    return out

print([[round(x, 6) for x in row] for row in power(chain, 50)])
print(math.isqrt(10**20), math.comb(52, 5), math.gcd(84, 36), math.lcm(4, 6), math.dist([0, 0], [3, 4]))
print(math.isclose(0.1 + 0.2, 0.3), math.prod([1, 2, 3, 4]), math.floor(-2.5), math.erf(1), math.inf > 1)
print(2 ** 100, 7 // -2, -7 % 3, divmod(-7, 2), round(2.5), round(-0.125, 2), 0.1 + 0.2, 1e16, 1e22)
""",
        {"chain": [[0.9, 0.1], [0.4, 0.6]]},
        """\
[[0.8, 0.2], [0.8, 0.2]]
10000000000 2598960 12 12 5.0
True 24 -3 0.8427007929497149 True
1267650600228229401496703205376 -4 2 (-4, 1) 2 -0.12 0.30000000000000004 1e+16 1e+22
""",
    ),
    "order_book": (
        r"""class Book:
    def __init__(self):
        self.bids, self.asks, self.fills = [], [], []

    def add(self, side, price, size):
        mine, theirs = (self.bids, self.asks) if side == "buy" else (self.asks, self.bids)
        crosses = (lambda p: p <= price) if side == "buy" else (lambda p: p >= price)
        while size and theirs and crosses(theirs[0][0]):
            best, resting = theirs[0]
            taken = min(size, resting)
            self.fills.append((best, taken))
            size -= taken
            if taken == resting: theirs.pop(0)
            else: theirs[0] = (best, resting - taken)
        if size:
            mine.append((price, size))
            mine.sort(key=lambda o: o[0], reverse=side == "buy")

book = Book()
for order in orders:
    book.add(**order)
print(book.bids, book.asks, book.fills, sep="\n")
print(sum(p * s for p, s in book.fills) / sum(s for _, s in book.fills))
""",
        {
            "orders": [
                {"side": "buy", "price": 40, "size": 10},
                {"side": "sell", "price": 42, "size": 5},
                {"side": "sell", "price": 41, "size": 7},
                {"side": "buy", "price": 42, "size": 9},
                {"side": "sell", "price": 39, "size": 12},
            ]
        },
        """\
[]
[(39, 2), (42, 3)]
[(41, 7), (42, 2), (40, 10)]
40.578947368421055
""",
    ),
    "monte_carlo": (
        r"""import random, math
from collections import Counter

def simulate(rng, start, drift, vol, steps):
    x = math.log(start / (1 - start))
    for _ in range(steps):
        x += drift + vol * rng.gauss(0, 1)
    return 1 / (1 + math.exp(-x))

rng = random.Random(2024)
ends = [simulate(rng, 0.5, 0.01, 0.2, 30) for _ in range(300)]
print(round(sum(ends) / len(ends), 9))
buckets = Counter(int(p * 10) for p in ends)
for b in range(10):
    print(f"{b / 10:.1f}|{'█' * (buckets[b] // 4)}|")
""",
        {},
        """\
0.570383453
0.0||
0.1|████|
0.2|██████|
0.3|███████|
0.4|█████████|
0.5|██████████|
0.6|██████████|
0.7|██████████|
0.8|███████████|
0.9|████|
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
    "elo": (
        r"""from collections import defaultdict
ratings = defaultdict(lambda: 1500.0)
def expected(a, b): return 1 / (1 + 10 ** ((b - a) / 400))
for winner, loser in games:
    gain = 32 * (1 - expected(ratings[winner], ratings[loser]))
    ratings[winner] += gain
    ratings[loser] -= gain
for team, r in sorted(ratings.items(), key=lambda kv: -kv[1]):
    print(f"{team:<6}{r:>9.3f}  {expected(r, 1500):.4f}")
""",
        {"games": [["NYK", "BOS"], ["BOS", "LAL"], ["NYK", "LAL"], ["LAL", "NYK"], ["BOS", "NYK"]]},
        """\
BOS    1517.240  0.5248
NYK    1495.180  0.4931
LAL    1487.580  0.4821
""",
    ),
    "calibration_table": (
        r"""from collections import defaultdict
from statistics import fmean
import math

bins = defaultdict(list)
for p, y in data["pairs"]:
    bins[min(int(p * 5), 4)].append((p, y))
print(f"{'bin':<10}{'n':>3}{'mean p':>9}{'rate':>7}")
for b, rows in sorted(bins.items()):
    ps, ys = zip(*rows)
    print(f"{b / 5:.1f}-{(b + 1) / 5:.1f}   {len(rows):>3}{fmean(ps):>9.3f}{fmean(ys):>7.2f}")
log = fmean(-math.log(p if y else 1 - p) for p, y in data["pairs"])
print(f"log loss {log:.6f}")
""",
        {
            "data": {
                "pairs": [
                    [0.1, 0],
                    [0.15, 0],
                    [0.3, 1],
                    [0.35, 0],
                    [0.5, 1],
                    [0.55, 0],
                    [0.7, 1],
                    [0.75, 1],
                    [0.9, 1],
                    [0.95, 1],
                ]
            }
        },
        """\
bin         n   mean p   rate
0.0-0.2     2    0.125   0.00
0.2-0.4     2    0.325   0.50
0.4-0.6     2    0.525   0.50
0.6-0.8     2    0.725   1.00
0.8-1.0     2    0.925   1.00
log loss 0.419530
""",
    ),
    "asyncio_gather": (
        r"""import asyncio

async def price(name, delay):
    await asyncio.sleep(delay)
    return name, len(name)

async def main():
    found = await asyncio.gather(*(price(n, d) for n, d in [("slow", 0.02), ("quick", 0.0)]))
    print(found)
    async with asyncio.timeout(5):
        print(await price("timed", 0))
    queue = asyncio.Queue()
    async def produce():
        for i in range(3):
            await queue.put(i)
        await queue.put(None)
    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        total = 0
        while (item := await queue.get()) is not None:
            total += item
    print("total", total)
    try:
        await asyncio.wait_for(asyncio.sleep(9), 0.01)
    except TimeoutError:
        print("late")

asyncio.run(main())
""",
        {},
        """\
[('slow', 4), ('quick', 5)]
('timed', 5)
total 3
late
""",
    ),
    "asyncio_generators": (
        r"""import asyncio

class Feed:
    def __init__(self, items): self.items = items
    async def __aenter__(self): print("on"); return self
    async def __aexit__(self, *_): print("off")
    async def __aiter__(self):
        for item in self.items:
            await asyncio.sleep(0)
            yield item

async def main():
    async with Feed([3, 1, 2]) as feed:
        print([x * 10 async for x in feed if x > 1])
    lock, order = asyncio.Lock(), []
    async def worker(n):
        async with lock:
            order.append(n)
            await asyncio.sleep(0)
    await asyncio.gather(*map(worker, range(4)))
    print(order)

if __name__ == "__main__":
    asyncio.run(main())
""",
        {},
        """\
on
[30, 20]
off
[0, 1, 2, 3]
""",
    ),
    "clock": (
        r"""import datetime as dt
from datetime import date, datetime, timedelta, timezone

now = datetime.now(timezone.utc)
print(now.isoformat(), datetime.now(), datetime.today(), date.today())
print(now.strftime("%A %d %B %Y, %H:%M:%S"), now.date() == date.today(), now.timestamp())
print((datetime(2025, 3, 1, tzinfo=timezone.utc) - now).days, now - timedelta(days=2))
print(dt.datetime.now(dt.timezone(dt.timedelta(hours=9))).isoformat(), isinstance(now, datetime))
print(datetime.fromisoformat("2025-01-02T03:04:05+00:00") == now, type(now + timedelta(1)).__name__)
""",
        {},
        """\
2025-01-02T03:04:05+00:00 2025-01-02 03:04:05 2025-01-02 03:04:05 2025-01-02
Thursday 02 January 2025, 03:04:05 True 1735787045.0
57 2024-12-31 03:04:05+00:00
2025-01-02T12:04:05+09:00 True
True datetime
""",
    ),
}
