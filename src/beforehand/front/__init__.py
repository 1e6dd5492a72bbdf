"""The front door in Python: worlds, runs, tables and tools as objects. `beforehand` names them."""
