"""CSV as RFC 4180 has it and as Excel writes it; a bad row costs itself."""

from pathlib import Path

import pytest

from beforehand.store.files import csv_header, read_csv


def rows(path: Path, text: str) -> list[tuple[int, list[str] | None]]:
    """(line, cells) of each record, None for one that cannot be read."""
    path.write_text(text, newline="")
    return [(n, None if row is None else [*row.values()]) for n, row, _ in read_csv(path, ())]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "f.csv"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_cell_in_quotes_may_hold_line_breaks(file: Path, end: str) -> None:
    text = 'id,note\na,"two\nlines"\nb,"a ""quoted"" word\n\nand an empty line"\nc,plain\n'
    assert rows(file, text.replace("\n", end)) == [
        (2, ["a", "two\nlines"]),
        (4, ["b", 'a "quoted" word\n\nand an empty line']),
        (7, ["c", "plain"]),
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('id,note\na,"never closed\nb,x\nc,y\n', [(2, None), (3, ["b", "x"]), (4, ["c", "y"])]),
        ('id,note\na,5" pipe\nb,6" pipe\n', [(2, ["a", '5" pipe']), (3, ["b", '6" pipe'])]),
        ('id,note\na,"open\nb,"x"\nc,y\n', [(2, None), (3, ["b", "x"]), (4, ["c", "y"])]),
        ('id,note\na,"x" y\nb,z\n', [(2, None), (3, ["b", "z"])]),
        ("id,note\na\nb,x,y\n\nc,z\n", [(2, None), (3, None), (5, ["c", "z"])]),
    ],
)
def test_a_bad_row_costs_itself(file: Path, text: str, found: list[tuple[int, object]]) -> None:
    assert rows(file, text) == found


def test_a_quote_that_is_never_closed_costs_one_row_of_many(file: Path) -> None:
    text = "id,note\n" + 'a,"open\n' + "b,x\n" * 5000
    found = rows(file, text)
    assert (len(found), found[0]) == (5001, (2, None))


@pytest.mark.parametrize("first", ["sep=;", "SEP=;", '"sep=;"'])
def test_a_stated_separator(file: Path, first: str) -> None:
    assert rows(file, f"{first}\r\nid;p\r\na;0,5\r\n") == [(3, ["a", "0,5"])]
    assert csv_header(file) == ["id", "p"]


def test_a_long_cell(file: Path) -> None:
    ((_, cells),) = rows(file, f"id,note\na,{'x' * 200_000}\n")
    assert cells is not None
    assert len(cells[1]) == 200_000
