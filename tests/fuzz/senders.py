"""Hands random bytes to each message source, as near to its protocol's wire as may be."""

from __future__ import annotations

import random
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from campaign.sources import Hook, KafkaTopic, Queue, Source

#: What begins an aggregated record of Kinesis, which nothing right follows here.
_AGGREGATED = b"\xf3\x89\x9a\xc2"
#: How ZMTP begins; without it any bytes are the frames of a peer from before there were greetings.
_GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f"


@dataclass(frozen=True)
class Raw:
    """What is sent; where a protocol can't carry a part, what comes nearest is sent."""

    number: int
    value: bytes
    key: bytes
    headers: Sequence[tuple[bytes, bytes]]


#: Sends messages, and returns the bytes that must come out: as values, or as payloads of refused ones.
Sender = Callable[[Any, Sequence[Raw]], "Counter[bytes]"]


def queue(source: Queue, messages: Sequence[Raw]) -> Counter[bytes]:
    """Any routing key, and headers of all types that AMQP has."""
    import pika

    with source._channel() as channel:
        channel.exchange_declare(source.id, "fanout")
        channel.queue_bind(source.id, source.id)
        channel.confirm_delivery()
        for raw in messages:
            table = {_text(name): _typed(value) for name, value in raw.headers}
            if source.kind == "stream":  # RabbitMQ 4 ends the connection over a decimal
                table = {n: v for n, v in table.items() if not isinstance(v, Decimal)}
            told = pika.BasicProperties(
                delivery_mode=2,
                headers=table,
                message_id=str(raw.number),
                content_type=_text(raw.key),
                correlation_id=_text(raw.value[:40]),
                type=_text(raw.value[-40:]),
            )
            channel.basic_publish(source.id, _text(raw.key), raw.value, told)
    return _values(messages)


def topic(source: KafkaTopic, messages: Sequence[Raw]) -> Counter[bytes]:
    """Any value, key and header; names are text."""
    for raw in messages:
        headers: list[tuple[str, bytes | None]] = [
            (_text(name).replace("\0", "0"), value or None) for name, value in raw.headers
        ]
        source._producer.produce(source.id, raw.value, raw.key, headers=headers)
    assert not source._producer.flush(60)
    return _values(messages)


def subjects(source: Source, messages: Sequence[Raw]) -> Counter[bytes]:
    """By hand over a socket: any bytes as headers, and as subjects what a server lets through."""
    where = urlsplit(source.place.server.url)
    with socket.create_connection((where.hostname, where.port), 30) as connection:
        connection.sendall(b'CONNECT {"headers": true, "verbose": false}\r\n')
        for raw in messages:
            last = bytes(c for c in raw.key if c > 32 and c not in b".*>\x7f") or b"x"
            subject = source.id.encode() + b"." + last
            if not raw.headers:
                connection.sendall(b"PUB %s %d\r\n%s\r\n" % (subject, len(raw.value), raw.value))
                continue
            lines = b"".join(b"%s: %s\r\n" % each for each in raw.headers)
            head = b"NATS/1.0\r\n" + lines + b"\r\n"
            sizes = (len(head), len(head) + len(raw.value))
            connection.sendall(b"HPUB %s %d %d\r\n%s%s\r\n" % (subject, *sizes, head, raw.value))
        connection.sendall(b"PING\r\n")
        told = b""
        while b"PONG" not in told:
            told += connection.recv(65536)
        assert b"-ERR" not in told, told
    return _values(messages)


def shards(source: Source, messages: Sequence[Raw]) -> Counter[bytes]:
    """Any data, partition keys of any characters, and what begins as an aggregate and is none."""
    sent: Counter[bytes] = Counter()
    for raw in messages:
        value = _AGGREGATED + raw.value if raw.number % 20 == 0 else raw.value
        source.place.server.put(source.id, _text(raw.key) or "x", value)
        sent[value] += 1
    return sent


def requests(source: Hook, messages: Sequence[Raw]) -> Counter[bytes]:
    """By hand over sockets: any bytes as headers and paths; what is answered with 2xx is taken.

    Raises:
        AssertionError: a request is answered with 5xx.
    """
    taken: Counter[bytes] = Counter()
    for raw in messages:
        if raw.number % 10 == 0:
            _talk(source, raw.value + b"\r\n\r\n")
        path = b"/in" if raw.number % 3 else b"/in?" + raw.key.translate(None, b" \r\n")
        lines = [
            b"POST %s HTTP/1.1" % path,
            b"host: localhost",
            b"authorization: Bearer open-sesame",
            b"idempotency-key: %d" % raw.number,
            b"content-length: %d" % len(raw.value),
            b"connection: close",
            *(_line(*each) for each in raw.headers),
        ]
        answer = _talk(source, b"\r\n".join(lines) + b"\r\n\r\n" + raw.value)
        kind = answer[:10].partition(b" ")[2][:1]
        assert kind != b"5", (raw, answer)
        if kind == b"2":
            taken[raw.value] += 1
    return taken


def frames(source: Any, messages: Sequence[Raw]) -> Counter[bytes]:
    """One frame is right; others are refused, and come as netstrings. Noise comes by the same port."""
    sent: Counter[bytes] = Counter()
    where = urlsplit(source._socket.last_endpoint.decode())
    for raw in messages:
        if raw.number % 50 == 0:
            with suppress(OSError), socket.create_connection((where.hostname, where.port), 5) as c:
                c.sendall(_GREETING + raw.value)
        parts = [raw.value, *(raw.headers[0] if raw.headers and raw.number % 4 == 0 else ())]
        source._socket.send_multipart(parts)
        if len(parts) > 1:
            sent[b"".join(b"%d:%b," % (len(part), part) for part in parts)] += 1
        else:
            sent[raw.value] += 1
    return sent


#: By the name of the source.
SENDERS: Mapping[str, Sender] = {
    "amqp-classic": queue,
    "amqp-quorum": queue,
    "amqp-stream": queue,
    "kafka": topic,
    "jetstream": subjects,
    "jetstream-queue": subjects,
    "nats": subjects,
    "kinesis": shards,
    "webhook": requests,
    "zeromq": frames,
}


def _values(messages: Sequence[Raw]) -> Counter[bytes]:
    return Counter(raw.value for raw in messages)


def _text(some: bytes) -> str:
    """Return any characters, few enough for a short string of AMQP."""
    return some.decode("latin-1")[:100]


def _line(name: bytes, value: bytes) -> bytes:
    """Return a header's line; half of them are such as HTTP takes. Where it ends is ours to say."""
    if len(value) % 2:
        return b"x-%d: %s" % (len(name), value.translate(None, bytes(range(32))))
    return (name + b": " + value).translate(None, b"\r\n")


def _typed(value: bytes) -> Any:
    """Return a header's value, of a type that its bytes choose."""
    chance = random.Random(value)
    nested = {"a": [1, {"b": value}], "c": None}
    number = chance.randrange(-(2**63), 2**63)
    when = datetime.fromtimestamp(chance.randrange(2**37), UTC)
    kinds = [value, _text(value), number, Decimal(number % 10**9).scaleb(-3), when, None]
    return chance.choice([*kinds, chance.random() < 0.5, nested, [value, "x", when]])


def _talk(source: Hook, request: bytes) -> bytes:
    """Return what the endpoint answers; nothing if it hangs up, or waits for more."""
    answer = b""
    with socket.create_connection(("127.0.0.1", source._port), 30) as connection:
        connection.settimeout(2)
        with suppress(ConnectionError, TimeoutError):
            connection.sendall(request)
            while part := connection.recv(65536):
                answer += part
    return answer
