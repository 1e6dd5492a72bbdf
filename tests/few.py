"""How many draws a command makes of which a test says nothing: few, as no test looks at them. The
commands' own defaults are those of `make golden`, of the demo, and of whoever names them."""

DRAWS, PLACEBO = 200, 10


def few_draws() -> None:
    """Lower the defaults of the commands and functions that score, in this process."""
    from beforehand.cli import backtest, bench, score
    from beforehand.front import start

    for function in (backtest.run, bench.run, bench.evaluate, score.score, start.backtest):
        defaults = function.__kwdefaults__
        assert (defaults["draws"], defaults["placebo"]) == (2000, 200)
        defaults.update(draws=DRAWS, placebo=PLACEBO)
