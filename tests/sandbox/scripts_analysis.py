"""Scripts that compute over markets, with what plain CPython prints."""

from typing import Any

ANALYSIS: dict[str, tuple[str, dict[str, Any], str]] = {
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
}
