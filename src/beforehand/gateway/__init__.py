"""The only way to outside data: `Gateway(world).at(t)` gives a View pinned to t."""
