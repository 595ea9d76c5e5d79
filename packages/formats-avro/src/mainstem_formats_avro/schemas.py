"""Avro schemas and what they are as columns, without a library: for plans."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import MAX_PREC, Context, Decimal
from typing import Any, TypeGuard

from mainstem.columns import Column, quoted, read_columns

PRIMITIVES: Mapping[str, str] = {
    "boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "bytes": "BINARY", "string": "STRING",
}  # fmt: skip
#: By an Avro type and its logical one, the type of the column.
_LOGICAL: Mapping[tuple[str, str], str] = {
    ("int", "date"): "DATE",
    ("long", "timestamp-millis"): "TIMESTAMP",
    ("long", "timestamp-micros"): "TIMESTAMP",
    ("long", "local-timestamp-millis"): "TIMESTAMP_NTZ",
    ("long", "local-timestamp-micros"): "TIMESTAMP_NTZ",
}
#: By an Avro type and Debezium's name of it, the logical one that says the same.
_CONNECT: Mapping[tuple[str, str], str] = {
    ("int", "io.debezium.time.Date"): "date",
    ("long", "io.debezium.time.Timestamp"): "local-timestamp-millis",
    ("long", "io.debezium.time.MicroTimestamp"): "local-timestamp-micros",
}
#: The words of types that have names.
NAMED = ("record", "error", "enum", "fixed")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_DIGITS = 38
#: How many types a schema may have, named ones where they stand.
_MOST_TYPES = 10_000
#: That a field has no default.
NOTHING: Any = object()
EXACT = Context(prec=MAX_PREC)


@dataclass(frozen=True)
class Node:
    """A type in a schema, its names looked up.

    Attributes:
        word: Avro's word, of a logical type that columns know its own: `date`, `bytes-decimal`; `other`
            for what no column is, in a writer's schema.
        ddl: the column's type.
        nullable: whether it is a union with null; `null_first` whether that is its first branch.
        names, aliases: of a record's fields.
        parts: the types inside: of fields, of items, of a map's values.
        defaults: of a record's fields, as JSON has them; `NOTHING` where there is none.
        symbols: of an enum; `fallback` is the one for those of other writers.
        size: of a fixed.
        precision, scale: of a decimal.
        raw: of what no column is: the schema, its namespace, and the named types.
    """

    word: str
    ddl: str
    nullable: bool = False
    null_first: bool = False
    names: tuple[str, ...] = ()
    aliases: tuple[tuple[str, ...], ...] = ()
    parts: tuple[Node, ...] = ()
    defaults: tuple[Any, ...] = ()
    symbols: tuple[str, ...] = ()
    fallback: str | None = None
    size: int = 0
    precision: int = 0
    scale: int = 0
    raw: Any = field(default=None, compare=False, repr=False)


def read(text: str, *, writer: bool = False) -> Node:
    """Return the record of a schema.

    Args:
        writer: whether it is that of a writer, whose fields of types that no column is are only skipped.

    Raises:
        ValueError: it is no schema of a record, or has what no column holds; says where.
    """
    try:
        held = json.loads(text)
        found = _Names(held if writer else None).node(held, "", "", ())
    except RecursionError:
        raise ValueError("the schema is nested too deep") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the schema is no JSON: {error}") from None
    if found.word != "record" or found.nullable:
        raise ValueError("the schema is not that of a record")
    for name, part, default in zip(found.names, found.parts, found.defaults, strict=True):
        if default is not NOTHING:
            default_of(part, default, name)
    return found


def columns(record: Node) -> tuple[Column, ...]:
    """Return the columns of a record."""
    return tuple(
        read_columns(
            ", ".join(
                f"{quoted(name)} {part.ddl}{'' if part.nullable else ' NOT NULL'}"
                for name, part in zip(record.names, record.parts, strict=True)
            )
        )
    )


def kind(node: Node) -> str:
    """Return a type as columns have it, in Spark's short form."""
    return read_columns(f"c {node.ddl}")[0].type or ""


def named(writer: str, readers: Sequence[str]) -> int | None:
    """Return which of some schemas reads what another writes, None for none.

    That is by the record's name with its namespace or an alias, else, as the specification has it, by the
    name alone.

    Raises:
        ValueError: the writer's is no schema.
    """
    names = names_of(writer)
    if not names:
        return None
    known = [names_of(text) for text in readers]
    for found in ([each for each in known if names[0] in each], [
        each for each in known
        if names[0].rpartition(".")[2] in [name.rpartition(".")[2] for name in each]
    ]):  # fmt: skip
        if found:
            return known.index(found[0])
    return None


