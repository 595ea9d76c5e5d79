"""From rows to requests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from mainstem.sinks import Refused, micros_of, values_of

from mainstem_direct_webhook.cloudevents import BATCH, STRUCTURED, is_json
from mainstem_direct_webhook.fields import VALUE
from mainstem_direct_webhook.sink import cloudevents_out

if TYPE_CHECKING:
    from mainstem_direct_webhook.sink.options import WebhookSinkOptions

_BINARY, _JSON, _NDJSON = "application/octet-stream", "application/json", "application/x-ndjson"

#: Bytes of rows that are turned into Python's values at a time; one row is always.
_SLICE = 1024 * 1024

Headers = tuple[tuple[str, str], ...]


class Message(NamedTuple):
    """A row, ready to be sent: alone, or with others."""

    identity: bytes
    key: Any
    #: What is shown of it if it is refused.
    payload: bytes | None
    #: The body, or its part of one.
    body: bytes
    headers: Headers


@dataclass(eq=False)
class Parcel:
    """What one request carries. `name` is its `webhook-id` and `idempotency-key`."""

    messages: Sequence[Message]
    name: str
    body: bytes
    headers: Headers
    keys: frozenset[Any]
    #: How many others must be settled first, and who waits for this one.
    blockers: int = 0
    followers: list[Parcel] = field(default_factory=list)


class Packing:
    """Makes parcels as the options say."""

    def __init__(self, options: WebhookSinkOptions) -> None:
        self._options = options
        self._events = options.cloudevents
        several = {"json_array": _JSON, "ndjson": _NDJSON, "cloudevents": BATCH}
        kind = several[options.format] if options.several else options.content_type or _BINARY
        if options.several and options.format != "cloudevents":
            kind = options.content_type or kind
        self._common: Headers = (("content-type", kind),)

    def parcels(self, batch: pa.RecordBatch, refused: Refused) -> Iterator[Parcel]:
        """Yield the requests of a batch of rows; a row that can be in none is noted as refused."""
        messages = (each for few in _slices(batch) for each in self._messages(few, refused))
        if not self._options.several:
            for message in messages:
                yield self.pack([message])
            return
        held: list[Message] = []
        size = 0
        for message in messages:
            full = len(held) == self._options.max_messages
            if held and (full or size + len(message.body) > self._options.max_bytes):
                yield self.pack(held)
                held, size = [], 0
            held.append(message)
            size += len(message.body) + 1
        if held:
            yield self.pack(held)

    def pack(self, messages: Sequence[Message]) -> Parcel:
        """Return the request of some messages: of one alone, if the format holds no more."""
        keys = frozenset(m.key for m in messages if m.key is not None)
        if self._options.order == "none":
            keys = frozenset()
        headers = self._common
        if not self._options.several:
            body, headers = messages[0].body, messages[0].headers
        elif self._options.format == "ndjson":
            body = b"".join(message.body + b"\n" for message in messages)
        else:
            body = b"[%s]" % b",".join(message.body for message in messages)
        return Parcel(messages, name_of([m.identity for m in messages]), body, headers, keys)

    def _messages(self, batch: pa.RecordBatch, refused: Refused) -> Iterator[Message]:
        column = partial(values_of, batch)
        times = repeat(None) if self._events is None else micros_of(batch, "timestamp")
        wanted = self._options.forward_headers or self._events is not None
        rows = zip(
            column("value"),
            column("key"),
            column("headers") if wanted else repeat(None),
            column("_id"),
            times,
            strict=False,
        )
        for value, key, pairs, identity, micros in rows:
            value = value.encode() if isinstance(value, str) else value
            try:
                if identity is None:
                    raise ValueError("the row has no _id, which is the request's id")
                body, headers = self._content(value, dict(pairs or ()), identity, micros)
            except ValueError as error:
                refused.add(identity, value, str(error))
                continue
            yield Message(identity, key, value, body, headers)

    def _content(
        self, value: bytes | None, pairs: dict[str, bytes | None], identity: bytes, micros: Any
    ) -> tuple[bytes, Headers]:
        """Return a message's body, or its part of one, and the headers that are its own."""
        if self._events is not None:
            return self._event(value, pairs, identity, micros)
        if self._options.several:
            return one_line(value), ()
        return value or b"", self._forwarded(pairs, self._common)

    def _event(
        self, value: bytes | None, pairs: dict[str, bytes | None], identity: bytes, micros: Any
    ) -> tuple[bytes, Headers]:
        events = self._events
        assert events is not None  # noqa: S101
        event = cloudevents_out.attributes(
            name_of([identity]), pairs, micros, source=events.source, kind=events.type
        )
        kind = cloudevents_out.data_type(pairs, self._options.content_type)
        if events.mode == "binary":
            own = (("content-type", kind), *cloudevents_out.binary(event))
            return value or b"", self._forwarded(pairs, own)
        data = one_line(value) if value is not None and is_json(kind) else value
        body = cloudevents_out.structured(event, kind, data)
        if events.mode == "batch":
            return body, ()
        return body, self._forwarded(pairs, (("content-type", STRUCTURED),))

    def _forwarded(self, pairs: dict[str, bytes | None], own: Headers) -> Headers:
        """Return the request's own headers with those of the message that the options let through."""
        wanted = self._options.forward_headers
        if not wanted or not pairs:
            return own
        given = {name.lower(): held for name, held in pairs.items()}
        made = dict(own)
        for name in wanted:
            held = given.get(name)
            if held is None or (self._events is not None and name in made):
                continue
            text = held.decode("latin-1")
            if not VALUE.fullmatch(text):
                raise ValueError(f"the header {name} has a value that no request can carry")
            made[name] = text
        return tuple(made.items())


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch, few at a time: as Python's values they are there a second time."""
    if batch.num_rows <= 1 or batch.nbytes <= _SLICE:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _slices(batch.slice(0, half))
    yield from _slices(batch.slice(half))


def name_of(identities: Sequence[bytes]) -> str:
    """Return the id of a request as text.

    Of one message it is the message's `_id` in hex. Of several it is the first 16 bytes of SHA-256 over
    theirs, in hex: the same when the same messages come together again, in the same order.
    """
    if len(identities) == 1:
        return identities[0].hex()
    return hashlib.sha256(b"".join(identities)).digest()[:16].hex()


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# Numbers are not looked into: they may have more digits than Python's.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)


def one_line(value: bytes | None) -> bytes:
    """Return JSON as it is, on one line; null for no value.

    Raises:
        ValueError: it is not JSON.
    """
    if value is None:
        return b"null"
    try:
        _DECODER.decode(value.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"the value is not JSON, of which `format` makes requests: {error}"
        ) from None
    # Within strings JSON has no line breaks, so these stand between tokens.
    return value.replace(b"\r", b" ").replace(b"\n", b" ")
