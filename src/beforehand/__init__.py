"""A *Forecaster* reads the world through a *View* pinned to an instant, may run code in a
*Sandbox*, and returns a *Decision*; a *Plan* of *Steps* says what to do, a *Journal* remembers
what was done, and a *Score* says how good it was.

Importing this package loads nothing heavy; the nouns live in its subpackages:
`records`, `gateway`, `world`, `forecast`, `jobs`, `runs`, `score`, `store`.
"""

__version__ = "0.1.0"
__all__ = ["__version__"]
