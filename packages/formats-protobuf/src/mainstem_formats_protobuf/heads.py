"""What stands before a message of a registry: the registry's head, and the message's place in it."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem_registry import File, RegistryOptions, Schemas, UnknownSchema
from mainstem_registry.client import Schema

from mainstem_formats_protobuf.sources import places
from mainstem_formats_protobuf.wire import Cut, Misfit, as_varint, unzigzag, varint

_KIND = "PROTOBUF"
#: How many schemas are kept.
_MOST = 1000
#: How deep messages may be in messages.
_DEEPEST = 100


class Heads:
    """Knows by heads where messages of some names are.

    Args:
        names: the messages' full names.
        others: whether there may be messages of other names.
    """

    def __init__(
        self,
        registry: RegistryOptions,
        framing: str,
        names: Sequence[str],
        *,
        others: bool = False,
    ) -> None:
        self._schemas = Schemas(registry, framing)
        self._names, self._others = list(names), others
        self._known: dict[bytes, dict[str, tuple[int, ...]] | Misfit] = {}
        self.size = self._schemas.framing.size

    def behind(self, head: bytes) -> list[tuple[int, bytes]]:
        """Return what stands behind a head before messages of the names: of each its number, and bytes.

        Raises:
            Misfit: there is no such schema.
            TransientError: the registry was away for too long.
        """
        known = self._places(head)
        return [(n, written(known[name])) for n, name in enumerate(self._names) if known.get(name)]

    def skip(self, value: bytes) -> tuple[int | None, int]:
        """Return the number of a value's message, None for another name, and where it begins.

        Raises:
            Misfit: it is another one, or there is no such schema.
        """
        known = self._places(value[: self.size])
        if unsure := [name for name in self._names if known.get(name) == ()]:
            raise Misfit(f"the place of {unsure[0]} is not sure: the message around it has maps")
        place, at = _place(value, self.size)
        (name,) = [name for name, its in known.items() if its == place] or [""]
        if name in self._names:
            return self._names.index(name), at
        if self._others and name:
            return None, at
        told = name or "none of its schema's"
        raise Misfit(f"the message is {told}, not {' or '.join(self._names)}")

    def _places(self, head: bytes) -> dict[str, tuple[int, ...]]:
        found = self._known.get(head)
        if found is None:
            try:
                schema = self._schemas.schema(head)
            except UnknownSchema as error:
                raise Misfit(str(error)) from None
            called = self._schemas.framing.schema_name(head)
            kind = schema.kind
            found = places(schema.text) if kind == _KIND else Misfit(f"{called} is {kind}")
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[head] = found
        if isinstance(found, Misfit):
            raise found
        return found


def head_of(
    registry: RegistryOptions,
    framing: str,
    subject: str,
    files: Sequence[File],
    name: str,
    register: bool,
) -> bytes:
    """Return what stands before each message of a name.

    Args:
        files: the .proto file behind those that it imports, and they do.

    Raises:
        TransientError: the registry was away for too long.
        PermanentError: it does not have the schema, or refuses it.
    """
    *others, own = files
    head = Schemas(registry, framing).head(
        subject, Schema(own.text, _KIND), register=register, files=others, uses=own.uses
    )
    return head + written(places(own.text)[name])


def written(place: Sequence[int]) -> bytes:
    """Return a place as it stands before a message: the first of the file is a single zero."""
    if tuple(place) == (0,):
        return b"\0"
    return b"".join(as_varint(2 * each) for each in (len(place), *place))


def _place(value: bytes, at: int) -> tuple[tuple[int, ...], int]:
    try:
        count, at = varint(value, at)
        count = unzigzag(count)
        if not 0 <= count <= _DEEPEST:
            raise Misfit("it names no message")
        found = []
        for _ in range(count):
            number, at = varint(value, at)
            found.append(unzigzag(number))
    except Cut:
        raise Misfit("it names no message") from None
    return tuple(found) or (0,), at
