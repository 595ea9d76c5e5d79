"""From rows to messages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from mainstem.sinks import Refused, micros_of, values_of

from mainstem_broker_amqp.properties import from_headers
from mainstem_broker_amqp.sink.link import Message, encode_properties

if TYPE_CHECKING:
    from mainstem_broker_amqp.sink.options import AMQPSinkOptions

_TRANSIENT, _PERSISTENT = 1, 2


def messages(
    batch: pa.RecordBatch, options: AMQPSinkOptions, refused: Refused
) -> Iterator[Message]:
    """Yield a message for each row; a row that makes none is noted as refused.

    A null value is an empty body. The message id is `_id` in hex unless the header `amqp.message_id`
    gives one.
    """
    column = partial(values_of, batch)
    constant = options.routing_key
    routes = column(options.routing_key_from) if constant is None else repeat(constant)
    # Whole seconds: AMQP has no others.
    times = (None if at is None else at // 1_000_000 for at in micros_of(batch, "timestamp"))
    mode = _PERSISTENT if options.persistent else _TRANSIENT
    rows = zip(
        column("value"),
        column("key"),
        routes,
        column("headers"),
        column("_id"),
        times,
        strict=False,
    )
    for value, key, route, headers, identity, seconds in rows:
        try:
            if route is None:
                raise ValueError(f"no routing key: column {options.routing_key_from!r} is null")
            routing_key = route if isinstance(route, str) else _decoded(route)
            properties: dict[str, Any]
            table: dict[str, Any]
            properties, table = from_headers(headers) if headers else ({}, {})
            if options.persistent or "delivery_mode" not in properties:
                properties["delivery_mode"] = mode
            if identity is not None and "message_id" not in properties:
                properties["message_id"] = identity.hex()
            if seconds is not None:
                if seconds < 0:
                    raise ValueError("the timestamp is before 1970, which AMQP has no number for")
                properties["timestamp"] = seconds
            encoded = encode_properties(properties, table)
        except ValueError as error:
            refused.add(identity, value, str(error))
            continue
        lane = key if key is not None else route
        size = len(encoded) + (len(value) if value else 0)
        name = properties.get("message_id")
        yield Message(lane, size, identity, value, routing_key, name, encoded)


def _decoded(route: bytes) -> str:
    try:
        return route.decode()
    except UnicodeDecodeError:
        raise ValueError(f"the routing key is not UTF-8: {route[:40]!r}") from None
