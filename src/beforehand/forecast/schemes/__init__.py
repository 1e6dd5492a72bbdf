"""One file per scheme: each registers the class of its forecasters (`forecast/base.py`)."""
