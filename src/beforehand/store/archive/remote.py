"""An archive at a URL: its files are fetched into a folder of this machine, each once.

fsspec reads the URL: a web server, S3, Google Cloud Storage, SFTP or a mounted path, with the
credentials that each of them takes from the environment. Segments are immutable and named by their
content, so what is here already is not fetched again; each is checked against its digest. The
manifest is written last: a folder with one is whole.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from beforehand.errors import BeforehandError, Corrupt, InputError, NotConfigured, Unavailable
from beforehand.ids import digest
from beforehand.store.archive.manifest import ArchiveManifest, Segment, checked_manifest
from beforehand.store.archive.reader import KINDS, segment_name
from beforehand.store.files import file_digest, write_atomic

AT_ONCE = 4
TRIES, PAUSE_S = 3, 0.5
"""How often a file is asked for, and the pause before the second time (then twice as long)."""


def is_url(archive: str) -> bool:
    """True for an archive that is named by a URL and not by a folder."""
    return "://" in archive


def fetch(url: str, cache: Path, say: Callable[[str], None] = lambda text: None) -> Path:
    """The folder in `cache` that holds the archive at `url`, in its present state.

    Raises InputError for a protocol that fsspec does not know, NotConfigured where its package is
    missing or there is no archive at the URL, Unavailable where it does not answer, and Corrupt
    for a manifest or a segment that does not match its digest.
    """
    store = _Store(url)
    packed = store.read("archive.json")
    manifest = _manifest(packed, f"{store.shown}/archive.json")
    folder = cache / digest(store.shown)[:16]
    files = {segment_name(one): one for one in manifest["segments"]}  # A pack holds several.
    missing = [one for one in files.values() if not _is_here(folder, one)]
    if missing:
        say(f"{store.shown}: fetching {len(missing):,} of {len(files):,} segments")
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="fetch") as pool:
        list(pool.map(partial(_bring, store, folder), missing))  # The first failure ends it.
    write_atomic(folder / "archive.json", packed)
    return folder


def _manifest(packed: bytes, name: str) -> ArchiveManifest:
    try:
        manifest = checked_manifest(orjson.loads(packed), name)
    except orjson.JSONDecodeError:
        raise Corrupt(f"{name} is not JSON") from None
    if strange := {one["kind"] for one in manifest["segments"]} - KINDS.keys():
        raise Corrupt(f"{name}: there is no kind of record named {min(strange)[:40]!r}")
    return manifest


def _is_here(folder: Path, segment: Segment) -> bool:
    path = folder / "segments" / segment_name(segment)
    return path.is_file() and file_digest(path) == segment["file_digest"]


def _bring(store: "_Store", folder: Path, segment: Segment) -> None:
    name = f"segments/{segment_name(segment)}"
    packed = store.read(name)
    if digest(packed) != segment["file_digest"]:
        raise Corrupt(f"{store.shown}/{name}: its bytes do not match the digest in archive.json")
    write_atomic(folder / name, packed)


class _Store:
    """The files below a URL."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
        """The URL as messages show it: without user and password."""
        if parts.query or parts.fragment:
            raise InputError(
                f"{self.shown}: an archive's URL names a folder, so it has no ? and no #; what "
                "gives access belongs in the environment"
            )
        try:
            import fsspec  # Only who names a URL needs it.

            self._files, self._root = fsspec.core.url_to_fs(url.rstrip("/"))
        except ImportError as error:
            raise NotConfigured(
                f"{self.shown} needs a package ({error}): `pip install 'beforehand[remote]'` reads "
                "http and https, s3fs S3, gcsfs Google Cloud Storage"
            ) from None
        except ValueError as error:
            raise InputError(f"{self.shown} cannot be read: {error}") from None

    def read(self, name: str) -> bytes:
        """The bytes of one file."""
        pause = PAUSE_S
        for last in [False] * (TRIES - 1) + [True]:
            try:
                found: Any = self._files.cat_file(f"{self._root}/{name}")
                return bytes(found)
            except Exception as error:  # Each protocol has errors of its own.
                if (told := self._told(name, error)) is not None or last:
                    raise (told or self._silent(error)) from None
            time.sleep(pause)
            pause *= 2
        raise AssertionError("the last try returns or raises")

    def _told(self, name: str, error: Exception) -> BeforehandError | None:
        """What a clear answer means; None where asking again may help."""
        status = getattr(error, "status", None)
        if isinstance(error, FileNotFoundError):
            if name == "archive.json":
                return NotConfigured(f"there is no archive at {self.shown}")
            return Corrupt(f"{self.shown}/{name}: the file is missing")
        if isinstance(error, PermissionError) or status in (401, 403):
            return NotConfigured(
                f"{self.shown} does not let us read: set the credentials that its protocol takes "
                "from the environment"
            )
        return None

    def _silent(self, error: Exception) -> Unavailable:
        status = getattr(error, "status", None)
        why = f"status {status}" if status else type(error).__name__
        return Unavailable(f"{self.shown} did not answer in {TRIES} tries ({why}): try again later")
