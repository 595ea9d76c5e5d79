"""The list of paths: every source with every chain; the sinks take turns, but for two that stand alone."""

from __future__ import annotations

from dataclasses import dataclass

from campaign.chains import CHAINS, Chain
from campaign.sinks import SINKS, CoreSubject, Sink, SqlPlain
from campaign.sources import SOURCES, Source


@dataclass(frozen=True)
class Way:
    """A path: what it is made of, by name."""

    source: str
    chain: str
    sink: str

    @property
    def name(self) -> str:
        return f"{self.source} -> {self.chain} -> {self.sink}"

    @property
    def parts(self) -> tuple[type[Source], Chain, type[Sink]]:
        return SOURCES[self.source], CHAINS[self.chain], SINKS[self.sink]

    @property
    def servers(self) -> set[str]:
        """The servers that it speaks to."""
        return {part.needs for part in self.parts if part.needs}


def _paths() -> list[Way]:
    alone = (SqlPlain, CoreSubject)
    made = [Way("files", "stateless", sink.name) for sink in alone]
    turns = {name: sink for name, sink in SINKS.items() if sink not in alone}
    for row, (source, kind) in enumerate(SOURCES.items()):
        for column, (name, chain) in enumerate(CHAINS.items()):
            if (kind.lossy and not chain.row_by_row) or kind.changes != chain.changes:
                continue
            fitting = [
                name
                for name, sink in turns.items()
                if (sink.tables if chain.table else not sink.only_tables)
            ]
            made.append(Way(source, name, fitting[(row + 5 * column) % len(fitting)]))
    return made


PATHS = _paths()
