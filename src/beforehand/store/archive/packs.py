"""Files of segments, and packs: files that hold the segments of many small imports.

A recorder that runs for months leaves a file a minute. Each is opened, checked and unpacked on its
own, and takes a block of the disk. A pack holds many of them. The segments themselves stay as they
are, with their digests, the time at which each was stored, and their order; only where they lie is
new. So the archive's digest is the same, and so is all that runs say about it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from isal import isal_zlib

from beforehand.ids import digest
from beforehand.store.archive.manifest import Segment
from beforehand.store.archive.reader import Contents, segment_name
from beforehand.store.files import put, temporary_name

LARGEST = 1_000_000
"""Bytes of a pack before packing: one segment is read by unpacking all of it."""
SMALL = LARGEST // 4
"""A segment with a larger file stays where it is."""


def packed(content: bytes) -> bytes:
    """A segment's content as its file has it."""
    # 38 MB of prices: 9.6 MB in 0.08 s; gzip's own level 4 takes 0.40 s for 10.2 MB.
    made: bytes = isal_zlib.compress(content, isal_zlib.ISAL_BEST_COMPRESSION, 31)
    return made


def store(path: Path, segment: Segment, content: bytes) -> None:
    """Write the file of a segment of the archive at `path`. Whoever then writes the manifest makes
    the folder durable before (`sync_folder`): once for all of them."""
    target = path / "segments" / segment_name(segment)
    target.parent.mkdir(parents=True, exist_ok=True)
    put(str(target), content, str(temporary_name(target)))
    target.chmod(0o444)


def compacted(path: Path, segments: Sequence[Segment]) -> list[Segment]:
    """The segments, in their order, with the small ones of each kind in packs. The packs are
    written."""
    small = {i for i, one in enumerate(segments) if _is_small(path, one)}
    return _together(path, segments, small)


def repacked(path: Path, segments: Sequence[Segment], torn: Collection[str]) -> list[Segment]:
    """The segments, those that lie in the files `torn` in packs of their own: such a file holds
    what is to be deleted."""
    return _together(path, segments, {i for i, s in enumerate(segments) if segment_name(s) in torn})


def _is_small(path: Path, segment: Segment) -> bool:
    if "markets" in segment:  # Cut, so that one market can be read alone.
        return False
    if "pack" in segment:
        return True
    return (path / "segments" / segment_name(segment)).stat().st_size <= SMALL


def _together(path: Path, segments: Sequence[Segment], which: Collection[int]) -> list[Segment]:
    found, contents = list(segments), Contents(path)
    for kind in sorted({segments[i]["kind"] for i in which}):
        mine = [i for i in sorted(which) if segments[i]["kind"] == kind]
        for places, parts in _packs((i, contents.of(segments[i])) for i in mine):
            made = _pack(path, [segments[i] for i in places], parts)
            for i, segment in zip(places, made, strict=True):
                found[i] = segment
    return found


def _packs(parts: Iterable[tuple[int, bytes]]) -> Iterator[tuple[list[int], list[bytes]]]:
    """Contents in their order, as many as a pack holds at a time."""
    places, held = list[int](), list[bytes]()
    for i, content in parts:
        if held and sum(map(len, held)) + len(content) > LARGEST:
            yield places, held
            places, held = [], []
        places.append(i)
        held.append(content)
    if held:
        yield places, held


def _pack(path: Path, segments: Sequence[Segment], parts: Sequence[bytes]) -> list[Segment]:
    """The segments as they lie in one pack, which is written. One alone needs none. Those that lie
    there already stay as they are: another version may pack the same content into other bytes."""
    content = b"".join(parts)
    file, name, start = packed(content), digest(content), 0
    made = list[Segment]()
    for segment, part in zip(segments, parts, strict=True):
        one: Segment = {**segment, "file_digest": digest(file)}
        one.pop("pack", None)
        if len(segments) > 1:
            one["pack"] = {"digest": name, "start": start, "size": len(part)}
        start += len(part)
        made.append(one)
    if segment_name(made[0]) == segment_name(segments[0]):
        return list(segments)
    store(path, made[0], file)
    return made