def names_of(text: str) -> list[str]:
    """Return the names by which a record is known: the whole one, and the aliases; none for no record.

    Raises:
        ValueError: it is no schema.
    """
    try:
        held = json.loads(text)
    except RecursionError:
        raise ValueError("the schema is nested too deep") from None
    while isinstance(held, dict) and isinstance(held.get("type"), dict):
        held = held["type"]
    if not isinstance(held, dict) or not isinstance(held.get("name"), str):
        return []
    whole = whole_name(held["name"], _space(held, ""))
    space, aliases = whole.rpartition(".")[0], held.get("aliases")
    more = aliases if isinstance(aliases, list) else []
    return [whole, *(whole_name(str(each), space) for each in more)]


def _space(schema: Mapping[str, Any], space: str) -> str:
    """Return the namespace of a named type in another."""
    own = schema.get("namespace")
    return own if isinstance(own, str) else space


def needed(record: Node) -> list[str]:
    """Return the fields of a record that have no default."""
    return [
        name
        for name, default in zip(record.names, record.defaults, strict=True)
        if default is NOTHING
    ]


def collect(schema: Any, space: str, known: dict[str, tuple[Any, str]]) -> None:
    """Note the named types of a schema, each with the namespace of what is in it."""
    if isinstance(schema, list):
        for each in schema:
            collect(each, space, known)
    elif isinstance(schema, dict):
        if schema.get("type") in NAMED:
            name = whole_name(str(schema.get("name")), _space(schema, space))
            space = name.rpartition(".")[0]
            known.setdefault(name, (schema, space))
        for key in ("type", "items", "values", "fields"):
            collect(schema.get(key), space, known)


class _Names:
    """Looks types up by their names."""

    def __init__(self, writer: Any = None) -> None:
        self._known: dict[str, tuple[Any, str]] = {}
        self._left = _MOST_TYPES
        self._lenient = writer is not None
        if self._lenient:
            collect(writer, "", self._known)

    def node(self, schema: Any, space: str, path: str, within: Sequence[str]) -> Node:
        """Return a type.

        Args:
            schema: as JSON has it.
            space: the namespace that it stands in.
            path: the fields that lead to it, for people.
            within: the names of the records that it stands in.
        """
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"the schema has more than {_MOST_TYPES:,} types")
        where = path or "the schema"
        while isinstance(schema, dict) and isinstance(schema.get("type"), dict | list):
            schema = schema["type"]
        if isinstance(schema, dict) and schema.get("type") == "null":
            schema = "null"
        if isinstance(schema, list):
            return self._union(schema, space, path, within)
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return Node(schema, PRIMITIVES[schema])
            if schema == "null":
                raise ValueError(f"{where}: null alone is no type of a column")
            name = whole_name(schema, space)
            if name not in self._known:
                raise ValueError(f"{where}: there is no type {schema!r} before it")
            if name in within:
                raise ValueError(f"{where}: {schema} is in itself, which no column can be")
            known, its = self._known[name]
            return self._named(known, its, path, name, within)
        word = schema.get("type") if isinstance(schema, dict) else None
        if not isinstance(word, str):
            raise ValueError(f"{where}: it is no Avro schema")
        if word in NAMED:
            name = whole_name(_name(schema, where), _space(schema, space))
            if self._known.get(name, (schema,))[0] is not schema and not self._lenient:
                raise ValueError(f"{where}: {name} is there twice")
            self._known[name] = (schema, name.rpartition(".")[0])
            return self._named(schema, name.rpartition(".")[0], path, name, within)
        if word == "array":
            item = self.node(schema.get("items"), space, f"{path}[]", within)
            return Node("array", f"ARRAY<{item.ddl}>", parts=(item,))
        if word == "map":
            value = self.node(schema.get("values"), space, f"{path}{{}}", within)
            return Node("map", f"MAP<STRING, {value.ddl}>", parts=(value,))
        if word in PRIMITIVES:
            return _logical(schema, word)
        return self.node(word, space, path, within)

    def _named(self, schema: Any, space: str, path: str, name: str, within: Sequence[str]) -> Node:
        where, word = path or name, schema["type"]
        if word == "enum":
            symbols = schema.get("symbols")
            if not isinstance(symbols, list) or not symbols or not all(map(_is_name, symbols)):
                raise ValueError(f"{where}: an enum has a list of symbols")
            if len(set(symbols)) < len(symbols):
                raise ValueError(f"{where}: a symbol is there twice")
            fallback = schema.get("default")
            if fallback is not None and fallback not in symbols:
                raise ValueError(f"{where}: its default is no symbol")
            return Node("enum", "STRING", symbols=tuple(symbols), fallback=fallback)
        if word == "fixed":
            size = schema.get("size")
            if not _is_integer(size) or size < 1:
                raise ValueError(f"{where}: a fixed has a size of one byte or more")
            return replace(_logical(schema, "fixed"), size=size)
        fields = schema.get("fields")
        if not isinstance(fields, list) or not fields:
            raise ValueError(f"{where}: a record without fields is no column")
        if not all(isinstance(field, dict) for field in fields):
            raise ValueError(f"{where}: each field has a name and a type")
        names = tuple(_name(field, where) for field in fields)
        if len({each.lower() for each in names}) < len(names) and not self._lenient:
            raise ValueError(f"{where}: two fields have one name")
        parts = tuple(
            self._field(field.get("type"), space, f"{path}.{each}".lstrip("."), (*within, name))
            for field, each in zip(fields, names, strict=True)
        )
        aliases = tuple(
            tuple(str(each) for each in held)
            if isinstance(held := field.get("aliases"), list)
            else ()
            for field in fields
        )
        inner = ", ".join(f"{quoted(n)}: {p.ddl}" for n, p in zip(names, parts, strict=True))
        return Node(
            "record", f"STRUCT<{inner}>", names=names, aliases=aliases, parts=parts,
            defaults=tuple(field.get("default", NOTHING) for field in fields),
        )  # fmt: skip

    def _field(self, schema: Any, space: str, path: str, within: Sequence[str]) -> Node:
        try:
            return self.node(schema, space, path, within)
        except ValueError:
            if not self._lenient:
                raise
            return Node("other", "BINARY", raw=(schema, space, self._known))

    def _union(self, schema: list[Any], space: str, path: str, within: Sequence[str]) -> Node:
        plain = [each if each != {"type": "null"} else "null" for each in schema]
        others = [each for each in plain if each != "null"]
        if len(others) != 1 or len(plain) > 2 or plain == others:
            told = ", ".join(_word(each) for each in plain) or "none"
            raise ValueError(f"{path or 'the schema'}: a column has one type, and this has {told}")
        if isinstance(others[0], list):
            raise ValueError(f"{path or 'the schema'}: a union is in a union")
        found = self.node(others[0], space, path, within)
        if len(plain) == 1:
            return found
        return replace(found, nullable=True, null_first=plain[0] == "null")


