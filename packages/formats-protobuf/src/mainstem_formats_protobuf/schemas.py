"""Messages and what they are as columns, without a library: for plans."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mainstem.columns import Column, quoted, read_columns

from mainstem_formats_protobuf import descriptors
from mainstem_formats_protobuf.descriptors import Descriptors

#: By a word of Protocol Buffers, the type of the column.
_SCALARS: Mapping[str, str] = {
    "double": "DOUBLE", "float": "FLOAT", "bool": "BOOLEAN", "string": "STRING", "bytes": "BINARY",
    "int32": "INT", "sint32": "INT", "sfixed32": "INT", "uint32": "BIGINT", "fixed32": "BIGINT",
    "int64": "BIGINT", "sint64": "BIGINT", "sfixed64": "BIGINT",
    "uint64": "DECIMAL(20,0)", "fixed64": "DECIMAL(20,0)",
}  # fmt: skip
_KNOWN = "google.protobuf."
_WRAPPERS = frozenset(
    f"{_KNOWN}{each}Value"
    for each in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_JSON = frozenset(f"{_KNOWN}{each}" for each in ("Struct", "Value", "ListValue"))
#: What may be in one piece in lists.
_PACKED = (*_SCALARS.keys() - {"string", "bytes"}, "enum", "enum-number")
#: How many fields a message may have, those of the messages in it where they stand.
_MOST = 10_000
_DEEPEST = 100
_MOST_NAMES = 5000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Node:
    """A field of a message.

    Attributes:
        word: that of a scalar; `enum`, `enum-number`, `message`, `timestamp`, `wrapper` (a scalar in a
            message), `json` (a Struct, Value or ListValue; `kind` says which), `empty`, `map`.
        ddl: the column's type.
        nullable: whether it can be absent; else what is absent is the default.
        default: that of a field that can't be absent, as Arrow takes it.
        oneof: which of the message's, None for none.
        fields: of a message; of a map key and value; of a wrapper the scalar; of a timestamp its two.
        symbols: of an enum, numbers and names.
    """

    number: int
    name: str
    word: str
    ddl: str
    repeated: bool = False
    required: bool = False
    nullable: bool = True
    packed: bool = False
    default: Any = None
    oneof: int | None = None
    kind: str = ""
    fields: tuple[Node, ...] = ()
    symbols: tuple[tuple[int, str], ...] = ()


def full_name(held: bytes, name: str | None) -> str:
    """Return the name of a message of a descriptor set.

    Args:
        name: the message's, with its package; None for the only one that no other has.

    Raises:
        ValueError: there is no such message.
    """
    return _chosen(descriptors.read(held), name)


def _chosen(found: Descriptors, name: str | None) -> str:
    its = name or _only(found)
    if its not in found.messages:
        near = difflib.get_close_matches(its, list(found.messages)[:_MOST_NAMES], 1)
        told = f"the nearest is {near[0]}" if near else f"there are {_some(found.messages)}"
        raise ValueError(f"there is no message {its!r}; {told}")
    return its


def message(held: bytes, name: str | None, *, numbers: bool = False) -> tuple[Node, ...]:
    """Return the fields of a message of a descriptor set.

    Args:
        held: the set.
        name: as `full_name` takes it.
        numbers: whether enums are their numbers.

    Raises:
        ValueError: there is no such message, or it has what no column holds; says where.
    """
    found = descriptors.read(held)
    its = _chosen(found, name)
    made = _Nodes(found, numbers).fields(its, "", ())
    if not made:
        raise ValueError(f"{its} has no fields")
    return made


def as_column(name: str, fields: Sequence[Node]) -> Node:
    """Return a message as a column."""
    return Node(0, name, "message", _struct(fields), fields=tuple(fields))


def _struct(fields: Sequence[Node]) -> str:
    inside = ", ".join(f"{quoted(each.name)}: {each.ddl}" for each in fields)
    return f"STRUCT<{inside}>"


def columns(fields: Sequence[Node], unknown: str | None = None) -> tuple[Column, ...]:
    """Return the columns of a message's fields; and one for fields that nobody knows."""
    made = [
        f"{quoted(each.name)} {each.ddl}{'' if each.nullable else ' NOT NULL'}" for each in fields
    ]
    if unknown is not None:
        made.append(f"{quoted(unknown)} BINARY")
    return tuple(read_columns(", ".join(made)))


def _only(found: Descriptors) -> str:
    inner = {field.type_name for each in found.messages.values() for field in each.fields}
    free = [
        name
        for name, each in found.messages.items()
        if name not in inner and not each.entry and not name.startswith(_KNOWN)
    ]
    if len(free) != 1:
        told = _some(free or found.messages)
        raise ValueError(f"say which message it is (`message`): there are {told}")
    return free[0]


def _some(names: Any) -> str:
    most = 8
    listed = sorted(names)
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if listed[most:] else "")


