"""Sink `redis`: appends messages to streams of Redis, each answered."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import Level, Shape, Shown, SinkCapabilities
from mainstem.columns import Column, check_types, find_column
from mainstem_egress import EgressSink, Sender

from mainstem_cache_redis.options import RedisOptions

_TEXT = ("binary", "string")
_TYPES = {
    "key": _TEXT,
    "value": _TEXT,
    "headers": ("map<string,binary>",),
    "timestamp": ("timestamp",),
}
_SHOWN = {
    "microbatch": Shown(Level.AT_LEAST_ONCE, "packages/cache-redis/tests/test_redis_conformance.py")
}


class RedisSink(EgressSink):
    """Appends messages to streams; each entry has its message's identity as the field `id`.

    At least once: a batch that is retried, or a message whose answer was lost, is appended again with the
    same `id`. A reader that remembers ids drops the copies.
    """

    options: RedisOptions

    @property
    def capabilities(self) -> SinkCapabilities:  # type: ignore[override]
        """The facts, and what is assumed of Redis: its own durability."""
        kept = (
            "Redis keeps what it has answered: with `appendfsync everysec` a crash of the server loses "
            "the last second, without `appendonly` more; a failover loses what no replica had"
        )
        return SinkCapabilities(needs_id=True, assumptions=(kept,), shown=_SHOWN)

    def sender(self) -> type[Sender]:
        from mainstem_cache_redis.sender import RedisSender

        return RedisSender

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say, or lack what the options name."""
        super().check_types(columns, shape)
        wanted = dict(_TYPES)
        if self.options.stream is None:
            column = self.options.stream_from
            find_column(columns, column, "stream_from", hint="Or name one for all: stream.")
            wanted[column.lower()] = _TEXT
        check_types(columns, wanted)
