"""A long series thinned to what a chart can show: Largest Triangle Three Buckets (S. Steinarsson,
"Downsampling Time Series for Visual Representation", University of Iceland 2013)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

METHOD = "lttb"
Ints = npt.NDArray[np.int64]


def thinned(
    times: Ints, values: npt.NDArray[np.float64], points: int, marks: Sequence[int] = ()
) -> Ints:
    """The rows to show of a series that is ordered by time (microseconds): at most about `points`
    chosen by LTTB, always the first and the last, and for each mark the row that stood then."""
    n = len(times)
    if n <= points:
        return np.arange(n)
    from tsdownsample import LTTBDownsampler

    chosen = LTTBDownsampler().downsample(times, values, n_out=points)  # type: ignore[no-untyped-call]
    at = np.searchsorted(times, np.asarray(marks, dtype=np.int64), side="right") - 1
    return np.unique(np.concatenate([chosen.astype(np.int64), at[at >= 0], [0, n - 1]]))
