"""Memory that is given back to the system."""

import ctypes
import gc

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # As malloc.h has them.


def give_back() -> None:
    """Give memory that was freed back to the system at once, now and from here on for each array of
    megabytes, where the C library has a way: glibc else keeps that of large columns for long, and
    what each thread has used for that thread."""
    gc.collect()  # Python too keeps some of what was freed, and a megabyte around each.
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_MMAP_THRESHOLD, 2_000_000)
        library.mallopt(_M_ARENA_MAX, 1)
    trim()


def trim() -> None:
    """The same of what the C library keeps now, in a millisecond."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
