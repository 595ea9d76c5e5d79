"""What the commands of all formats do alike. Never imports pyspark."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import typer
from mainstem import PipelineError
from mainstem.commands import Set, load

from mainstem_lake.sink import LakeSink

_Sink = TypeVar("_Sink", bound=LakeSink)


def sink_of(file: Path, node: str, set_: Set, kind: type[_Sink], word: str) -> _Sink:
    """Return a sink of a document.

    Args:
        word: of the sink's kind.

    Raises:
        PipelineError: the node is none; names those that are.
    """
    plan = load(file, set_)
    there = {name: n.component for name, n in plan.nodes.items() if isinstance(n.component, kind)}
    if node not in there:
        raise PipelineError(f"{node} is no `{word}`. There are: {', '.join(there) or 'none'}.")
    return there[node]


def compact(sink: LakeSink, node: str) -> None:
    """Make larger files of small ones, and say how many."""
    before, after = sink.table().compact()
    typer.echo(f"{node}: {before} files became {after}")
