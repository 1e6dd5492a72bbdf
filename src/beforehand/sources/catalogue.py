"""Every source: the files of this folder that hold a Source, and those of other packages. They are
found, not listed."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules

from beforehand import sources
from beforehand.plugins import PLUGINS, Plugin
from beforehand.sources.base import Ask, Limit, Probe, Provider, Recorded, Source

DOWNLOAD = Provider(
    "download",
    "Public files",
    "",
    (Limit(5, 1.0),),
    timeout=30.0,
    deadline=120.0,
    attempts=3,
)


def _own() -> list[Source]:
    modules = (
        import_module(f"{sources.__name__}.{m.name}") for m in iter_modules(sources.__path__)
    )
    held = (getattr(module, "THE_SOURCE", None) for module in modules)
    return [source for source in held if isinstance(source, Source)]


def _of_others(own: Sequence[Source]) -> list[Source]:
    names = {source.name for source in own}

    def enter(plugin: Plugin, source: object) -> None:
        if not isinstance(source, Source):
            raise TypeError(f"{plugin.value} is not a Source")
        if source.name in names:
            raise ValueError(f"a source is called {source.name} already")
        names.add(source.name)

    loaded = (source for _, source in PLUGINS.load("sources", enter))
    return [source for source in loaded if isinstance(source, Source)]


OWN = _own()
"""Those that ship. A simulated world holds samples of these alone, so that a seed gives the same
world on every machine."""
SOURCES = [*OWN, *_of_others(OWN)]
PROVIDERS: dict[str, Provider] = {
    provider.name: provider for source in SOURCES for provider in source.providers
} | {DOWNLOAD.name: DOWNLOAD}
PROBES: tuple[Probe, ...] = tuple(probe for source in SOURCES for probe in source.probes)
ANSWERS: Mapping[tuple[str, str], Ask] = {
    (source.name, kind): ask for source in SOURCES for kind, ask in source.answers.items()
}
"""What to ask for observations, by their source and kind."""
RECORDED: Mapping[str, Recorded] = {
    source.name: source.recorded for source in SOURCES if source.recorded is not None
}
"""How any recorded answer of a service is read."""
