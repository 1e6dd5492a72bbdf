"""The API (FastAPI): one router a resource, over the front door and `runs/`. Nothing is computed
here that the command line lacks, and reading writes nothing."""
