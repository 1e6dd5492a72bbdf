"""One file a scheme: each registers the class of its forecasters (`forecast/base.py`)."""
