"""The main job on real recorded markets and documents, against published figures."""

import json
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import from_us, parse_instant
from beforehand.errors import NotFound
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.backtest import grid
from beforehand.records.world import Market
from beforehand.score import forecastbench as recipe
from beforehand.score import metrics
from beforehand.store.archive.reader import Archive
from beforehand.world.importers import Rejects, venues

pytestmark = pytest.mark.real_data
FETCHED = parse_instant("2026-08-25T00:00:00Z")


@pytest.fixture(scope="module")
def gateway(real: Path) -> Gateway:
    return Gateway(RecordedWorld(Archive(real)))


def test_everything_imports(real: Path) -> None:
    assert Archive(real).counts() == {
        "document": 78_835,
        "market": 543,
        "price": 45_422,
        "resolution": 493,
    }
    assert Archive(real).verify() == []


def test_prices_by_what_was_known(gateway: Gateway, data: Path) -> None:
    """0.0316 over 493 and 0.0435 over 375: reading a price on its own date would give 0.0300."""
    found = {}
    for days in (7, 30):
        pairs = []
        for record in gateway.full_view().resolutions():
            day = record.resolved_at.replace(hour=0, minute=0, second=0, microsecond=0)
            with suppress(NotFound):
                view = gateway.at(day - timedelta(days=days))
                pairs.append((view.odds(record.market_id).price, record.payout))
        p, y = np.array(pairs, dtype=float).T
        found[days] = (len(pairs), round(metrics.brier(p, y), 4))
    assert found == {7: (493, 0.0316), 30: (375, 0.0435)}


def test_a_text_that_is_not_old_enough_is_not_shown(gateway: Gateway) -> None:
    name = "MANIFOLD:wENpa5mETtrCnBYJKl5t"
    market = gateway.at(parse_instant("2025-02-01T00:00:00Z")).market(name)
    assert (market.question, market.background, market.text_known_at) == (None, None, None)
    late = gateway.full_view().market(name)
    assert "Update 2025-05-07" in (late.background or "")
    known = late.text_known_at
    assert known is not None
    assert gateway.at(known).market(name).background == late.background
    assert gateway.at(known - timedelta(microseconds=1)).market(name).background is None


def test_resolutions_are_known_at_the_later_time(gateway: Gateway) -> None:
    earlier = 0
    for record in gateway.full_view().resolutions():
        assert record.first_published is not None
        assert record.known_at == max(record.first_published, record.resolved_at)
        earlier += record.first_published < record.resolved_at.replace(hour=0, minute=0, second=0)
        view = gateway.at(record.known_at - timedelta(microseconds=1))
        assert view.resolution(record.market_id) is None
    assert earlier == 1, "once it was published before the resolution date itself"


def test_documents_are_known_at_capture(gateway: Gateway) -> None:
    decision = parse_instant("2025-12-10T19:00:00Z")
    before = gateway.at(decision).search("Fed rate cut decision", 20, decision - timedelta(hours=6))
    assert before
    assert all(d.known_at <= decision for d in before)
    assert not any(d.published_at and d.published_at > decision for d in before)


