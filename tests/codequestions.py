"""Fifteen questions over a simulated world, each with the program that answers it. The program calls
tools as async functions, so that one scripted caller can run it in the sandbox, or make the same
calls one by one and read every answer."""

FIND = """
found = await search_polymarket_markets(query="{words}", session_id="q", limit={limit})
ids = [m["market_id"] for m in found["markets"]]
titles = {{m["market_id"]: m["title"] for m in found["markets"]}}
"""
ALL = """
markets = (await list_markets(limit=100))["markets"]
"""
QUESTIONS: dict[str, str] = {
    "What is the price of the market on the Jorvia pipeline index?": FIND.format(
        words="Jorvia pipeline index", limit=1
    )
    + """
print(titles[ids[0]], found["markets"][0]["prices"]["Yes"])
""",
    "Which five markets have the narrowest spread?": ALL
    + """
names = [m["market_id"] for m in markets]
prices = []
for first in range(0, len(names), 20):
    prices += (await get_prices(ids=names[first : first + 20]))["prices"]
spreads = [
    (round(p["ask"] - p["bid"], 6), p["market_id"]) for p in prices if p["ask"] and p["bid"]
]
print(sorted(spreads)[:5])
""",
    "How many markets are above 80 % or below 20 %?": ALL
    + """
prices = [m["prices"]["Yes"] for m in markets if m["prices"]]
print(sum(p > 0.8 for p in prices), sum(p < 0.2 for p in prices), len(prices))
""",
    "Which market has the largest volume, and what does it cost?": ALL
    + """
top = max(markets, key=lambda m: (m["volume"] or 0, m["market_id"]))
print(top["title"], top["volume"], top["prices"])
""",
    "How did the Jorvia markets move in February?": FIND.format(words="Jorvia index", limit=5)
    + """
for name in ids:
    days = {"start_date": "2025-02-01", "end_date": "2025-02-28"}
    moved = await get_market_price_range(market_id=name, **days)
    print(name, moved["price_change"]["yes"], moved["data_points"])
""",
    "Which of ten markets moved most in February?": ALL
    + """
import asyncio
names = sorted(m["market_id"] for m in markets)[:10]
days = {"start_date": "2025-02-01", "end_date": "2025-02-28"}
moves = await asyncio.gather(*[get_market_price_range(market_id=n, **days) for n in names])
changes = [(m["price_change"]["yes"], m["market_id"]) for m in moves]
print(max((abs(change), name) for change, name in changes if change is not None))
""",
    "How volatile was the Jorvia pipeline market, day by day?": FIND.format(
        words="Jorvia pipeline index", limit=1
    )
    + """
import statistics
points = (await get_price_history(id=ids[0]))["points"]
steps = [b["yes"] - a["yes"] for a, b in zip(points, points[1:])]
print(len(points), round(statistics.stdev(steps), 6))
""",
    "What was its highest price, and when?": FIND.format(words="Jorvia pipeline index", limit=1)
    + """
points = (await get_price_history(id=ids[0]))["points"]
top = max(points, key=lambda p: (p["yes"], p["time"]))
print(top["time"], top["yes"])
""",
    "How much can be bought of it within two cents of the best price?": FIND.format(
        words="Jorvia pipeline index", limit=1
    )
    + """
(book,) = (await get_order_books(ids=ids[:1]))["books"]
best = book["asks"][0][0] if book["asks"] else None
print(best, sum(size for price, size in book["asks"] if price <= best + 0.02) if best else 0)
""",
    "How old are the prices of ten markets?": ALL
    + """
found = await get_prices(ids=sorted(m["market_id"] for m in markets)[:10])
ages = sorted(p["age_seconds"] for p in found["prices"])
print(ages[0], ages[-1])
""",
    "Which reports on Jorvia were there in February?": """
found = (await search(query="Jorvia index", limit=20))["results"]
kept = sorted((r["timestamp"][:10], r["title"]) for r in found if r["timestamp"] >= "2025-02-01")
print(len(kept), kept[-3:])
""",
    "Which day had most reports on Jorvia?": """
from collections import Counter
found = (await search(query="Jorvia", limit=20))["results"]
days = Counter(r["timestamp"][:10] for r in found)
print(sorted(days.items(), key=lambda item: (-item[1], item[0]))[0])
""",
    "What is the mean price by resolution month?": ALL
    + """
from collections import defaultdict
months = defaultdict(list)
for m in markets:
    if m["prices"] and m["close_time"]:
        months[m["close_time"][:7]].append(m["prices"]["Yes"])
print({k: round(sum(v) / len(v), 4) for k, v in sorted(months.items())})
""",
    "Do the markets of one event add up to one?": """
events = (await list_events(limit=5))["events"]
for e in events:
    whole = await get_event(id=e["event_id"])
    print(e["event_id"], round(sum(m["prices"].get("Yes", 0) for m in whole["markets"]), 4))
""",
    "Is there a market on the moon of Liechtenstein?": FIND.format(
        words="moon of Liechtenstein", limit=10
    )
    + """
print([t for t in titles.values() if "Liechtenstein" in t] or "not found")
""",
}
