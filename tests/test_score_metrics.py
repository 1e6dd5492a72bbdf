"""Metrics, intervals, clusters, Kelly and verdicts against plain re-computations."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from threadpoolctl import ThreadpoolController, threadpool_limits

from beforehand.score import intervals, metrics
from beforehand.score.intervals import Resampler, one_thread, t_quantile
from beforehand.score.placebo import by_profit, placebo
from beforehand.score.scoreboard import score
from beforehand.score.skill import Options, every_paired, paired, ratio
from beforehand.score.table import Floats, Table, event_labels
from beforehand.score.validity import SetFacts, apply_card, card
from beforehand.world.simulate import SimConfig, normal_cdf
from tables import table

p_arrays = arrays(np.float64, 40, elements=st.floats(0, 1))
y_arrays = arrays(np.float64, 40, elements=st.sampled_from([0.0, 1.0, 0.5, 0.3]))
w_arrays = arrays(np.float64, 40, elements=st.floats(0.01, 3))


@given(p_arrays, y_arrays, w_arrays)
def test_metrics_against_loops(p: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
    rows = list(zip(p.tolist(), y.tolist(), w.tolist(), strict=True))
    total = sum(r[2] for r in rows)
    naive_brier = sum(c * (a - b) ** 2 for a, b, c in rows) / total
    assert metrics.brier(p, y, w) == pytest.approx(naive_brier)

    def loss(a: float, b: float) -> float:
        q = min(max(a, metrics.CLIP), 1 - metrics.CLIP)
        return -(b * math.log(q) + (1 - b) * math.log(1 - q))

    assert metrics.log_loss(p, y, w) == pytest.approx(
        sum(c * loss(a, b) for a, b, c in rows) / total
    )
    assert metrics.log_loss(p, y) == pytest.approx(sum(loss(a, b) for a, b, _ in rows) / 40)
    bins: dict[int, list[tuple[float, float, float]]] = {}
    for row in rows:
        bins.setdefault(min(int(row[0] * 10 + 1e-9), 9), []).append(row)
    ece = sum(abs(sum(c * (a - b) for a, b, c in group)) for group in bins.values()) / total
    assert metrics.ece(p, y, w) == pytest.approx(ece, abs=1e-12)
    parts = metrics.murphy(p, y, w)
    whole = parts.reliability - parts.resolution + parts.uncertainty + parts.residual
    assert whole == pytest.approx(metrics.brier(p, y, w))


def test_bin_edges_are_snapped() -> None:
    edges = np.array([i * 0.1 for i in range(11)])
    assert metrics.bin_index(edges).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]
    assert metrics.bin_index(np.array([0.3, 0.6, 0.7, 0.29999])).tolist() == [3, 6, 7, 2]


def test_conventions() -> None:
    p, y = np.array([0.5, 0.5, 0.2]), np.array([1.0, 0.0, 0.5])
    assert metrics.hits(p, y)[:2].tolist() == [1.0, 0.0]
    assert np.isnan(metrics.hits(p, y)[2])
    assert metrics.sharpness(np.array([0.2, 0.8])) == (pytest.approx(0.09), pytest.approx(0.16))
    assert metrics.excess_log_scores(p, p, y).tolist() == [0.0, 0.0, 0.0]
    ordered = np.linspace(0, 1, 100)
    assert metrics.adaptive_ece(ordered, ordered) == pytest.approx(0)


@pytest.mark.parametrize(
    ("level", "df", "value"),
    [
        (0.975, 1, 12.7062),
        (0.9972, 2, 13.307),
        (0.9972, 3, 7.165),
        (0.975, 4, 2.7764),
        (0.975, 10, 2.2281),
        (0.975, 30, 2.0423),
        (0.995, 10, 3.1693),
        (0.9972, 11, 3.4265),
    ],
)
def test_t_quantiles_of_the_printed_tables(level: float, df: int, value: float) -> None:
    assert t_quantile(level, df) == pytest.approx(value, rel=0.015)


def test_normal_distribution() -> None:
    expected = [0.5 * (1 + math.erf(x / math.sqrt(2))) for x in (-2.5, -1, 0, 0.3, 3)]
    assert normal_cdf(np.array([-2.5, -1, 0, 0.3, 3])) == pytest.approx(expected, abs=2e-7)


def test_the_error_of_bounds_is_what_other_seeds_show() -> None:
    """Stated from one seed's draws, and seen over forty seeds."""
    rng = np.random.default_rng(5)
    labels, gain = np.arange(200) // 4, rng.normal(0.02, 0.1, 200)
    columns, bounds, stated = np.stack([gain, np.ones(200)], axis=1), [], []
    for seed in range(40):
        one = Resampler(labels, draws=400, seed=seed)
        draws = ratio(one.totals(columns))
        bounds.append(one.interval(draws))
        stated.append(one.error(draws))
    seen = float(np.std(np.array(bounds), axis=0, ddof=1).max())
    assert 0.6 * seen < float(np.mean(stated)) < 1.7 * seen
    many = Resampler(labels, draws=6400, seed=0)
    assert many.error(ratio(many.totals(columns))) < 0.5 * float(np.mean(stated))


