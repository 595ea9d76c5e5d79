"""Puts a node for the first step before each operator that works in two (see `Recorded`)."""

from __future__ import annotations

from collections.abc import Callable, Collection

from mainstem.contracts.abilities import Recorded
from mainstem.contracts.components import Operator
from mainstem.plan.model import Node, Stream

#: Behind an operator's name, the name of its first step.
FIRST = "_asked"


def place(
    nodes: dict[str, Node],
    names: Collection[str],
    first_step: Callable[[Recorded, Node], Operator | None],
    problem: Callable[..., None],
) -> None:
    """Add first steps to nodes whose inputs are set, each with a relay behind it.

    Args:
        names: those of all nodes that are written down.
        first_step: asks a node's component for its first step.
        problem: is told of a name that is taken.
    """
    for node in list(nodes.values()):
        component = node.component
        if not isinstance(component, Recorded) or (step := first_step(component, node)) is None:
            continue
        name = node.name + FIRST
        if name in names:
            problem(
                f"the first step of {node.name!r} has the name {name!r} too: give this node another",
                "operators",
                node.name,
                at_key=True,
            )
            continue
        nodes[name] = Node(
            name,
            node.kind,
            node.word,
            node.distribution,
            step,
            inputs=node.inputs,
            relay=True,
            step_of=node.name,
        )
        node.inputs = dict.fromkeys(node.inputs, (Stream(name),))
