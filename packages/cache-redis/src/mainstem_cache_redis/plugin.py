"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import Sink, Source, hookimpl

from mainstem_cache_redis.sink import RedisSink
from mainstem_cache_redis.source import RedisSource
from mainstem_cache_redis.table import RedisTable


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"redis": RedisSource}


@hookimpl
def mainstem_sinks() -> dict[str, type[Sink]]:
    return {"redis": RedisSink, "redis_table": RedisTable}
