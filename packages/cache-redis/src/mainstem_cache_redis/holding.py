"""What Redis holds of a table: its hashes, by the names that the template gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

import pyarrow as pa
from mainstem.columns import Template

from mainstem_cache_redis.connection import Commands, failure
from mainstem_cache_redis.hashes import DELETED, VERSION_FIELD
from mainstem_cache_redis.options import RedisTableOptions

#: So many names are asked for at a time.
_MANY = 1_000


class Holding:
    """Reads and removes hashes."""

    def __init__(self, options: RedisTableOptions) -> None:
        self._template = Template(options.key)
        self._commands = Commands(options, "mainstem verify")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._commands.close()

    def rows(self, take: Callable[[pa.RecordBatch], None]) -> None:
        """Give the name and content of each hash of the table.

        That is one with a version, whose fields make its own name by the template: others that its
        pattern matches are of other tables, or of nobody.
        """
        for names in self._names():
            found = self._commands.all([("HGETALL", name) for name in names])
            keys, contents = [], []
            for name, pairs in zip(names, found, strict=True):
                if isinstance(pairs, Exception):  # a list or so, which is none of ours
                    continue
                fields = dict(zip(pairs[::2], pairs[1::2], strict=True))
                versioned = fields.pop(VERSION_FIELD.encode(), None) is not None
                held = {_text(field): _text(value) for field, value in fields.items()}
                if versioned and self._template.filled(held) == _text(name):
                    keys.append(name.decode(errors="replace"))
                    contents.append(content_of(fields))
            take(pa.RecordBatch.from_pydict({"key": keys, "content": contents}))

    def _names(self) -> Iterator[list[bytes]]:
        seen: set[bytes] = set()
        cursor = b"0"
        while True:
            asked = ("SCAN", cursor, "MATCH", self._template.pattern(plain=_plain), "COUNT", _MANY)
            cursor, names = self._commands.all([asked])[0]
            fresh = [n for n in names if n not in seen and not n.endswith(DELETED.encode())]
            seen.update(fresh)
            if fresh:
                yield fresh
            if cursor == b"0":
                return

    def forget(self, keys: Iterable[str]) -> None:
        """Remove hashes, and that some were deleted.

        Raises:
            TransientError, PermanentError: Redis does not.
        """
        for part in _parts(keys):
            for answer in self._commands.all([("DEL", key, f"{key}{DELETED}") for key in part]):
                if isinstance(answer, Exception):
                    raise failure(answer)


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _parts(keys: Iterable[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for key in keys:
        part.append(key)
        if len(part) == _MANY:
            yield part
            part = []
    if part:
        yield part


def _plain(text: str) -> str:
    """Return what matches a text alone, as Redis has patterns."""
    return "".join(f"\\{sign}" if sign in "*?[]^\\" else sign for sign in text)


def content_of(fields: Mapping[bytes, Any]) -> str:
    """Return the fields of a hash as text that compares."""
    found = sorted((name.decode(errors="replace"), value) for name, value in fields.items())
    return " ".join(f"{name}={value.hex().upper()}" for name, value in found)
