"""What Redis holds of a table: its hashes or strings, by the names that the template gives them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

import pyarrow as pa
from mainstem.columns import Template

from mainstem_cache_redis.connection import Cluster, Commands, failure
from mainstem_cache_redis.options import RedisTableOptions
from mainstem_cache_redis.rows import DELETED, VERSION, VERSION_FIELD
from mainstem_cache_redis.slots import beside, slot_of

#: So many names are asked for at a time.
_MANY = 1_000


class Holding:
    """Reads and removes what rows have become."""

    def __init__(self, options: RedisTableOptions) -> None:
        self._options = options
        self._template = Template(options.key)
        name = "mainstem verify"
        self._cluster = Cluster(options, name) if options.cluster else None
        servers = self._cluster.servers if self._cluster else [None]
        self._commands = {server: Commands(options, name, server) for server in servers}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for commands in self._commands.values():
            commands.close()

    def rows(self, take: Callable[[pa.RecordBatch], None]) -> None:
        """Give the name and content of each row of the table.

        That is one with a version, whose fields make its own name by the template: others that its
        pattern matches are of other tables, or of nobody. The value of one column makes no name, so that
        the version must do.
        """
        found = self._hashes if self._options.format == "hash" else self._strings
        for commands in self._commands.values():
            for names in self._names(commands):
                rows = list(found(commands, names))
                keys, contents = [key for key, _ in rows], [content for _, content in rows]
                take(pa.RecordBatch.from_pydict({"key": keys, "content": contents}))

    def _hashes(self, commands: Commands, names: list[bytes]) -> Iterator[tuple[str, str]]:
        found = commands.all([("HGETALL", name) for name in names])
        for name, pairs in zip(names, found, strict=True):
            if isinstance(pairs, Exception):  # a list or so, which is none of ours
                continue
            fields = dict(zip(pairs[::2], pairs[1::2], strict=True))
            versioned = fields.pop(VERSION_FIELD.encode(), None) is not None
            held = {_text(field): _text(value) for field, value in fields.items()}
            if versioned and self._template.row_filled(held) == _text(name):
                yield name.decode(errors="replace"), content_of(fields)

    def _strings(self, commands: Commands, names: list[bytes]) -> Iterator[tuple[str, str]]:
        asked = [each for name in names for each in (name, self._beside(VERSION, name))]
        found = commands.all([("GET", each) for each in asked])
        for name, value, version in zip(names, found[::2], found[1::2], strict=True):
            if isinstance(value, bytes) and isinstance(version, bytes) and self._named(name, value):
                yield name.decode(errors="replace"), value.hex().upper()

    def _named(self, name: bytes, value: bytes) -> bool:
        """Whether a string's content makes its name; of a value nobody knows."""
        if self._options.format == "value":
            return True
        try:
            held = json.loads(value)
        except ValueError:
            return True  # damaged
        if not isinstance(held, dict):
            return True
        texts = {n: v if isinstance(v, str) else json.dumps(v) for n, v in held.items()}
        return self._template.row_filled(texts) == _text(name)

    def _names(self, commands: Commands) -> Iterator[list[bytes]]:
        seen: set[bytes] = set()
        cursor = b"0"
        while True:
            asked = ("SCAN", cursor, "MATCH", self._template.pattern(plain=_plain), "COUNT", _MANY)
            cursor, names = commands.all([asked])[0]
            ours = (DELETED.encode(), VERSION.encode())
            fresh = [n for n in names if n not in seen and not n.startswith(ours)]
            seen.update(fresh)
            if fresh:
                yield fresh
            if cursor == b"0":
                return

    def forget(self, keys: Iterable[str]) -> None:
        """Remove rows, their versions, and that some were deleted.

        Raises:
            TransientError, PermanentError: Redis does not.
        """
        for part in _parts(keys):
            by_server: dict[Any, list[bytes]] = {}
            for name in (key.encode() for key in part):
                server = self._cluster.server(slot_of(name)) if self._cluster else None
                by_server.setdefault(server, []).append(name)
            for server, names in by_server.items():
                kept = [
                    ("DEL", name, self._beside(DELETED, name), self._beside(VERSION, name))
                    for name in names
                ]
                for answer in self._commands[server].all(kept):
                    if isinstance(answer, Exception):
                        raise failure(answer, self._options)

    def _beside(self, prefix: str, name: bytes) -> bytes:
        return beside(prefix, name) if self._cluster else prefix.encode() + name


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
