"""The figures on a screen are the API's, read from the page."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from apiserver import Api
from browsing import Screen
from test_screens import market_of


def fixed(value: float, digits: int = 4) -> str:
    """A figure as the pages write it: a real minus, and no minus before a zero."""
    text = f"{abs(value):.{digits}f}"
    return f"−{text}" if value < 0 and float(text) else text


def cell(seen: Screen, row: str, key: str) -> str:
    return seen.text(f'tr[data-id="{row}"] td[data-key="{key}"]')


def span(interval: list[float]) -> str:
    """An interval as pages show it."""
    from beforehand.score.report.words import digits_of

    return " to ".join(fixed(v, digits_of(interval)) for v in interval)


def test_leaderboard(browse: Callable[..., Screen], serving: Api) -> None:
    seen = browse("/leaderboard/?run=walk")
    rows = serving.json("/api/runs/walk/leaderboard")["items"]
    assert len(rows) > 5
    for row in rows:
        name = row["forecaster"]
        assert cell(seen, name, "verdict").endswith(row["verdict"])
        skill = cell(seen, name, "skill_vs_market").split("\n")
        assert skill[0] == fixed(row["skill_vs_market"])
        if name != "market":
            assert skill[1] == " to ".join(fixed(v) for v in row["skill_ci"])
        assert cell(seen, name, "brier").split("\n") == [
            fixed(row["brier"]),
            " to ".join(fixed(v) for v in row["brier_ci"]),
        ]
        both = [fixed(row["log_loss"], 3), fixed(row["els"], 3)]
        assert cell(seen, name, "log_loss").split("\n") == both
        assert cell(seen, name, "ece") == fixed(row["ece"], 3)
        if name != "market":
            gain = cell(seen, name, "gain").split("\n")
            assert gain[0] == fixed(row["evidence"]["mean"])
            assert gain[1] == span(row["evidence"]["bounds"])
        assert cell(seen, name, "accuracy") == f"{100 * row['accuracy']:.1f}\u00a0%"
        if isinstance(row["kelly"], dict):
            assert cell(seen, name, "kelly") == f"× {row['kelly']['final_wealth']:.2f}"
        mark = seen.page.locator(f'tr[data-id="{name}"] td[data-key="interval"] svg').get_attribute(
            "aria-label"
        )
        assert name == "market" or fixed(row["evidence"]["mean"]) in mark
    whole = serving.json("/api/runs/walk")
    for fact in whole["card"]:
        assert (
            seen.page.locator(f'[data-fact="{fact["name"]}"] dd').first.text_content()
            == fact["text"]
        )
    unmet = [fact["name"] for fact in whole["card"] if fact["ok"] is False]
    assert [
        one.get_attribute("data-unmet") for one in seen.page.locator("[data-unmet]").all()
    ] == unmet
    title = seen.text("h1")
    assert title == ("Too little to tell" if unmet else whole["headline"].partition(" over ")[0])


def test_compared_pairs_and_questions(browse: Callable[..., Screen], serving: Api) -> None:
    pair = {"a": "walk:drift", "b": "walk:shrunk"}
    found = serving.json("/api/comparisons", **pair)
    seen = browse("/compare/?a=walk:drift&b=walk:shrunk")
    shown = seen.page.locator("[data-difference]").first
    assert float(shown.get_attribute("data-difference")) == found["gain"]
    sign = "+" if found["gain"] > 0 else ""
    assert shown.inner_text() == sign + fixed(found["gain"])
    assert span(found["gain_ci"]) in seen.text(".lede")
    rows = serving.json("/api/comparisons/questions", limit=50, **pair)["items"]
    for row in rows[:20]:
        assert cell(seen, row["market_id"], "a") == fixed(row["a"], 3)
        assert cell(seen, row["market_id"], "b") == fixed(row["b"], 3)
    points = seen.page.locator(".recharts-scatter-symbol").count()
    assert points == serving.json("/api/comparisons/questions", limit=1000, **pair)["total"]
    dock = browse("/leaderboard/?run=walk&sel=drift,shrunk")
    assert (
        float(dock.page.locator("[data-difference]").first.get_attribute("data-difference"))
        == found["gain"]
    )


def test_when_the_gain_was_made(browse: Callable[..., Screen], serving: Api) -> None:
    """The line ends where the mean gain is, and the heaviest days are named, of whom is chosen."""
    rows = serving.json("/api/runs/walk/leaderboard")["items"]
    for name in ("drift", "shrunk"):
        (row,) = [row for row in rows if row["forecaster"] == name]
        seen = browse(f"/leaderboard/?run=walk&gain={name}")
        chart = seen.page.locator("[data-course]")
        chart.wait_for()
        assert int(chart.get_attribute("data-course")) == len(row["evidence"]["course"])
        assert fixed(row["evidence"]["mean"]) in chart.get_attribute("aria-label")
        assert seen.page.locator("[data-course] .recharts-line-curve").count() == 1
        assert seen.page.locator("[data-course] .recharts-area-area").count() == 1
        listed = seen.page.locator("[data-rests] ~ ol li").all_inner_texts()
        heavy = row["evidence"]["heaviest"]
        assert [text[:10] for text in listed] == [one["time"][:10] for one in heavy]
        assert all(one["market"] in text for one, text in zip(heavy, listed, strict=True))


def test_markets(browse: Callable[..., Screen], serving: Api) -> None:
    seen = browse("/markets/?run=walk&f=drift")
    found = serving.json(
        "/api/comparisons/questions", a="walk:drift", b="walk:market", prices=24, limit=60
    )
    assert f"{found['total']:,} questions" in seen.text("h2")
    for row in found["items"][:20]:
        name = row["market_id"]
        assert cell(seen, name, "price") == fixed(row["forecast_b"], 3)
        assert cell(seen, name, "forecast") == fixed(row["forecast_a"], 3)
        assert cell(seen, name, "n") == str(row["n"])
        assert cell(seen, name, "outcome").endswith(
            {1.0: "YES", 0.0: "NO"}.get(row["outcome"], f"{row['outcome']:g}")
        )
    some = serving.json("/api/comparisons/questions", a="walk:drift", b="walk:market", outcome=1)
    seen.page.get_by_role("button", name=re.compile("ended YES")).click()
    seen.page.locator("h2", has_text=f"{some['total']:,} question").wait_for()


def test_market_at_each_of_its_forecasts(browse: Callable[..., Screen], serving: Api) -> None:
    market = market_of(serving)
    rows = serving.json("/api/runs/walk/forecasts", market_id=market, forecaster="drift")["items"]
    evidence = serving.json("/api/runs/walk/evidence", market_id=market)["items"]
    assert len(rows) > 2
    seen = browse(f"/market/?run=walk&id={market}&f=drift")
    for row in rows:
        seen.go(f"/market/?run=walk&id={market}&f=drift&t={row['time']}")
        at = serving.json(f"/api/archives/sim/markets/{market}", t=row["time"])
        seen.page.locator("aside[aria-busy=false] [data-big=price]").wait_for()
        assert seen.text("[data-big=price] p:last-child") == fixed(at["odds"]["price"], 3)
        assert seen.text("[data-big=forecast] p:last-child") == fixed(row["probability"], 3)
        shown = [one["document_id"] for one in evidence if one["time"] == row["time"]]
        assert seen.texts("aside li .font-mono") == shown
        known = [
            one.get_attribute("data-known") for one in seen.page.locator("aside [data-known]").all()
        ]
        assert all(k <= row["time"] for k in known), (
            "nothing from after t stands under what it could see"
        )


def test_calibration(browse: Callable[..., Screen], serving: Api) -> None:
    found = serving.json("/api/runs/walk/calibration", forecaster="drift")
    seen = browse("/calibration/?run=walk&f=drift")
    dots = {int(d.get_attribute("data-bin")): d for d in seen.page.locator("[data-bin]").all()}
    assert sorted(dots) == [i for i, one in enumerate(found["bins"]) if one["forecast"] is not None]
    for i, dot in dots.items():
        assert float(dot.get_attribute("data-forecast")) == found["bins"][i]["forecast"]
        assert float(dot.get_attribute("data-outcome")) == found["bins"][i]["outcome"]
    assert fixed(found["ece"], 3) in seen.text(".lede")
    full = next(i for i, one in enumerate(found["bins"]) if one["n"])
    seen.go(f"/calibration/?run=walk&f=drift&bin={full}")
    behind = serving.json("/api/runs/walk/calibration/questions", forecaster="drift", bin=full)[
        "items"
    ]
    listed = seen.page.locator('[role=region][aria-label^="Forecasts of bin"] tbody tr').count()
    assert listed == min(len(behind), 100)


def test_runs_and_one_run(browse: Callable[..., Screen], serving: Api) -> None:
    seen = browse("/runs/")
    runs = serving.json("/api/runs")["items"]
    assert len(seen.texts("tbody tr")) == len(runs)
    for run in runs:
        assert cell(seen, run["run_id"], "state").endswith(run["status"])
    whole = serving.json("/api/runs/walk")
    one = browse("/run/?run=walk")
    assert one.text("[data-count=done] dd") == f"{whole['done']:,} of {whole['total']:,}"
    assert one.text("[data-count=calls] dd") == f"{whole['calls']:,}"
    assert one.page.locator("[data-count=repeated]").count() == 0, "it was never resumed"
    last = serving.json("/api/runs/walk/log", limit=1000)["items"][-1]["number"]
    one.page.locator(f'ol[data-last="{last}"]').wait_for()
    states: dict[str, int] = {}
    for step in serving.json("/api/runs/walk/steps", limit=1000)["items"]:
        states[step["status"]] = states.get(step["status"], 0) + 1
    assert (
        int(one.page.locator("[data-state=success]").get_attribute("data-n")) == states["success"]
    )
    files = serving.json("/api/runs/walk/files")["items"]
    assert one.page.locator('[role=region][aria-label="Files"] tbody tr').count() == len(files)


def test_trace(browse: Callable[..., Screen], serving: Api) -> None:
    one = serving.json("/api/runs/walk/traces", forecaster="scripted", limit=1)["items"][0]
    query = {"market_id": one["market_id"], "time": one["time"], "forecaster": "scripted"}
    found = serving.json("/api/runs/walk/trace", **query)
    said = serving.json(
        "/api/runs/walk/forecasts", market_id=one["market_id"], forecaster="scripted"
    )["items"]
    mine = next(row for row in said if row["time"] == one["time"])
    seen = browse(f"/trace/?run=walk&id={one['market_id']}&f=scripted&t={one['time']}")
    assert seen.text("h1").startswith(f"scripted said {fixed(mine['probability'], 3)}")
    lines = seen.texts("#trace-panel ol li span:last-child")
    assert (
        "\n".join(lines).rstrip()
        == "\n".join(
            line or " " for line in found["traces"][0]["code"].rstrip("\n").split("\n")
        ).rstrip()
    )
    seen.page.get_by_role("tab", name="Prompt").click()
    seen.page.wait_for_function(
        "text => document.querySelector('#trace-panel').innerText.includes(text)",
        arg=found["prompts"][0]["text"],
    )


def test_overview_answer_and_verdict(browse: Callable[..., Screen], serving: Api) -> None:
    seen = browse("/")
    shown = seen.page.locator("[data-gain]").first
    run = seen.page.locator("[data-result]").first.get_attribute("data-result")
    rows = serving.json(f"/api/runs/{run}/leaderboard")["items"]
    gains = [row["evidence"]["mean"] for row in rows if "evidence" in row]
    assert float(shown.get_attribute("data-gain")) in gains
    answer: Any = serving.json("/api/runs/asked")["answer"]
    asked = browse("/ask/?run=asked")
    plain = re.sub(
        r"\s+", "", answer["answer"].replace("- ", "• ").replace("[", "").replace("]", "")
    )
    assert re.sub(r"\s+", "", asked.text("[data-answer]")) == plain
    assert len(asked.texts('li[id^="cite-"]')) == len(answer["citations"])
    scored = browse("/score/?run=scored")
    rejected = serving.json("/api/runs/scored/rejected")["items"]
    assert [cell(scored, str(row["line"]), "reason") for row in rejected] == [
        row["reason"] for row in rejected
    ]
    for row in serving.json("/api/runs/scored/leaderboard")["items"]:
        assert cell(scored, row["forecaster"], "skill_vs_market").split("\n")[0] == fixed(
            row["skill_vs_market"]
        )


def test_the_dry_run(browse: Callable[..., Screen], serving: Api) -> None:
    seen = browse("/new/?f=market,drift&every=28d")
    body = {"forecasters": ["market", "drift"], "every": "28d"}
    found = serving.post("/api/backtests?dry_run=true", body).json()
    assert seen.text("[data-dry=forecasts] dd") == f"{found['forecasts']:,}"
    assert seen.text("[data-dry=steps] dd") == f"{found['steps']:,}"
    assert [text.strip() for text in seen.texts("ul li.text-warn")] == found["lacks"]


def test_a_wrong_figure_is_found(browse: Callable[..., Screen], serving: Api) -> None:
    """The comparison itself can fail: another run's figures are not this one's."""
    seen = browse("/leaderboard/?run=scored")
    rows = {row["forecaster"]: row for row in serving.json("/api/runs/walk/leaderboard")["items"]}
    with pytest.raises(AssertionError):
        assert cell(seen, "market", "brier").split("\n")[0] == fixed(rows["market"]["brier"])
