"""Derives a plan from a plan: other sources, other sinks, another checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path

from mainstem.contracts.components import Operator, Source
from mainstem.document.model import Trigger
from mainstem.errors import DocumentError, Problem
from mainstem.plan import identity, queries, relays
from mainstem.plan.model import Node, Plan, SinkNode, ancestors


def derive(
    plan: Plan,
    sinks: Iterable[SinkNode],
    *,
    checkpoint: Path,
    pipeline: str | None = None,
    components: Mapping[str, Source | Operator] | None = None,
    trigger: Trigger | None = None,
    drop_rejected: bool = False,
    scripted: bool = False,
    origin: str = "",
) -> Plan:
    """Return a plan of what stands above some sinks.

    Args:
        sinks: all sinks of the new plan; each reads nodes of the old one.
        checkpoint: the folder of checkpoints.
        pipeline: the new plan's name; as before when left out.
        components: what takes the place of sources and operators, by name.
        trigger: as before when left out.
        drop_rejected: let no refused row end the run.
        scripted: give nodes with a watermark a control stream.
        origin: what the checkpoint serves; see `Plan.origin`.

    Raises:
        DocumentError: the sinks can't be run together.
    """
    chosen = {sink.name: sink for sink in sinks}
    wanted = {stream.node for sink in chosen.values() for stream in sink.streams}
    for name in tuple(wanted):
        wanted |= ancestors(name, plan.written)
    written: dict[str, Node] = {}
    for name, node in plan.written.items():
        if name not in wanted:
            continue
        other = copy(node)
        other.component = (components or {}).get(name, node.component)
        other.makes_id, other.makes_ids = False, set()
        # Refused rows that the old plan has a reader for are that reader's business.
        read = bool(plan.readers(name, "rejected"))
        other.drops_rejected = node.drops_rejected or drop_rejected or read
        written[name] = other
    written |= chosen
    problems: list[Problem] = []

    def problem(message: str, *path: str | int, hint: str = "", **_: object) -> None:
        problems.append(Problem(message, ".".join(map(str, path)), plan.file, hint=hint))

    for name in wanted - chosen.keys():
        if plan.written[name].kind == "sink":
            problem(f"what {name!r} refuses is known only where it is written", "sinks", name)
    identity.place(written, problem)
    folder = Path(checkpoint, pipeline or plan.pipeline)
    nodes, placed = relays.place(written, folder, problem)
    cuts = queries.cut(nodes, problem)
    if problems:
        raise DocumentError(problems)
    document = plan.document.model_copy(
        update={"checkpoint": str(checkpoint), "trigger": trigger or plan.document.trigger}
    )
    return replace(
        plan,
        pipeline=pipeline or plan.pipeline,
        document=document,
        nodes=nodes,
        written=written,
        relays=placed,
        queries=cuts,
        warnings=(),
        observers={},
        scripted=scripted,
        origin=origin,
        remade=None,
        derived_from=plan.derived_from or plan.checkpoint,
    )


def on_this_machine(plan: Plan, conf: Mapping[str, str | int | float | bool]) -> Plan:
    """Return a plan for a session on this machine, with more settings.

    Args:
        conf: the settings; the document's own win.
    """
    given = plan.document.spark
    master = given.master if plan.local else "local[*]"
    spark = given.model_copy(update={"master": master, "conf": {**conf, **given.conf}})
    return replace(plan, document=plan.document.model_copy(update={"spark": spark}))
