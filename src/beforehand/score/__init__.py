"""How good it was: pure functions of forecasts, prices and outcomes. No I/O, no clock."""
