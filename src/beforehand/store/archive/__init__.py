"""The archive: records in sealed segments."""
