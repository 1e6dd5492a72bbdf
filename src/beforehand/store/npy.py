"""Columns of numbers on disk: files in numpy's own format, and columns that grow piece by piece."""

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from beforehand.store.files import write_lines

SPAN = 100_000
"""Rows that are sorted at once."""
Span = Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]


class Pieces:
    """Columns of a run while its steps are joined: each in a file without a name, so that one at a
    time is in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, tuple[IO[bytes], np.dtype[Any]]] = {}

    def add(self, name: str, piece: npt.NDArray[Any]) -> None:
        """Put a piece at the end of a column. Every piece of one has the same kind."""
        if name not in self._files:
            made = TemporaryFile(dir=self._folder)  # noqa: SIM115 (`take` closes it)
            self._files[name] = made, piece.dtype
        file, kind = self._files[name]
        file.write(np.ascontiguousarray(piece, kind).data)

    def read(self, name: str) -> npt.NDArray[Any]:
        """The whole column."""
        file, kind = self._files[name]
        file.seek(0)
        return np.fromfile(file, kind)

    def parts(self, name: str, size: int) -> Iterator[npt.NDArray[Any]]:
        """The column, so many rows at a time."""
        file, kind = self._files[name]
        file.seek(0)
        while len(part := np.fromfile(file, kind, size)):
            yield part

    def take(self, name: str) -> npt.NDArray[Any]:
        """The whole column, which is then forgotten."""
        found = self.read(name)
        self._files.pop(name)[0].close()
        return found

    def close(self) -> None:
        """Forget what is left."""
        for file, _ in self._files.values():
            file.close()
        self._files.clear()

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._files))


def spans(values: npt.NDArray[Any], n: int | None = None) -> Iterator[Span]:
    """Tests for spans of values that follow each other, such that each has about `SPAN` of the
    `values` (more, where so many are equal), or of `n` of which these are some. Together they have
    each value once."""
    n = len(values) if n is None else n
    if not n:
        return
    sample = np.sort(values[:: max(1, len(values) // 100_000)])
    bounds = np.unique(sample[:: max(1, len(sample) * SPAN // n)]).tolist()
    for low, high in pairwise([None, *bounds[1:], None]):

        def within(
            some: npt.NDArray[Any], low: Any = low, high: Any = high
        ) -> npt.NDArray[np.bool_]:
            inside = np.ones(len(some), dtype=np.bool_) if low is None else some >= low
            return inside if high is None else inside & (some < high)

        yield within


def save(
    path: Path,
    kind: npt.DTypeLike,
    shape: tuple[int, ...],
    parts: Iterable[npt.NDArray[Any] | bytes],
) -> None:
    """Write a file of numpy's format from parts that follow each other; it appears whole or not at
    all."""
    header = BytesIO()
    described = np.lib.format.dtype_to_descr(np.dtype(kind))
    head = {"descr": described, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, head)

    def lines() -> Iterator[bytes | memoryview]:
        yield header.getvalue()
        for part in parts:
            yield (
                part if isinstance(part, bytes) else np.ascontiguousarray(part, kind).data.cast("B")
            )

    write_lines(path, lines())
