"""Sends messages over one link, many in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from mainstem import PermanentError, RefusedRowError
from mainstem.sinks import Refused, values_of
from mainstem_egress import Answer, Fate, MessageFault, OutMessage, Sender

from mainstem_broker_amqp1.options import AMQP1Options

if TYPE_CHECKING:
    import pyarrow as pa

#: Why a message is rejected now and may be taken later; `failed` brokers say of their own troubles.
_PASSING = frozenset(
    f"amqp:{word}" for word in ("resource-limit-exceeded", "internal-error", "illegal-state")
) | {"failed"}
_FORBIDDEN = "amqp:unauthorized-access"


class AMQP1Sender(Sender):
    """Sends as many messages as the broker gives credit for."""

    options: AMQP1Options

    def __init__(self, options: AMQP1Options, name: str) -> None:
        super().__init__(options, name)
        self._connection: Any = None
        self._turn, self._served = -1, False
        self._begin()

    def _begin(self) -> None:
        self._link: Any = None
        self._kept: deque[tuple[int, bytes]] = deque()
        self._found: list[Answer] = []
        self._out = 0
        self._fault: PermanentError | None = None

    def messages(self, batch: pa.RecordBatch, refused: Refused) -> Iterator[OutMessage]:
        from mainstem_broker_amqp1.connection import encoded

        options, column = self.options, partial(values_of, batch)
        every = options.address
        addresses = repeat(every) if every is not None else column(options.address_from)
        expiry = None if options.expiry is None else options.expiry.total_seconds()
        rows = zip(
            column("value"),
            column("key"),
            column("headers"),
            column("_id"),
            addresses,
            strict=False,
        )
        for value, key, headers, identity, address in rows:
            payload = _bytes(value) or b""
            group = _bytes(key)
            try:
                content = encoded(
                    payload if options.body == "bytes" else payload.decode(),
                    identity=identity.hex() if identity is not None else None,
                    address=None if every is not None else _name(address, "address"),
                    kind=options.kind,
                    group=None if group is None else _name(group, "key"),
                    properties={name: _held(held) for name, held in headers or ()},
                    durable=options.durable,
                    expiry=expiry,
                )
            except UnicodeDecodeError:
                refused.add(identity, payload, "its value, key or address is no text of UTF-8")
                continue
            except ValueError as error:
                refused.add(identity, payload, str(error))
                continue
            lane = group if group is not None else address
            yield OutMessage(content, lane, len(content), identity, payload)

    def connect(self) -> None:
        from mainstem_broker_amqp1.connection import Connection

        self._begin()
        self._turn += 0 if self._served else 1
        served, self._served = self._served, False
        options = self.options
        name = self.name.replace(" ", "-")
        made = self._connection = Connection(
            options, self._turn, f"{name}-{uuid4().hex}", answered=self._answered, served=served
        )
        self._link = made.sender(name, options.address, options.kind)
        self._served = True

    def send(self, number: int, message: OutMessage) -> None:
        most = self._link.remote_max_message_size
        if most and message.size > most:
            raise RefusedRowError(f"the broker takes no more than {most:,} bytes")
        self._kept.append((number, message.content))
        self._submit()

    def _submit(self) -> None:
        link, kept = self._link, self._kept
        while kept and link.credit > 0:
            number, content = kept.popleft()
            link.delivery(str(number))
            link.send(content)
            link.advance()
            self._out += 1

    def _answered(self, delivery: Any) -> None:
        from mainstem_broker_amqp1 import connection as vendor

        state = delivery.remote_state
        if state in (0, vendor.RECEIVED) and not delivery.settled:
            return  # nothing is decided yet
        number = int(delivery.tag)
        delivery.settle()
        self._out -= 1
        fate, why = Fate.ACCEPTED, ""
        if state == vendor.REJECTED:
            name, why = vendor.condition_of(delivery)
            fate = Fate.RETRY if name in _PASSING else Fate.REFUSED
            why = f"the broker says: {why}"
            if name == _FORBIDDEN and self.options.address is not None:  # so it is for all
                self._fault = PermanentError(f"{self.place()}: {why}")
        elif state != vendor.ACCEPTED:
            fate, why = Fate.RETRY, "the broker has given it back"
        self._found.append(Answer(number, number, fate, why))

    def answers(self, seconds: float) -> Iterable[Answer]:
        from mainstem_broker_amqp1.connection import FAULTS

        made = self._connection
        try:
            self._submit()
            made.work(0 if self._found else seconds)
            self._submit()
        except Exception:
            # What was answered before counts.
            if not self._found:
                if made.fault in FAULTS and self._out:
                    raise MessageFault(f"the broker says: {made.fault}") from None
                raise
        if self._fault is not None:
            raise self._fault
        found, self._found = self._found, []
        return found

    def blocked(self) -> str:
        if self._link is None or self._out or not self._kept:
            return ""
        return "the broker gives no credit: the address is full, or nobody takes from it"

    def close(self) -> None:
        made, self._connection = self._connection, None
        if made is not None:
            made.close([self._link] if self._link is not None else [])
        self._link = None

    def place(self) -> str:
        host, port, _ = self.options.place(max(0, self._turn))
        return f"{host}:{port}"


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _name(given: bytes | str | None, what: str) -> str:
    text = given.decode() if isinstance(given, bytes) else given
    if not text and what == "address":
        raise ValueError("it has no address")
    if "\0" in (text or ""):  # where the library would end it
        raise ValueError(f"its {what} has a NUL in it")
    return text or ""


def _held(value: bytes | None) -> str | bytes:
    """Return a header as an application property has it: text where it is that."""
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        return value or b""
