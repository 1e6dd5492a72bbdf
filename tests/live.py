"""A home, a clock moved by hand, and a vendor on loopback, for the tests of the live path."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from beforehand.config import Home, Workspace
from beforehand.gateway.opening import Connection, connect
from beforehand.store.market_data.load import load
from beforehand.tools.registry import Toolbox
from beforehand.tools.storage import Storage
from toolcalls import NOW, QUOTES, vendor_of_shapes
from vendor import Vendor, serving


class Steps:
    """A clock that is moved by hand, and by every sleep."""

    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> Any:
        self.at += timedelta(milliseconds=1)
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@dataclass
class Setup:
    vendor: Vendor
    home: Home
    archive: Path
    clock: Steps

    def connection(self, mode: str) -> Connection:
        workspace = Workspace(self.home, None, self.clock, self.vendor.environment)
        return connect(workspace, mode, self.archive)  # type: ignore[arg-type]

    def box(self, mode: str, pinned: Any = None) -> tuple[Toolbox, Connection]:
        connection = self.connection(mode)
        storage = Storage(self.home, mode, connection.live, connection.traffic)  # type: ignore[arg-type]
        return Toolbox(connection.gateway, storage, pinned), connection


@contextmanager
def opened(folder: Path) -> Iterator[Setup]:
    """A home with quotes, and a vendor of every recorded shape."""
    home = Home(folder / "home")
    quotes = folder / "quotes.csv"
    quotes.write_text(QUOTES)
    load(home.market_data, quotes, NOW)
    with serving(vendor_of_shapes()) as vendor:
        yield Setup(vendor, home, folder / "archive", Steps())
