"""Everything to which a schema refers, and they do. Imports no library."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainstem_registry.framing import UnknownSchema

if TYPE_CHECKING:
    from mainstem_registry.client import Reference, Schema

#: To how many others a schema may refer.
_MOST = 200


def referred(schema: Schema, ask: Callable[[Reference], Schema | None]) -> dict[str, Schema]:
    """Return all to which a schema refers, and to which they do, by the names that they have there.

    Args:
        ask: gives the schema of a reference, None for one that is not there.

    Raises:
        UnknownSchema: one is not there, a name has two versions, or there are too many.
    """
    known: dict[str, Reference] = {}
    found: dict[str, Schema] = {}
    waiting = list(schema.references)
    while waiting:
        to = waiting.pop()
        if to.name in known:
            if to != known[to.name]:
                raise UnknownSchema(f"it refers to {to.name} in two versions")
            continue
        if len(found) >= _MOST:
            raise UnknownSchema(f"it refers to more than {_MOST} others")
        its = ask(to)
        if its is None:
            raise UnknownSchema(f"it refers to {to.name}, which is not there")
        known[to.name], found[to.name] = to, its
        waiting += its.references
    return found