@pytest.mark.parametrize(
    ("kind", "n", "brier", "text", "stale"),
    [
        ("own", 6660, 0.0466, 0.47, 0.141),
        pytest.param("aligned", 6450, 0.0461, 0.50, 0.153, marks=pytest.mark.chaos),
    ],
)
def test_the_weekly_backtest(
    kind: str,
    n: int,
    brier: float,
    text: float,
    stale: float,
    real: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    capsys.readouterr()
    command = ["backtest", "run", "--archive", str(real), "--json", "--placebo", "100"]
    assert cli([*command, "--grid", kind]) == 0
    summary = json.loads(capsys.readouterr().out)
    market = summary["leaderboard"][0]
    assert (market["forecaster"], market["n"], market["n_questions"]) == ("market", n, 493)
    assert round(market["brier"], 4) == brier
    assert summary["short"] is None, "no market is lost to the grid"
    assert summary["leaks"]["admitted_after_t"] == 0 < summary["leaks"]["documents_shown"]
    assert summary["leaks"]["canaries"].startswith("untested")
    assert all("not computable" in row["kelly"] for row in summary["leaderboard"])
    assert summary["placebo"]["any_share"] <= 0.05
    assert not [r for r in summary["leaderboard"] if r["verdict"] == "beats the market"]
    assert summary["validity"]["share_strict_text"]["value"] == pytest.approx(text, abs=0.02)
    assert summary["validity"]["share_price_older_than_7_days"]["value"] == pytest.approx(
        stale, abs=0.001
    )


def test_reading_a_price_on_its_own_date_would_look_like_skill(gateway: Gateway) -> None:
    """The control: the same market read a day early "beats" itself, so the wall matters."""
    gains = []
    for record in gateway.full_view().resolutions():
        series = gateway.world.series(record.market_id)
        first, end = int(series.known_at[0]), grid.end_of(record)
        t = grid.life(first, end, timedelta(days=7), "own").t
        honest = series.price[series.positions(t)]
        early = np.searchsorted(series.observed_at - 86_400_000_000, t, side="right") - 1
        peeked = series.price[np.maximum(early, 0)]
        gains.append(((honest - record.payout) ** 2 - (peeked - record.payout) ** 2).mean())
    error = np.std(gains) / np.sqrt(len(gains))
    assert np.mean(gains) > 2 * error


def test_forecastbench_published_values(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = data / "forecastbench"
    code = cli(
        [
            "bench",
            "forecastbench",
            "--json",
            "--questions",
            str(base / "question_sets/2024-07-21-human.json"),
            "--resolutions",
            str(base / "resolution_sets/2024-07-21_resolution_set.at-427da6d9.json.gz"),
        ]
    )
    found, expected = (
        json.loads(capsys.readouterr().out),
        json.loads((base / "EXPECTED.json").read_text()),
    )
    assert code == 0
    assert {key: found[key] for key in ("columns", "n", "rows")} == {
        key: expected[key] for key in ("columns", "n", "rows")
    }


def test_favourite_bias_published_values(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bets = str(data / "favourite_bias" / "results.json")
    terms = ["--stake", "flat:1", "--fill", "entry", "--fee", "rate:0.05", "--json"]
    assert cli(["bench", "evaluate", "--bets", bets, *terms, "--order", "file"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["n"], round(found["roi"], 12)) == (2418, -0.009775474181)
    assert round(found["max_drawdown"], 4) == 52.4886
    assert round(found["win_rate"], 5) == 0.90612
    assert cli(["bench", "evaluate", "--bets", bets, *terms, "--order", "time"]) == 0
    assert round(json.loads(capsys.readouterr().out)["max_drawdown"], 3) == 38.447


def test_kalshibench_bins(data: Path) -> None:
    """Bin counts and mean confidences of the published diagrams, by their own rule; with them
    its ECE, from its own bins' outcomes (the single outcomes are not published)."""
    for path in sorted((data / "kalshibench").glob("*.json")):
        body = json.loads(path.read_text())
        p = np.array([row["predicted_probability"] for row in body["predictions"]])
        bins = metrics.reliability(p, np.zeros(len(p)), rule="float_edges")
        shown = body["reliability_diagram"]
        assert bins.weight.tolist() == [row["count"] for row in shown]
        said = [row["avg_confidence"] for row in shown if row["count"]]
        assert bins.forecast[bins.weight > 0].tolist() == pytest.approx(said)
        outcome = np.array([row["avg_accuracy"] or 0.0 for row in shown])
        whole = metrics.Reliability(bins.weight, bins.forecast, outcome, bins.total)
        assert whole.ece == pytest.approx(body["ece"])
        ours = metrics.reliability(p, np.zeros(len(p)))
        assert ours.weight.sum() == len(p) >= bins.weight.sum()


def test_recorded_responses_of_both_venues(data: Path) -> None:
    taken = {}
    for venue in ("polymarket", "kalshi"):
        for path in sorted((data / "api" / venue).glob("*.json")):
            rejects = Rejects()
            found = list(venues.read(venue, path, rejects, FETCHED, None))
            taken[venue] = sum(isinstance(r, Market) for r in found)
            assert all(r.known_at <= FETCHED for r in found)  # type: ignore[attr-defined]
    assert taken == {"polymarket": 5, "kalshi": 5}
    look = data / "_look_only"
    history = look / "polymarket" / "prices_history_max.json"
    points = list(venues.read("polymarket", history, Rejects(), FETCHED, "POLYMARKET:x"))
    assert len(points) == 4456
    events = list(
        venues.read("polymarket", look / "polymarket/gamma_events.json", Rejects(), FETCHED, None)
    )
    assert sum(type(r).__name__ == "Event" for r in events) == 10
    gamma = look / "polymarket/gamma_markets_60_of_600.json"
    found = list(venues.read("polymarket", gamma, Rejects(), FETCHED, None))
    assert sum(type(r).__name__ == "Resolution" for r in found) == 29


def test_candles_of_both_tiers(data: Path) -> None:
    from beforehand.sources import kalshi

    rows = json.loads(
        (data / "_look_only/kalshi/candlestick_rows_live_and_historical.json").read_text()
    )
    live, old = kalshi.parse_candles([rows["live"], rows["historical"]], "KALSHI:X")
    assert (live.price, old.price) == (0.755, 0.585)
    assert live.known_at == from_us(rows["live"]["end_period_ts"] * 1_000_000)


def test_combination_questions_on_made_rows() -> None:
    questions = {
        "questions": [
            {"source": "fred", "id": "a"},
            {"source": "fred", "id": ["a", "b"]},
            {"source": "infer", "id": "m"},
        ]
    }
    rows = {
        "resolutions": [
            {
                "source": "fred",
                "id": "a",
                "resolved_to": 1.0,
                "resolved": True,
                "resolution_date": "d",
            },
            {
                "source": "fred",
                "id": ["b", "a"],
                "direction": [1, -1],
                "resolved_to": 0.0,
                "resolved": True,
                "resolution_date": "d",
            },
            {
                "source": "fred",
                "id": ["a", "c"],
                "direction": [1, 1],
                "resolved_to": 0.0,
                "resolved": True,
                "resolution_date": "d",
            },
            {
                "source": "infer",
                "id": "m",
                "resolved_to": 0.4,
                "resolved": False,
                "resolution_date": "d",
            },
        ]
    }
    without = recipe.group(questions, rows, combinations=False)
    assert without.n == {"dataset": 1, "market_resolved": 0, "market_unresolved": 1}
    assert without.left_out == {"combination questions": 2}
    both = recipe.group(questions, rows, combinations=True)
    assert both.n["dataset"] == 2
    assert both.left_out == {"not in the question set": 1}
    values, missing = recipe.scores(both, lambda row: 0.9)
    assert values[0] == round((0.01 + 0.81) / 2, 3)
    own = recipe.from_set(
        {
            "forecasts": [
                {
                    "id": ["a", "b"],
                    "source": "fred",
                    "direction": [-1, 1],
                    "forecast": 0.25,
                    "resolution_date": "d",
                },
                {"id": "m", "source": "infer", "forecast": 0.5},
            ]
        }
    )
    values, missing = recipe.scores(both, own)
    assert missing == 1
    assert values[0] == round((0.25 + 0.0625) / 2, 3)


def test_unknown_markets_answer_alike_before_and_after(gateway: Gateway) -> None:
    early = parse_instant("2020-01-01T00:00:00Z")
    name = gateway.full_view().resolutions()[0].market_id
    messages = []
    for wanted in (name, "POLYMARKET:never"):
        with pytest.raises(NotFound) as caught:
            gateway.at(early).odds(wanted)
        messages.append(str(caught.value).replace(wanted, "X"))
    assert messages[0] == messages[1]
