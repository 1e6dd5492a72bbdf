"""Columns of numbers on disk: files in numpy's own format, and columns that grow piece by piece."""

from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from beforehand.store.files import write_lines


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

    def take(self, name: str) -> npt.NDArray[Any]:
        """The whole column, which is then forgotten."""
        file, kind = self._files.pop(name)
        with file:
            file.seek(0)
            return np.fromfile(file, kind)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._files))


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
