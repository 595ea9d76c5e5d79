"""A look at the rows of a node, without a checkpoint and without moving anybody's offsets."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mainstem.contracts.abilities import Rewindable
from mainstem.contracts.components import Sink
from mainstem.document.model import Trigger
from mainstem.errors import OptionError, PipelineError, nearest
from mainstem.plan.derive import derive, on_this_machine
from mainstem.plan.model import Plan, SinkNode, Stream, ancestors
from mainstem.testing.stand_ins import Kept, standing_in


def preview(plan: Plan, output: str, rows: int = 20) -> list[dict[str, Any]]:
    """Return some rows of a node or one of its outputs, as JSON values.

    Reads on this machine what the sources hold now, from their start where they can go there, in a
    checkpoint that is thrown away; stops after the batch that brings enough. Windows are closed at
    the end.

    Args:
        output: `node` or `node.output`.
        rows: the most rows to return.

    Raises:
        PipelineError: there is no such node or output.
    """
    stream = _stream(plan, output)
    enough = threading.Event()
    above = ancestors(stream.node, plan.written) | {stream.node}
    whole = any(plan.written[each].state for each in above)
    kept = Kept(most=rows, whole=whole, full=enough.set)
    gather(plan, (stream,), kept, enough)
    return kept.rows()[:rows]


def _stream(plan: Plan, output: str) -> Stream:
    """Return a node's output by its name.

    Raises:
        PipelineError: there is none.
    """
    name, _, named = output.partition(".")
    nodes = {n: x for n, x in plan.written.items() if x.kind != "sink"}
    known = [*nodes, *(f"{n}.{o}" for n, x in nodes.items() for o in x.outputs)]
    if output not in known:
        hint = nearest(output, known) or f"There are: {', '.join(known)}."
        raise PipelineError(f"there is no {output!r} to look at. {hint}")
    return Stream(name, named)


def gather(
    plan: Plan,
    streams: Sequence[Stream],
    kept: Sink,
    stop: threading.Event | None = None,
    *,
    flush: bool = True,
) -> None:
    """Give the rows of streams of one shape to a sink, as `preview` reads them.

    Args:
        kept: is given each batch.
        stop: ends the run before all is read.
        flush: whether windows are closed at the end.
    """
    from mainstem.run.runner import run

    sink = SinkNode("preview__rows", "sink", "kept", "mainstem", kept, {"input": tuple(streams)})
    sink.shape = plan.shape(streams[0])
    sink.needs_id = kept.capabilities.needs_id
    sources = {}
    for source, node in plan.written.items():
        if node.kind == "source" and isinstance(node.component, Rewindable):
            try:
                sources[source] = node.component.starting_at("earliest")
            except OptionError:
                continue
    with tempfile.TemporaryDirectory(
        prefix="mainstem-preview-", ignore_cleanup_errors=True
    ) as folder:
        made = derive(
            plan,
            [standing_in(sink, kept)],
            checkpoint=Path(folder),
            components=sources,
            trigger=Trigger(available_now=True, flush=flush),
            drop_rejected=True,
        )
        run(on_this_machine(made, {}), stop=stop or threading.Event())
