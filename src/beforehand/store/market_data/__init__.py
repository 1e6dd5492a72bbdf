"""The market-data table."""
