"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_sources() -> dict[str, str]:
    return {"redis": "mainstem_cache_redis.source:RedisSource"}


@hookimpl
def mainstem_sinks() -> dict[str, str]:
    return {
        "redis": "mainstem_cache_redis.sink:RedisSink",
        "redis_table": "mainstem_cache_redis.table:RedisTable",
    }
