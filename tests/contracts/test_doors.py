"""docs/sources.md says what is read of each source's answers: it is what the readers make of them."""

from pathlib import Path

import pytest
from doors import AT, DOORS, GONE, Door, changed, outcome, page

from beforehand.sources import polymarket_data
from beforehand.sources.fields import noting

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sources.md"


def test_the_page_is_what_the_readers_make() -> None:
    assert PAGE.read_text() == page(), "make docs"


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_a_good_answer_is_read_and_no_cell_shows_the_program(door: Door) -> None:
    good = outcome(door, {})
    assert "refused" not in good
    assert good != "nothing"
    for change in door.cases.values():
        said = outcome(door, change)
        assert "expected shape" not in said, "a sentence of Python is none"


def test_an_odd_row_costs_itself_alone_and_is_counted() -> None:
    """Among others it is left out, with its reason; where no row can be read, nothing passes."""
    door = next(one for one in DOORS if one.name == "Polymarket Data API: a price history")
    row = door.good["data"][0]
    rows = [
        row,
        {**row, "price": None},
        {**row, "price": "soon"},
        {**row, "timestamp": row["timestamp"] - 9},
    ]
    with noting() as left:
        points, _ = polymarket_data.parse_history({**door.good, "data": rows}, "POLYMARKET:x", AT)
    assert [point.price for point in points] == [0.5, 0.5]
    assert left == ["the field 'price' is missing", "'soon' is not a number"]
    assert "refused" in outcome(door, {"data.0.price": GONE})
    assert changed(door.good, {"data.0.price": 1})["data"][0]["price"] == 1 != row["price"]
