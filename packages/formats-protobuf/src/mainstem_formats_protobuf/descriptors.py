"""Descriptor sets, as protoc writes them, without a library: for plans.

Source: google/protobuf/descriptor.proto, whose numbers of fields stand here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from mainstem_formats_protobuf.wire import Misfit, fields

_PROTO2, _PROTO3, _EDITION = "proto2", "proto3", "editions"
_LABEL_REQUIRED, _LABEL_REPEATED = 2, 3
_EXPLICIT, _IMPLICIT, _LEGACY_REQUIRED = 1, 2, 3
_PACKED = 1
_DELIMITED = 2
_GROUP, _MESSAGE, _ENUM = 10, 11, 14
#: Words of scalar types, by their number.
_WORDS: Mapping[int, str] = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool",
    9: "string", 10: "group", 11: "message", 12: "bytes", 13: "uint32", 14: "enum", 15: "sfixed32",
    16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip


@dataclass(frozen=True)
class Features:
    """What holds for fields, as an edition says it, or proto2 and proto3 do."""

    presence: int = _EXPLICIT
    encoding: int = _PACKED
    delimited: bool = False

    def over(self, options: Mapping[int, list[int | bytes]], number: int) -> Features:
        """Return these with those that are given in options, of that number."""
        presence, encoding, delimited = self.presence, self.encoding, self.delimited
        for each in options.get(number, ()):
            held = _message(each)
            presence = _last(held, 1, presence)
            encoding = _last(held, 3, encoding)
            delimited = _last(held, 5, _DELIMITED if delimited else 0) == _DELIMITED
        return Features(presence, encoding, delimited)


@dataclass(frozen=True)
class Field:
    """A field as its descriptor has it.

    Attributes:
        type_name: of a message or enum, with its package.
        implicit: whether what is absent is the default.
        oneof: which of the message's, None for none.
    """

    number: int
    name: str
    word: str
    type_name: str
    repeated: bool
    required: bool
    implicit: bool
    packed: bool
    oneof: int | None


@dataclass(frozen=True)
class Message:
    """A message as its descriptor has it; `entry` says whether it is that of a map."""

    name: str
    fields: tuple[Field, ...]
    entry: bool


@dataclass
class Descriptors:
    """The messages and enums of a set, by their full names; of an enum its numbers and names."""

    messages: dict[str, Message] = field(default_factory=dict)
    enums: dict[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)


_Held = dict[int, list["int | bytes"]]


def read(held: bytes) -> Descriptors:
    """Return what a `FileDescriptorSet` describes.

    Raises:
        ValueError: it is none.
    """
    found = Descriptors()
    try:
        files = [_message(each) for each in _message(held).get(1, ())]
        for file in files:
            _file(file, found)
    except (Misfit, UnicodeDecodeError, RecursionError) as error:
        told = str(error) if isinstance(error, Misfit) else "it is nested too deep, or no UTF-8"
        raise ValueError(f"it is no descriptor set, as protoc writes it: {told}") from None
    if not found.messages:
        raise ValueError("it is no descriptor set, as protoc writes it: it has no messages")
    return found


def _file(file: _Held, found: Descriptors) -> None:
    syntax = _text(file, 12) or _PROTO2
    options = _merged(file, 8)
    if syntax == _PROTO2:
        features = Features(encoding=0)
    elif syntax == _PROTO3:
        features = Features(presence=_IMPLICIT)
    elif syntax == _EDITION:
        features = Features().over(options, 50)
    else:
        raise ValueError(f"nothing is known of the syntax {syntax!r}")
    package = _text(file, 2)
    for each in file.get(4, ()):
        _add_message(_message(each), package, features, found)
    for each in file.get(5, ()):
        _add_enum(_message(each), package, found)


def _add_message(held: _Held, space: str, features: Features, found: Descriptors) -> None:
    name = f"{space}.{_text(held, 1)}".lstrip(".")
    options = _merged(held, 7)
    entry = bool(_last(options, 7, 0))
    features = features.over(options, 12)
    if entry:
        features = replace(features, delimited=False)
    fields_ = tuple(_field(_message(each), features) for each in held.get(2, ()))
    found.messages[name] = Message(name, fields_, entry)
    for each in held.get(3, ()):
        _add_message(_message(each), name, features, found)
    for each in held.get(4, ()):
        _add_enum(_message(each), name, found)


def _add_enum(held: _Held, space: str, found: Descriptors) -> None:
    values = [_message(each) for each in held.get(2, ())]
    found.enums[f"{space}.{_text(held, 1)}".lstrip(".")] = tuple(
        (_signed(_last(value, 2, 0)), _text(value, 1)) for value in values
    )


def _field(held: _Held, features: Features) -> Field:
    options = _merged(held, 8)
    features = features.over(options, 21)
    kind, label = _last(held, 5, 0), _last(held, 4, 1)
    name = _text(held, 1)
    if kind not in _WORDS:
        raise ValueError(f"{name}: nothing is known of its type {kind}")
    repeated = label == _LABEL_REPEATED
    oneof = _last(held, 9, 0) if 9 in held else None
    explicit = oneof is not None or kind in (_MESSAGE, _GROUP) or bool(_last(held, 17, 0))
    word = _WORDS[kind]
    if word == "message" and features.delimited:
        word = "group"
    return Field(
        number=_last(held, 3, 0),
        name=name,
        word=word,
        type_name=_text(held, 6).lstrip("."),
        repeated=repeated,
        required=label == _LABEL_REQUIRED or features.presence == _LEGACY_REQUIRED,
        implicit=not repeated and not explicit and features.presence == _IMPLICIT,
        packed=bool(_last(options, 2, int(features.encoding == _PACKED))),
        oneof=oneof if not _last(held, 17, 0) else None,
    )


# -- the message of a descriptor ----------------------------------------------------------------


def _message(value: int | bytes) -> _Held:
    if isinstance(value, int):
        raise Misfit("a number stands where a message should")
    found: _Held = {}
    for number, _, each in fields(value):
        found.setdefault(number, []).append(each)
    return found


def _merged(held: _Held, number: int) -> _Held:
    """Return a message that may be there in parts."""
    found: _Held = {}
    for part in _parts(held, number):
        for key, values in part.items():
            found.setdefault(key, []).extend(values)
    return found


def _parts(held: _Held, number: int) -> Iterator[_Held]:
    return (_message(each) for each in held.get(number, ()))


def _text(held: _Held, number: int) -> str:
    found = held.get(number, [b""])[-1]
    if isinstance(found, int):
        raise Misfit("a number stands where a text should")
    return found.decode()


def _last(held: _Held, number: int, default: int) -> int:
    found = held.get(number, [default])[-1]
    if not isinstance(found, int):
        raise Misfit("bytes stand where a number should")
    return found


def _signed(value: int) -> int:
    return value - 2**64 if value >> 63 else value
