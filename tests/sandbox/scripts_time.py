"""Scripts over dates, order and tasks, with what plain CPython prints."""

from typing import Any

TIME: dict[str, tuple[str, dict[str, Any], str]] = {
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
