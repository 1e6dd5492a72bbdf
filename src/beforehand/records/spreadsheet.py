"""Cells of CSV files that spreadsheets open."""

from typing import Any


def spreadsheet_cell(value: Any) -> Any:
    """A cell for CSV that spreadsheets open: text that they would take for a formula gets a `'` in
    front (OWASP, "CSV Injection"). Numbers, also those in text, stay as they are. A lone carriage
    return becomes a newline, as it would end the row unquoted."""
    if not isinstance(value, str):
        return value
    value = value.replace("\r\n", "\n").replace("\r", "\n")
    if value[:1] not in ("=", "+", "-", "@", "\t", "\n"):
        return value
    try:
        float(value)
    except ValueError:
        return "'" + value
    return value
