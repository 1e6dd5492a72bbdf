"""`beforehand world info` and `world coverage`."""

from rich.text import Text

from beforehand.cli.output import ArchivePath, Json, archive_path, emit
from beforehand.cli.screen import screen
from beforehand.cli.tables import table
from beforehand.clock import from_us, iso
from beforehand.errors import EXIT_OK
from beforehand.store.archive.manifest import (
    counts_of,
    coverage_of,
    digest_of,
    gaps_of,
    need_manifest,
)


def info(*, archive: ArchivePath = None, json: Json = False) -> int:
    """What the archive holds, and where it came from."""
    path = archive_path(archive)
    manifest = need_manifest(path)
    imports, segments = manifest["imports"], manifest["segments"]
    digest, counted = digest_of(segments), counts_of(segments)
    if json:
        emit(
            {
                "archive": str(path),
                "digest": digest,
                "records": counted,
                "imports": imports,
            }
        )
        return EXIT_OK
    out = screen()
    out.print(Text(f"{path}  digest {digest[:16]}", style="bold"), soft_wrap=True)
    names = {"market": "market texts (versions)", "price": "price points"}
    counts = [[names.get(kind, kind), f"{n:,}"] for kind, n in counted.items()]
    out.print(table("records", [("kind", "left"), ("n", "right")], counts))
    rows = [[i["name"], i["source"], i["recorded_at"], str(i["rejected"])] for i in imports]
    out.print(
        table(
            "imports",
            [("import", "left"), ("source", "left"), ("stored at", "left"), ("rejected", "right")],
            rows,
        )
    )
    return EXIT_OK


def coverage(*, archive: ArchivePath = None, json: Json = False) -> int:
    """What the dumps in the archive cover, and where they have gaps: a price that a backtest takes
    in one, or after it, may be from before it."""
    path = archive_path(archive)
    manifest = need_manifest(path)
    found = coverage_of(manifest)
    gaps = [[venue, iso(from_us(a)), iso(from_us(b))] for venue, a, b in gaps_of(manifest)]
    if json:
        emit({"archive": str(path), "coverage": found, "gaps": gaps})
        return EXIT_OK
    if not found:
        print(f"{path} holds no dump (`world import dump`): nothing says what it covers")
        return EXIT_OK
    rows = [
        [one["venue"], one["first"] or "", one["last"] or "", f"{len(one['gaps']):,}"]
        for one in found
    ]
    heads = [
        ("venue", "left"),
        ("first row", "left"),
        ("last row", "left"),
        ("gaps of its own", "right"),
    ]
    out = screen()
    out.print(table("coverage", heads, rows))
    if gaps:
        out.print(table("gaps", [("venue", "left"), ("from", "left"), ("until", "left")], gaps))
    return EXIT_OK
