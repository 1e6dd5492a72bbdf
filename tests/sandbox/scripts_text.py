"""Scripts over text and formats, with what plain CPython prints."""

from typing import Any

TEXT: dict[str, tuple[str, dict[str, Any], str]] = {
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
}
