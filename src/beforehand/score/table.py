"""What is scored: one row per forecast instant of a question, the same rows for everyone."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
STALE_DAYS = 7.0


@dataclass(frozen=True)
class Table:
    """Columns of equal length n (rows), and per-question columns of length Q.

    Per row: `q` (index of the question), `t` (microseconds), `market` (its price at t),
    `price_age` (days), `strict` (the text shown was stored by t), `evidence` (documents shown),
    `bid`, `ask` (NaN where no book was recorded). Per question: `y` (settled value), `event` and
    `period` (cluster labels 0..), `resolved_at` (microseconds, 0 where unknown), `play` (a venue
    without real money), `fee`.
    `forecasts[name]` is (n,), NaN where the forecaster gave none.
    """

    questions: list[str]
    q: Ints
    t: Ints
    market: Floats
    price_age: Floats
    strict: npt.NDArray[np.bool_]
    evidence: Ints
    bid: Floats
    ask: Floats
    y: Floats
    event: Ints
    period: Ints
    resolved_at: Ints
    play: npt.NDArray[np.bool_]
    fee: Floats
    forecasts: dict[str, Floats] = field(default_factory=dict)

    @property
    def fresh(self) -> npt.NDArray[np.bool_]:
        """Rows whose price is at most a week old."""
        return self.price_age <= STALE_DAYS

    def where(self, mask: npt.NDArray[np.bool_]) -> "Table":
        """The rows of a mask, with the questions that still have one, relabelled from 0."""
        kept, q = np.unique(self.q[mask], return_inverse=True)
        return Table(
            questions=[self.questions[i] for i in kept],
            q=q.astype(np.int64),
            t=self.t[mask],
            market=self.market[mask],
            price_age=self.price_age[mask],
            strict=self.strict[mask],
            evidence=self.evidence[mask],
            bid=self.bid[mask],
            ask=self.ask[mask],
            y=self.y[kept],
            event=relabel(self.event[kept]),
            period=relabel(self.period[kept]),
            resolved_at=self.resolved_at[kept],
            play=self.play[kept],
            fee=self.fee[kept],
            forecasts={name: p[mask] for name, p in self.forecasts.items()},
        )

    def question_means(self, rows: Floats, valid: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """(mean over a question's valid rows, 1.0 where it has any), both of shape (Q,)."""
        counts = np.bincount(self.q[valid], minlength=len(self.questions))
        sums = np.bincount(self.q[valid], weights=rows[valid], minlength=len(self.questions))
        present = (counts > 0).astype(np.float64)
        return sums / np.maximum(counts, 1), present

    def row_weights(self, valid: npt.NDArray[np.bool_]) -> Floats:
        """Weights that give each question one vote over its valid rows; (n,), 0 elsewhere."""
        counts = np.bincount(self.q[valid], minlength=len(self.questions))
        weights = 1.0 / np.maximum(counts, 1)[self.q]
        return np.where(valid, weights, 0.0)


def relabel(labels: npt.NDArray[np.int64]) -> Ints:
    """The same grouping with labels 0..C-1."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