def whole_name(name: str, space: str) -> str:
    """Return a type's name with its namespace, which is that around it if it has none."""
    return name if "." in name or not space else f"{space}.{name}"


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _is_integer(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _name(schema: Mapping[str, Any], where: str) -> str:
    name = schema.get("name")
    if not isinstance(name, str) or not all(map(_is_name, name.split("."))):
        raise ValueError(f"{where}: {name!r} is no name of a type or field")
    return name


def _logical(schema: Mapping[str, Any], word: str) -> Node:
    """Return a type with its logical one, where columns have that; else what it is kept as."""
    logical = schema.get("logicalType")
    if word in ("bytes", "fixed") and logical == "decimal":
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if (
            _is_integer(precision)
            and _is_integer(scale)
            and 0 < precision <= _MOST_DIGITS
            and 0 <= scale <= precision
        ):
            ddl = f"DECIMAL({precision},{scale})"
            return Node(f"{word}-decimal", ddl, precision=precision, scale=scale)
    if logical is None:
        logical = _CONNECT.get((word, str(schema.get("connect.name"))))
    if isinstance(logical, str) and (found := _LOGICAL.get((word, logical))):
        return Node(logical, found)
    return Node(word, PRIMITIVES.get(word, "BINARY"))


def _word(schema: Any) -> str:
    """Return what a type is called, for people."""
    if isinstance(schema, dict):
        return str(schema.get("name") or _word(schema.get("type")))
    return str(schema)


# -- defaults -----------------------------------------------------------------------------------


def default_of(node: Node, held: Any, path: str) -> Any:
    """Return the value that stands for a default: as `values` reads it.

    Args:
        held: as JSON has it.
        path: the fields that lead to it, for people.

    Raises:
        ValueError: it is none of the type.
    """
    if held is None and node.nullable:
        return None  # of either branch: many writers put it behind the other
    made = _default(node, held, path)
    if made is NOTHING:
        raise ValueError(f"{path}: its default is no {node.word}")
    return made


def _default(node: Node, held: Any, path: str) -> Any:
    word = node.word
    if word == "boolean":
        return held if isinstance(held, bool) else NOTHING
    if word in ("int", "long", "date") or "timestamp-" in word:
        bits = 32 if word in ("int", "date") else 64
        if not _is_integer(held) or not -(2 ** (bits - 1)) <= held < 2 ** (bits - 1):
            return NOTHING
        return held * 1000 if word.endswith("millis") else held
    if word in ("float", "double"):
        return float(held) if _is_integer(held) or isinstance(held, float) else NOTHING
    if word in ("string", "enum"):
        good = isinstance(held, str) and (word == "string" or held in node.symbols)
        return held if good else NOTHING
    if word in ("bytes", "fixed", "bytes-decimal", "fixed-decimal"):
        if not isinstance(held, str) or any(ord(each) > 255 for each in held):
            return NOTHING
        made = held.encode("latin-1")
        if node.size and len(made) != node.size:
            return NOTHING
        return decimal_of(made, node) if word.endswith("decimal") else made
    if word == "array":
        part = node.parts[0]
        return (
            [default_of(part, each, path) for each in held] if isinstance(held, list) else NOTHING
        )
    if not isinstance(held, dict):
        return NOTHING
    if word == "map":
        return [(key, default_of(node.parts[0], each, path)) for key, each in held.items()]
    return dict(_filled(node, held, path))


def _filled(node: Node, held: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, part, default in zip(node.names, node.parts, node.defaults, strict=True):
        its = held.get(name, default)
        if its is NOTHING:
            raise ValueError(f"{path}: its default has no {name}")
        yield name, default_of(part, its, f"{path}.{name}")


def decimal_of(held: bytes, node: Node) -> Any:
    """Return a decimal as a number, exactly; `NOTHING` if it has more digits than the type says."""
    whole = int.from_bytes(held, "big", signed=True)
    if abs(whole) >= 10**node.precision:
        return NOTHING
    return Decimal(whole).scaleb(-node.scale, EXACT)


# -- resolution ---------------------------------------------------------------------------------

#: What Avro widens: a writer's word to those of readers.
WIDER: Mapping[str, tuple[str, ...]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def check_resolves(writer: Node, reader: Node, path: str = "") -> None:
    """Look whether what one schema has written another can read.

    Raises:
        ValueError: it can't; says where.
    """
    where = path or "the record"
    if writer.word != reader.word and reader.word not in WIDER.get(writer.word, ()):
        raise ValueError(f"{where}: {writer.word} can't be read as {reader.word}")
    if (writer.precision, writer.scale) != (reader.precision, reader.scale):
        raise ValueError(f"{where}: {writer.ddl} can't be read as {reader.ddl}")
    if writer.size != reader.size:
        raise ValueError(f"{where}: a fixed of {writer.size} can't be read as one of {reader.size}")
    if reader.word != "record":
        for one, other in zip(writer.parts, reader.parts, strict=True):
            check_resolves(one, other, f"{path}[]")
        return
    for number, name in enumerate(reader.names):
        at = field_of(writer, name, reader.aliases[number])
        if at is not None:
            check_resolves(writer.parts[at], reader.parts[number], f"{path}.{name}".lstrip("."))
        elif reader.defaults[number] is NOTHING:
            raise ValueError(f"{where}: {name} was not written, and has no default")


def new_fields(writer: Node, reader: Node, path: str = "") -> list[str]:
    """Return the fields that a writer's schema has, records in it too, and the reader's does not."""
    if reader.word != "record":
        pairs = zip(writer.parts, reader.parts, strict=True)
        return [name for pair in pairs for name in new_fields(*pair, f"{path}[]")]
    known = {}
    for number, name in enumerate(reader.names):
        at = field_of(writer, name, reader.aliases[number])
        if at is not None:
            known[at] = reader.parts[number]
    found = []
    for at, name in enumerate(writer.names):
        its = f"{path}.{name}".lstrip(".")
        found += new_fields(writer.parts[at], known[at], its) if at in known else [its]
    return found


def own_fields(writer: Node, reader: Node) -> Iterator[tuple[str, Node]]:
    """Yield the fields that only the writer's record has, but for what no column is."""
    known = {
        field_of(writer, name, reader.aliases[number]) for number, name in enumerate(reader.names)
    }
    for at, (name, part) in enumerate(zip(writer.names, writer.parts, strict=True)):
        if at not in known and writer.names.index(name) == at and is_whole(part):
            yield name, part


def is_whole(node: Node) -> bool:
    """Whether values of a type can be told: not those of unions of several types, nor lists of them."""
    if node.word in ("array", "map"):
        return is_whole(node.parts[0])
    return node.word != "other"


def field_of(writer: Node, name: str, aliases: Sequence[str]) -> int | None:
    """Return which field of a writer's record a reader's is, by its name or an alias."""
    return next((writer.names.index(n) for n in (name, *aliases) if n in writer.names), None)


def without_logical(schema: Any) -> Any:
    """Return a schema whose values are written as they are kept, without defaults."""
    if isinstance(schema, list):
        return [without_logical(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: without_logical(value) if name in ("type", "items", "values", "fields") else value
        for name, value in schema.items()
        if name not in ("logicalType", "precision", "scale", "default")
    }
