"""Values of MessagePack and Python's; the only module that imports the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack
from mainstem.columns import Column
from mainstem.objects import Misfit, ObjectColumns, ObjectRows


def reader(columns: Sequence[Column], options: Mapping[str, Any]) -> Callable[..., Any]:
    """Return what reads an array of bytes: columns, and why rows are refused."""
    made = ObjectColumns(columns, instant=_micros, **options)
    return lambda values: made.read(values, _object)


def writer(columns: Sequence[Column]) -> Callable[..., Any]:
    """Return what writes rows: values, and why rows have none."""
    return ObjectRows(columns, msgpack.packb, _instant).write


class _Extension:
    """A value of a type that only its application knows: nothing that a column can be."""

    def __init__(self, code: int, data: bytes) -> None:
        pass


def _object(value: bytes) -> Any:
    try:
        return msgpack.unpackb(
            value, strict_map_key=False, object_pairs_hook=_pairs, ext_hook=_Extension
        )
    except Misfit:
        raise
    except UnicodeDecodeError:
        raise Misfit("a text is not UTF-8") from None
    except msgpack.exceptions.ExtraData:
        raise Misfit("more bytes after the value") from None
    except (msgpack.exceptions.UnpackException, ValueError, TypeError, OverflowError, MemoryError):
        raise Misfit("not MessagePack") from None


def _pairs(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise Misfit("a map has a key twice")
    return made


def _micros(value: Any) -> int | None:
    if not isinstance(value, msgpack.Timestamp):
        return None
    if value.nanoseconds % 1000:
        raise Misfit("is finer than microseconds")
    return int(value.seconds * 1_000_000 + value.nanoseconds // 1000)


def _instant(micros: int) -> Any:
    seconds, rest = divmod(micros, 1_000_000)
    return msgpack.Timestamp(seconds, rest * 1000)