def test_resampling_draws_whole_clusters_the_same_for_all() -> None:
    labels = np.array([0, 0, 1, 2])
    sampler = Resampler(labels, draws=500, seed=1)
    columns = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0], [5.0, 10.0]])
    totals = sampler.totals(columns)
    assert (totals[:, 1] == 2 * totals[:, 0]).all()
    assert set(np.unique(totals[:, 0])) <= {0, 2, 4, 6, 5, 7, 9, 10, 12, 15}


@pytest.mark.parametrize("clusters", [3, 40, 1500])
def test_draws_are_the_same_however_they_are_kept(
    clusters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As numbers, in a byte each, and made again for each statistic."""
    columns = np.random.default_rng(4).normal(size=(clusters, 2))
    labels = np.arange(clusters)
    numbers = Resampler(labels, draws=300, seed=1, cells=10**9)
    small = Resampler(labels, draws=300, seed=1, cells=0)
    expected = pytest.approx(numbers.totals(columns), abs=1e-10)
    assert small.totals(columns) == expected
    assert "_file" in small.__dict__
    assert "_counts" not in small.__dict__
    shared = Resampler(labels[::-1], draws=300, seed=1, cells=0)
    assert shared._file is small._file
    monkeypatch.setattr(intervals, "_SMALL_CELLS", 0)
    anew = Resampler(labels, draws=300, seed=1, cells=0)
    assert anew.totals(columns) == expected
    assert "_file" not in anew.__dict__
    other = Resampler(labels, draws=300, seed=2, cells=0)
    assert (other.totals(columns) != numbers.totals(columns)).any()


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.lists(st.sampled_from("abcdefgh"), max_size=7).map(" ".join)),
            st.one_of(st.none(), st.sampled_from(["2026-01-01", "2026-01-02"])),
            st.one_of(st.none(), st.sampled_from(["e1", "e2"])),
        ),
        min_size=1,
        max_size=25,
    )
)
def test_clusters_are_those_of_comparing_every_pair(
    asked: list[tuple[str | None, str | None, str | None]],
) -> None:
    """The rule of table.py, pair by pair, and what hangs together of it."""
    words = [set((text or "").split()) - {"a"} for text, _, _ in asked]
    runs = [_runs(text or "") if event is None else set[str]() for text, _, event in asked]

    def together(i: int, j: int) -> bool:
        (_, day, event), (_, other_day, other) = asked[i], asked[j]
        if (event is not None and event == other) or runs[i] & runs[j]:
            return True
        both = len(words[i] | words[j])
        likeness = len(words[i] & words[j]) / both if both else 0.0
        same_day = day is not None and day == other_day and (event is None or other is None)
        return likeness >= (0.5 if same_day else 0.8)

    label = list(range(len(asked)))
    for _ in asked:  # The lowest label spreads to all that hang together.
        for i in range(len(asked)):
            label[i] = min(label[j] for j in range(len(asked)) if i == j or together(i, j))
    texts, days, events = (list(column) for column in zip(*asked, strict=True))
    found = event_labels(texts, days, events).tolist()
    pairs = [(i, j) for i in range(len(asked)) for j in range(i)]
    assert [found[i] == found[j] for i, j in pairs] == [label[i] == label[j] for i, j in pairs]


def _runs(text: str) -> set[str]:
    kept = [word for word in text.split() if word != "a"]
    return {" ".join(kept[i : i + 3]) for i in range(len(kept) - 2)}


def test_clusters() -> None:
    texts = [
        "Will A win Best Actor at the 98th Academy Awards?",
        "Will B be nominated for Best Picture at the 98th Academy Awards?",
        "Will the Fed cut rates in March 2026?",
        "Will the Fed cut rates in March 2026",
        "Will it rain in Paris on 3 May?",
        "Will it rain in Paris on 4 May?",
        "Something else entirely",
        None,
    ]
    days = [
        "2026-03-15",
        "2026-01-22",
        "2026-03-20",
        "2026-04-01",
        "2026-05-03",
        "2026-05-04",
        "2026-05-03",
        None,
    ]
    labels = event_labels(texts, days, [None] * 8).tolist()
    assert labels[0] == labels[1]
    assert labels[2] == labels[3], "near-duplicates across venues"
    assert len({labels[0], labels[2], labels[4], labels[6], labels[7]}) == 5
    told_apart = event_labels(texts, days, ["e1", "e2", "e3", "e4", "e5", "e5", "e6", "e7"])
    assert told_apart[0] != told_apart[1]
    assert told_apart[4] == told_apart[5]


@pytest.fixture(scope="module")
def world() -> Table:
    return table(SimConfig(seed=2, dates=60))[0]


def copies(made: Table, **forecasts: np.ndarray) -> Table:
    made = made.where(np.ones(len(made.q), dtype=bool))
    made.forecasts.clear()
    made.forecasts.update(forecasts)
    return made


def test_the_market_copier_has_skill_exactly_zero(world: Table) -> None:
    market, copier = score(copies(world, copier=world.market.copy()))
    assert copier.skill_vs_market == copier.els == 0.0
    assert copier.skill is not None
    assert copier.skill.ci == copier.skill.ci_by["event"] == (0.0, 0.0)
    assert copier.verdict == market.verdict == "is the market"


def test_knowing_the_outcome_wins_and_knowing_the_truth_is_first(world: Table) -> None:
    rows = score(world)
    assert [r.forecaster for r in rows][:2] == ["market", "truth"]
    assert rows[1].brier < rows[0].brier
    peeker = score(copies(world, peeker=np.clip(world.y[world.q], 0.02, 0.98)))[1]
    assert peeker.verdict == "beats the market"
    inverse = score(copies(world, inverse=1 - world.market))[1]
    assert inverse.verdict == "worse than the market"


def test_the_row_against_a_plain_recomputation(world: Table) -> None:
    row = next(r for r in score(world) if r.forecaster == "sharpened")
    p, m, y = world.forecasts["sharpened"], world.market, world.y[world.q]
    by_question: dict[int, list[tuple[float, float]]] = {}
    for q, a, b, c in zip(world.q.tolist(), p, m, y, strict=True):
        by_question.setdefault(q, []).append(((a - c) ** 2, (b - c) ** 2 - (a - c) ** 2))
    means = [np.mean(rows, axis=0) for rows in by_question.values()]
    assert row.brier == pytest.approx(np.mean([x[0] for x in means]))
    assert row.skill_vs_market == pytest.approx(np.mean([x[1] for x in means]))
    assert row.n_questions == len(means)
    for key, value in {
        "brier": row.brier,
        "log_loss": row.log_loss,
        "els": row.els,
        "accuracy": row.accuracy,
        "skill": row.skill_vs_market,
        "sharpness_variance": row.sharpness[0],
        "sharpness_mean_p_1_p": row.sharpness[1],
        "resolution": row.murphy.resolution,
    }.items():
        low, high = row.intervals[key]
        assert low < value < high, key
    wider = max(row.skill.ci_by[k][1] - row.skill.ci_by[k][0] for k in ("event", "period"))
    assert row.skill.ci[1] - row.skill.ci[0] == wider


def test_missing_forecasts_are_counted_and_nothing_is_imputed(world: Table) -> None:
    gappy = world.market.copy()
    gappy[:50] = np.nan
    row = score(copies(world, gappy=gappy))[1]
    assert (row.missing, row.n) == (50, len(gappy) - 50)
    assert row.skill_vs_market == 0.0


def test_without_a_market_there_is_no_skill_to_show(world: Table) -> None:
    blind = copies(world, alone=world.market.copy())
    blind.market[:] = np.nan
    row = next(r for r in score(blind) if r.forecaster == "alone")
    assert row.brier > 0
    assert math.isnan(row.skill_vs_market)
    assert row.verdict == "not shown"
    assert row.reasons == ["there is no market price to compare with"]


def test_more_variants_tried_deflate_the_verdict(world: Table) -> None:
    lower = []
    for variants in (3, 30, 3000):
        board = score(world, Options(variants=variants, draws=100))
        (truth,) = [row for row in board if row.forecaster == "truth"]
        assert truth.evidence is not None
        lower.append(truth.evidence.bounds[0])
    assert lower[0] > lower[1] > lower[2]


@pytest.mark.parametrize("n", [7, 50, 333, 2500])
def test_resampled_together_is_resampled_alone(n: int) -> None:
    """To the last digit, whoever else is there, and whatever they left out."""
    rng = np.random.default_rng(n)
    clusters = {"event": np.arange(n), "period": np.arange(n) % max(n // 4, 2)}
    samplers = {kind: Resampler(labels, 2000, 3) for kind, labels in clusters.items()}
    columns = dict[str, tuple[Floats, Floats]]()
    for k in range(11):
        present = np.ones(n) if k % 4 else (rng.random(n) < 0.6).astype(float)
        columns[f"f{k}"] = rng.normal(0.01, 0.1, n) * present, present
    columns["market"] = np.zeros(n), np.ones(n)
    together = dict(every_paired(columns.items(), samplers, 0.95))
    assert list(together) == list(columns)
    for name, column in columns.items():
        assert together[name] == paired(*column, samplers, 0.95), name
    assert together["market"].skill == together["market"].ci[1] == 0


def test_one_thread_for_small_products_and_as_many_as_before_afterwards() -> None:
    def threads() -> list[int]:
        return [one["num_threads"] for one in ThreadpoolController().select(user_api="blas").info()]

    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        assert before == [2] * len(before) != []
        with one_thread(), one_thread():
            assert threads() == [1] * len(before)
        assert threads() == before
        with pytest.raises(ZeroDivisionError), one_thread():
            _ = 1 / 0
        assert threads() == before


def test_a_stale_price_alone_does_not_beat_the_market(world: Table) -> None:
    stale = copies(
        world, late=np.where(np.arange(len(world.q)) % 2, world.y[world.q], world.market)
    )
    stale.price_age[:] = np.where(np.arange(len(world.q)) % 2, 9.0, 1.0)
    row = score(stale)[1]
    assert row.evidence.sign > 0
    assert row.verdict == "not shown"
    assert "7 days" in row.reasons[0]


def test_a_failed_bound_turns_the_verdict(world: Table) -> None:
    peeking = copies(world, peeker=np.clip(world.y[world.q], 0.02, 0.98))
    for facts, field in (
        (SetFacts(documents=0, admitted_after_t=1), "from after t was shown"),
        (SetFacts(documents=0, share_after_training_cutoff=0.2), "the model's training"),
        (SetFacts(documents=0, share_made_after_training=0.2), "made after the model's training"),
    ):
        rows = score(peeking)
        apply_card(rows, card(peeking, rows, facts))
        assert rows[1].verdict == "not shown"
        assert field in rows[1].reasons[0]
    few = peeking.where((peeking.event < 4)[peeking.q])
    rows = score(few)
    checks = {one.field: one for one in card(few, rows, SetFacts(documents=0))}
    assert checks["effective_periods"].ok is False
    assert "effective periods, and 5 are needed" in "; ".join(rows[1].reasons), rows[1].reasons


def test_the_placebo_hardly_ever_wins(world: Table) -> None:
    drawn = placebo(world, Options(draws=300), draws=100)
    assert drawn.any_share <= 0.05


def test_the_placebo_counts_a_real_edge(world: Table) -> None:
    """The control: whoever knows a part of what is drawn, wins."""
    honest = copies(world, truth=world.forecasts["truth"])

    def knowing(drawn: Table, names: Sequence[str], factor: float) -> set[str]:
        known = 0.7 * drawn.market + 0.3 * drawn.y[drawn.q]
        return by_profit(replace(drawn, forecasts={"truth": known}), names, factor)

    assert placebo(honest, Options(draws=300), draws=20).any_share <= 0.05
    assert placebo(honest, Options(draws=300), draws=20, rule=knowing).any_share > 0.5


def test_a_forecaster_rests_on_its_own_clusters(world: Table) -> None:
    """Few questions are few, whoever else forecast the rest of the set."""
    right = np.clip(world.y[world.q], 0.02, 0.98)
    chosen = (world.event < 4)[world.q]
    made = copies(
        world,
        few=np.where(chosen, right, np.nan),
        one=np.where(world.q == 0, 1 - right, np.nan),
        all=right,
    )
    board = {r.forecaster: r for r in score(made)}
    assert board["all"].verdict == "beats the market"
    assert board["few"].verdict == "not shown"
    assert "effective periods, and 5 are needed" in "; ".join(board["few"].reasons)
    assert board["one"].verdict == "not shown"
    assert np.isnan(board["one"].skill.ci).all()
    assert "effective periods, and 5 are needed" in board["one"].reasons[0]
    drawn = placebo(made, Options(draws=300), draws=40)
    assert drawn.share_by["one"] == drawn.share_by["few"] == 0.0
