"""Score tables drawn straight from simulated worlds, with the expected skill beside them."""

from dataclasses import replace

import numpy as np

from beforehand.clock import to_us
from beforehand.score.table import Disk, Table, relabel
from beforehand.world.simulate import SimConfig, draw

FORECASTERS = {
    "shrunk": lambda m, truth: 0.5 + 0.8 * (m - 0.5),
    "sharpened": lambda m, truth: m**1.2 / (m**1.2 + (1 - m) ** 1.2),
    "truth": lambda m, truth: truth,
}


def table(config: SimConfig, step: int = 7) -> tuple[Table, dict[str, float]]:
    """The world's weekly rows, and each forecaster's expected skill under the latent truth."""
    markets = [m for m in draw(config) if m.payout is not None]
    q, t, price, truth = [], [], [], []
    for i, market in enumerate(markets):
        days = np.arange(0, len(market.truth), step)
        q.append(np.full(len(days), i))
        t.append(to_us(market.opened) + days * 86_400_000_000)
        price.append(market.price[days])
        truth.append(market.truth[days])
    rows, m, latent = np.concatenate(q), np.concatenate(price), np.concatenate(truth)
    months = np.array([m.resolved.year * 12 + m.resolved.month for m in markets])
    n, size = len(rows), len(markets)
    nothing = np.full(n, np.nan)
    made = Table(
        questions=[str(i) for i in range(size)],
        q=rows,
        t=np.concatenate(t),
        market=m,
        price_age=np.zeros(n),
        strict=np.ones(n, dtype=bool),
        evidence=np.zeros(n, dtype=np.int64),
        bid=nothing,
        ask=nothing,
        y=np.array([m.payout for m in markets], dtype=float),
        event=relabel(np.array([m.event for m in markets])),
        period=relabel(months),
        resolved_at=np.array([to_us(m.resolved) for m in markets]),
        play=np.zeros(size, dtype=bool),
        fee=np.zeros(size),
        forecasts={name: np.asarray(f(m, latent)) for name, f in FORECASTERS.items()},
    )
    every = np.ones(n, dtype=bool)
    expected = {
        name: float(made.question_means((m - p) * (m + p - 2 * latent), every)[0].mean())
        for name, p in made.forecasts.items()
    }
    return made, expected


def on_disk(table: Table) -> Table:
    """The same table with the columns of its rows on disk, in two parts each."""
    disk = Disk()

    def kept(column: np.ndarray) -> np.ndarray:
        return disk.keep([column[:0], column[:100], column[100:]])

    rows = ("q", "t", "market", "price_age", "strict", "evidence", "bid", "ask")
    said = {name: kept(p) for name, p in table.forecasts.items()}
    columns = {name: kept(getattr(table, name)) for name in rows}
    return replace(table, **columns, forecasts=said, disk=disk)
