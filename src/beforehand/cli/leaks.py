"""`beforehand runs leaks`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from beforehand.cli.output import Json, emit, plain_table
from beforehand.cli.runs import Run, opened
from beforehand.errors import EXIT_FAILED, EXIT_OK
from beforehand.runs.leaks import leak_report
from beforehand.runs.query import find_run
from beforehand.store.files import read_json
from beforehand.store.run_folder import RunFolder, open_run

if TYPE_CHECKING:
    from beforehand.jobs.backtest.aftermath import InHindsight
    from beforehand.score.leaks.doses import DoseWire
    from beforehand.score.summary import Few

MOST = 20


def leaks(
    run_id: Run = "latest",
    /,
    *,
    seed: Annotated[int, Parameter(help="Seed of the injected leaks.")] = 0,
    hindsight: Annotated[
        Path | None,
        Parameter(
            name="--archive",
            help="The run's archive: list the documents shown that others tell of only later.",
        ),
    ] = None,
    json: Json = False,
) -> int:
    """A run's leak report, and how much leaks that the detector misses could improve a score.

    Everything is derived again from the run's rows. For the dose-response, leaks of four grades are
    injected into copies of the contexts, and a forecaster that believes them is scored. With
    --archive, the documents shown are compared with what came after them.
    """
    workspace, journal = opened()
    home = workspace.home
    folder = open_run(home.runs, find_run(run_id, home, journal, scored=True))
    found = leak_report(folder, seed)
    after = None if hindsight is None else _in_hindsight(folder, hindsight)
    if json:
        emit(found if after is None else {**found, "in_hindsight": after})
    else:
        print(f"records after t shown: {found['admitted_after_t']} of {found['rechecked']:,}")
        print(f"evidence: {found['evidence']}")
        total, markets = found["coverage_total"], found["coverage"]
        print(
            f"contexts: {total['contexts']:,} over {len(markets):,} markets; "
            f"{total['with_text']:,} with a question text, {total['with_document']:,} with any "
            f"document, {total['with_relevant']:,} with a relevant one "
            f"({sum(row['with_relevant'] > 0 for row in markets):,} markets)"
        )
        print(f"canaries: {found['canaries']}")
        print(f"detector: {found['detector']}")
        for row in found["suspicious"][:MOST]:
            said = "; ".join(f"{f['document']}: {f['kind']} “{f['text']}”" for f in row["flags"])
            print(f"  {row['market_id']} at {row['time']}: {said}")
        if len(found["suspicious"]) > MOST:
            print(f"  … and {len(found['suspicious']) - MOST:,} more (--json lists all)")
        _scores(found["without_flagged"])
        _doses(found["dose_response"])
        if after is not None:
            _suspects(after)
    return EXIT_FAILED if found["admitted_after_t"] else EXIT_OK


def _in_hindsight(folder: RunFolder, archive: Path) -> "InHindsight":
    from beforehand.jobs.backtest.aftermath import in_hindsight

    grade = read_json(folder.path / "config.json").get("grade", "captured")
    return in_hindsight(folder, archive, grade)


def _suspects(found: "InHindsight") -> None:
    """The documents that are to be read."""
    n = len(found["suspects"])
    print(
        f"in hindsight: of {found['documents']:,} documents shown, these {n:,} (the top 1 %) look "
        f"most as if others said the same only later; read them: {found['says']}"
    )
    for one in found["suspects"][:MOST]:
        print(f"  {one['score']:.2f}  {one['market_id']} at {one['time']}: {one['text'][:100]}")
    if n > MOST:
        print(f"  … and {n - MOST:,} more (--json lists all)")


def _scores(found: "dict[str, dict[str, Few]] | None") -> None:
    if found is None:
        print("no decision rests on a flagged document: scores are the same without")
        return
    same = found.get("same_rows", {})
    head = ["forecaster", "Brier, all", "n", "Brier, without flagged", "all, on these rows", "n"]
    rows = [head]
    for name, everything in found["all"].items():
        kept = found["kept"].get(name)
        brier, n = (kept["brier"], kept["n"]) if kept else (None, 0)
        rows.append([name, _figure(everything["brier"]), f"{everything['n']:,}"])
        beside = same[name]["brier"] if kept and name in same else None
        rows[-1] += [_figure(brier), _figure(beside), f"{n:,}"]
    print(plain_table(rows))


def _doses(table: "list[DoseWire]") -> None:
    rows = [["injected leak", "dose", "injected", "found", "Brier believed", "kept", "flattery"]]
    for row in table:
        rows.append(
            [
                str(row["grade"]),
                f"{100 * row['share']:g} %",
                f"{row['injected']:,}",
                f"{row['found']:,}",
                _figure(row["brier"]),
                _figure(row["brier_kept"]),
                _figure(row["flattery"]),
            ]
        )
    print(plain_table(rows))


def _figure(value: float | None) -> str:
    return "–" if value is None or value != value else f"{value:.4f}"