class _Nodes:
    """Makes nodes of descriptors."""

    def __init__(self, found: Descriptors, numbers: bool) -> None:
        self._found, self._numbers = found, numbers
        self._left = _MOST

    def fields(self, name: str, path: str, within: Sequence[str]) -> tuple[Node, ...]:
        """Return the fields of a message.

        Args:
            path: the fields that lead to it, for people.
            within: the names of the messages that it stands in.
        """
        if name not in self._found.messages:
            raise ValueError(
                f"{path or name}: there is no message {name}; protoc puts it in with --include_imports"
            )
        if name in within:
            raise ValueError(f"{path}: {name} is in itself, which no column can be")
        if len(within) > _DEEPEST:
            raise ValueError(f"{within[0]} is nested deeper than {_DEEPEST} messages")
        its = self._found.messages[name].fields
        for each in its:
            if not _NAME.fullmatch(each.name) or not 0 < each.number < 2**29:
                raise ValueError(f"{path or name}: a field has a name or number that none can have")
        lower = [each.name.lower() for each in its]
        if len(set(lower)) < len(lower):
            raise ValueError(f"{path or name}: two fields have one name")
        if len({each.number for each in its}) < len(its):
            raise ValueError(f"{path or name}: two fields have one number")
        return tuple(
            self._field(each, f"{path}.{each.name}".lstrip("."), (*within, name)) for each in its
        )

    def _field(self, field: descriptors.Field, path: str, within: Sequence[str]) -> Node:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"the message has more than {_MOST:,} fields")
        plain = self._plain(field, path, within)
        if plain.word == "map":
            return replace(plain, nullable=False)
        if field.repeated:
            return replace(
                plain, ddl=f"ARRAY<{plain.ddl}>", repeated=True, nullable=False, default=None,
                packed=field.packed and plain.word in _PACKED,
            )  # fmt: skip
        return plain

    def _plain(self, field: descriptors.Field, path: str, within: Sequence[str]) -> Node:
        node = Node(
            field.number, field.name, field.word, _SCALARS.get(field.word, ""),
            required=field.required, oneof=field.oneof,
            nullable=not (field.implicit or field.required),
        )  # fmt: skip
        if field.word in _SCALARS:
            return replace(node, default=_default(field.word) if field.implicit else None)
        if field.word == "enum":
            return self._enum(field, node, path)
        its = self._found.messages.get(field.type_name)
        if field.word == "group" and not (its and its.entry):
            raise ValueError(f"{path}: a group is no column")
        return self._message(field, node, path, within)

    def _enum(self, field: descriptors.Field, node: Node, path: str) -> Node:
        symbols = self._found.enums.get(field.type_name)
        if not symbols:
            raise ValueError(
                f"{path}: there is no enum {field.type_name}; protoc puts it in with --include_imports"
            )
        if self._numbers:
            default = 0 if field.implicit else None
            return replace(node, word="enum-number", ddl="INT", default=default)
        first = symbols[0][1] if field.implicit else None
        return replace(node, ddl="STRING", symbols=symbols, default=first)

    def _message(
        self, field: descriptors.Field, node: Node, path: str, within: Sequence[str]
    ) -> Node:
        name = field.type_name
        if name == f"{_KNOWN}Timestamp":
            fields = self._known(name, path, ("int64", "int32"))
            return replace(node, word="timestamp", ddl="TIMESTAMP", fields=fields)
        if name in _WRAPPERS:
            (inner,) = self._known(name, path, (None,))
            return replace(node, word="wrapper", ddl=inner.ddl, fields=(inner,))
        if name in _JSON:
            return replace(node, word="json", ddl="VARIANT", kind=name.removeprefix(_KNOWN))
        fields = self.fields(name, path, within)
        if not fields:
            return replace(node, word="empty", ddl="BOOLEAN")
        if self._found.messages[name].entry:
            plain = [each for each in fields if not each.repeated and each.word != "map"]
            key_words = _SCALARS.keys() - {"double", "float", "bytes"}
            if [each.number for each in plain] != [1, 2] or plain[0].word not in key_words:
                raise ValueError(f"{path}: its map is none")
            key, value = (replace(each, nullable=False, default=_blank(each)) for each in fields)
            ddl = f"MAP<{key.ddl}, {value.ddl}>"
            return replace(node, word="map", ddl=ddl, fields=(key, value))
        return replace(node, ddl=_struct(fields), fields=fields)

    def _known(self, name: str, path: str, words: Sequence[str | None]) -> tuple[Node, ...]:
        """Return the fields of a message of Google's, which are as they are everywhere."""
        fields = self.fields(name, path, ())
        wanted = [(number, word, False) for number, word in enumerate(words, 1)]
        found = [
            (
                each.number,
                None if words[0] is None and each.word in _SCALARS else each.word,
                each.nullable,
            )
            for each in fields
        ]
        if found != wanted or any(each.repeated or each.required for each in fields):
            raise ValueError(f"{path}: its {name} is not that of Google")
        return fields


def _default(word: str) -> Any:
    if word == "string":
        return ""
    if word == "bytes":
        return b""
    if word == "bool":
        return False
    return 0.0 if word in ("double", "float") else 0


def _blank(node: Node) -> Any:
    """Return what a map's key or value is that is not there; None for a message."""
    if node.word in _SCALARS:
        return _default(node.word)
    return node.symbols[0][1] if node.symbols else 0 if node.word == "enum-number" else None
