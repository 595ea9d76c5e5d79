"""A connection to a broker, and what its messages are: the one module that imports the library."""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from mainstem import HostTLSOptions, PermanentError, PipelineError, TransientError
from proton import (
    SASL,
    Collector,
    Data,
    Delivery,
    Described,
    Disposition,
    Endpoint,
    Event,
    Link,
    Message,
    Terminus,
    Transport,
    byte,
    decimal32,
    decimal64,
    decimal128,
    symbol,
)
from proton import Connection as Engine

from mainstem_broker_amqp1.options import ConnectionOptions

#: What a broker says that no retry mends.
_LASTING = frozenset(
    f"amqp:{word}"
    for word in (
        "unauthorized-access",
        "not-found",
        "not-allowed",
        "not-implemented",
        "invalid-field",
        "precondition-failed",
    )
)
_NOT_FOUND, _TAKEN = "amqp:not-found", "container-id"
_SHARES = "SHARED-SUBS"
#: What may become of a message that is sent.
_OUTCOMES = tuple(f"amqp:{word}:list" for word in ("accepted", "rejected", "released", "modified"))
#: What ends a connection or link that is a message's fault.
FAULTS = frozenset({"amqp:link:message-size-exceeded", "amqp:decode-error"})
_FAREWELL = 2.0
_NONE = "it can't be read as a message of AMQP 1.0"
#: So many sections a message has at most.
_SECTIONS = 1_000
#: How much is read at a time, and taken before others have their turn, in bytes.
_READ, _MOST = 256 * 2**10, 4 * 2**20
_UP = Endpoint.LOCAL_ACTIVE | Endpoint.REMOTE_ACTIVE
_SELECTOR = "apache.org:selector-filter:string"

#: How JMS clients note what a message's address is.
_DESTINATIONS = {
    "queue": {symbol("x-opt-jms-dest"): byte(0)},
    "topic": {symbol("x-opt-jms-dest"): byte(1)},
}
ACCEPTED, REJECTED = Disposition.ACCEPTED, Disposition.REJECTED
RELEASED, RECEIVED = Disposition.RELEASED, Disposition.RECEIVED


class Connection:
    """A connection that the broker has let in, used in one thread.

    Args:
        options: how the broker is reached.
        turn: which of its URLs.
        container: the container id, JMS's client id.
        delivered: is given each message that came, with its bytes.
        answered: is given each message that was sent when the broker has said what became of it.
        served: whether what is asked for was there before, so that it may come again.

    Attributes:
        place: where this is, for people.
        drains: whether the broker can be asked to give back credit.
        fault: what the broker calls the reason why it has ended the connection or a link.

    Raises:
        TransientError: the broker can't be reached now.
        PermanentError: it does not let us in, or a file of `tls` can't be read.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        turn: int,
        container: str,
        *,
        delivered: Callable[[Delivery, bytes], None] | None = None,
        answered: Callable[[Delivery], None] | None = None,
        served: bool = False,
    ) -> None:
        self._options, self._served = options, served
        self._delivered, self._answered = delivered, answered
        host, port, secured = options.place(turn)
        self.place, self.fault = f"{host}:{port}", ""
        self._error: PipelineError | None = None
        self._ended = self._leaving = False
        self._socket = self._connect(host, port, secured=secured)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._collector = Collector()
        engine = self._engine = Engine()
        engine.container = container
        engine.hostname = options.virtual_host or host
        engine.collect(self._collector)
        transport = self._transport = Transport()
        transport.idle_timeout = options.idle_timeout.total_seconds()
        sasl = transport.sasl()
        if (login := options.login(turn)) is not None:
            engine.user, engine.password = login
            # TLS is below this; without it the document's author has decided.
            sasl.allow_insecure_mechs = True
            sasl.allowed_mechs("PLAIN")
        else:
            sasl.allowed_mechs("EXTERNAL ANONYMOUS" if secured else "ANONYMOUS")
        try:
            transport.bind(engine)
            engine.open()
            self._session = engine.session()
            self._session.open()
            self.until(lambda: engine.state == _UP, "the connection")
            self.drains = _drains(engine.remote_properties)
        except BaseException:
            self._socket.close()
            raise

    def _connect(self, host: str, port: int, *, secured: bool) -> socket.socket:
        seconds = self._options.connect_timeout.total_seconds()
        made = None
        try:
            made = socket.create_connection((host, port), seconds)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if secured:
                try:
                    context = (self._options.tls or HostTLSOptions()).context()
                except OSError as error:
                    raise PermanentError(str(error)) from None
                made = context.wrap_socket(made, server_hostname=host)
            made.setblocking(False)
        except BaseException as error:
            if made is not None:
                made.close()
            if isinstance(error, ssl.SSLCertVerificationError):
                said = f"the broker's certificate: {error.verify_message}"
                raise PermanentError(f"{self.place}: {said}") from None
            if isinstance(error, OSError):
                raise TransientError(f"{self.place}: {error}") from None
            raise
        return made

    # -- links ------------------------------------------------------------------------------------

    def receiver(
        self, name: str, address: str, *, selector: str | None, kept: bool, shared: bool
    ) -> Any:
        """Attach a link by which messages come, without any credit; returns it.

        Args:
            name: of the link, which a durable subscription is known by.
            address: where they come from.
            selector: which of them.
            kept: whether it is a topic's durable subscription.
            shared: whether others have a part in that.

        Raises:
            PermanentError: the broker refuses it.
            TransientError: it can't be had now.
        """
        link = self._session.receiver(name)
        source = link.source
        source.address = address
        if selector is not None:
            told = {symbol("selector"): Described(symbol(_SELECTOR), selector)}
            source.filter.put_object(told)
        if kept:
            source.durability, source.expiry_policy = Terminus.DELIVERIES, Terminus.EXPIRE_NEVER
        # What brokers that make addresses as they are asked for make of this one.
        _say(source, *(["topic", *(["shared", "global"] if shared else [])] if kept else ["queue"]))
        link.target.address = name
        link.snd_settle_mode = Link.SND_UNSETTLED
        if shared and _SHARES not in map(str, _list(self._engine.remote_offered_capabilities)):
            raise PermanentError(f"{self.place}: the broker has no shared subscriptions")
        self._open(link, lambda: link.remote_source)
        given = link.remote_source
        # RabbitMQ's old plugin says yes to any filter.
        if selector is not None and not (self.drains and _holds(given.filter)):
            raise PermanentError(f"{self.place}: the broker does not know selectors")
        if kept and given.durability == Terminus.NONDURABLE:
            raise PermanentError(f"{self.place}: the broker has no durable subscriptions")
        return link

    def sender(self, name: str, address: str | None, kind: str) -> Any:
        """Attach a link by which messages go to an address, or to what each of them says; returns it.

        Args:
            name: of the link.
            address: where they go; None for what each says.
            kind: what the address is: `queue` or `topic`.

        Raises:
            PermanentError: the broker refuses it.
            TransientError: it can't be had now.
        """
        link = self._session.sender(name)
        link.source.address = name
        link.snd_settle_mode = Link.SND_UNSETTLED
        _put(link.source.outcomes, _OUTCOMES)
        if address is not None:
            link.target.address = address
            _say(link.target, kind)
        else:
            link.target.type = Terminus.TARGET
        self._open(link, lambda: link.remote_target)
        return link

    def _open(self, link: Any, remote: Callable[[], Any]) -> None:
        link.open()
        # One that is refused is attached to nothing, and detached then with the reason.
        self.until(lambda: link.state == _UP and remote().type != Terminus.UNSPECIFIED, "the link")

    # -- work -------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Work until a condition holds.

        Raises:
            PipelineError: the connection or a link is no longer good, or time is up.
        """
        limit = time.monotonic() + self._options.connect_timeout.total_seconds()
        while not condition():
            if (left := limit - time.monotonic()) <= 0:
                raise TransientError(f"{self.place}: the broker has not answered {what} in time")
            self.work(left)

    def work(self, seconds: float) -> None:
        """Send what waits, and take what comes, waiting so long for the first.

        Raises:
            PipelineError: the connection or a link is no longer good.
        """
        self._dispatch()  # also what was asked for since, so that it goes out now
        waits = self._send()
        made = self._socket
        pending = isinstance(made, ssl.SSLSocket) and made.pending()
        self._poll.modify(made, select.POLLIN | (select.POLLOUT if waits else 0))
        ready = self._poll.poll(0 if pending else max(0, int(seconds * 1000)))
        if pending or any(what & ~select.POLLOUT for _, what in ready):
            self._read()
        self._transport.tick(time.monotonic())
        self._dispatch()
        self._send()
        if self._error is not None:
            raise self._error
        if self._ended:
            raise TransientError(f"{self.place}: the broker has ended the connection")

    def _read(self) -> None:
        count = 0
        while count < _MOST:
            room = self._transport.capacity()
            if room <= 0:
                self._ended = self._ended or room < 0
                return
            try:
                data = self._socket.recv(min(room, _READ))
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError as error:
                self._break(TransientError(f"{self.place}: {error}"))
                return
            if not data:
                self._transport.close_tail()
                self._dispatch()
                self._ended = True
                return
            count += len(data)
            try:
                self._transport.push(data)
            except Exception as error:  # what came is not AMQP
                self._break(TransientError(f"{self.place}: {error}"))
                return
            self._dispatch()

    def _send(self) -> bool:
        """Send what waits as far as the socket takes it; whether some still waits."""
        transport = self._transport
        while (size := transport.pending()) > 0:
            try:
                sent = self._socket.send(transport.peek(min(size, _READ)) or b"")
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return True
            except OSError as error:
                self._break(TransientError(f"{self.place}: {error}"))
                return False
            transport.pop(sent)
        return False

    def _break(self, error: PipelineError) -> None:
        if self._error is None:
            self._error = error

    def _dispatch(self) -> None:
        collector: Any = self._collector
        while (event := collector.peek()) is not None:
            kind = event.type
            if kind is Event.TRANSPORT_ERROR:
                passing = event.transport.sasl().outcome in (SASL.SYS, SASL.TEMP)
                self._refused(event.transport.condition, passing=passing)
            elif self._leaving:
                pass
            elif kind is Event.DELIVERY:
                self._delivery(event.delivery)
            elif kind is Event.CONNECTION_REMOTE_CLOSE:
                self._refused(event.connection.remote_condition)
            elif kind is Event.SESSION_REMOTE_CLOSE:
                self._refused(event.session.remote_condition)
            elif kind in (Event.LINK_REMOTE_CLOSE, Event.LINK_REMOTE_DETACH):
                self._refused(event.link.remote_condition)
            collector.pop()

    def _refused(self, condition: Any, *, passing: bool = False) -> None:
        name = condition.name if condition is not None else ""
        said = (condition.description or name) if condition is not None else "it says no reason"
        self.fault = self.fault or name
        text = f"{self.place}: the broker says: {said}"
        passing = passing or (name == _NOT_FOUND and self._served)
        # The connection before this one has not ended yet for the broker.
        passing = passing or _TAKEN in str(getattr(condition, "info", None))
        lasting = name in _LASTING and not passing
        self._break(PermanentError(text) if lasting else TransientError(text))

    def _delivery(self, delivery: Delivery) -> None:
        link: Any = delivery.link  # once, for the library makes it anew each time
        if link.is_sender:
            if delivery.updated and self._answered is not None:
                self._answered(delivery)
        elif delivery.aborted:
            delivery.settle()
        elif delivery.readable and not delivery.partial:
            data = link.recv(delivery.pending) or b""
            link.advance()
            if self._delivered is not None:
                self._delivered(delivery, bytes(data))

    def close(self, links: Sequence[Any] = (), *, kept: bool = False) -> None:
        """Take leave: end the links, and the connection once the broker has read all.

        Args:
            links: those that were attached.
            kept: whether the broker is to keep what the links stand for.
        """
        with suppress(PipelineError, OSError, ValueError):
            if self._error is None and not self._ended:
                self._leaving = True
                for link in links:
                    if kept:
                        link.detach()
                    else:
                        link.close()
                self._engine.close()
                limit = time.monotonic() + _FAREWELL
                while not self._engine.state & Endpoint.REMOTE_CLOSED:
                    if time.monotonic() > limit:
                        break
                    self.work(0.1)
        with suppress(OSError):
            self._socket.close()
        self._transport.unbind()
        self._collector = Collector()


def _drains(told: Any) -> bool:
    """Whether a broker can be asked to drain a link, by what it says of itself.

    The plugin of RabbitMQ before version 4 ends the session of who does.
    """
    said = {str(name): str(value) for name, value in (told or {}).items()}
    old = said.get("version", "").partition(".")[0] in ("0", "1", "2", "3")
    return not (said.get("product") == "RabbitMQ" and old)


def _say(terminus: Any, *words: str) -> None:
    """Say what an end of a link is to be capable of."""
    _put(terminus.capabilities, words)


def _put(told: Any, words: Sequence[str]) -> None:
    told.put_array(False, Data.SYMBOL)
    told.enter()
    for word in words:
        told.put_symbol(symbol(word))
    told.exit()


def _list(found: Any) -> list[Any]:
    """Return capabilities, of which one comes alone."""
    elements = getattr(found, "elements", found)
    if elements is None:
        return []
    return [elements] if isinstance(elements, str) else list(elements)


def _holds(told: Any) -> bool:
    """Whether there is anything in a map."""
    told.rewind()
    return bool(told.next()) and bool(told.get_object())


def condition_of(delivery: Delivery) -> tuple[str, str]:
    """Return what a broker says of a message that it has rejected: the name, and words."""
    found = delivery.remote.condition
    if found is None:
        return "", "it says no reason"
    return found.name or "", found.description or found.name or "it says no reason"


# -- messages ---------------------------------------------------------------------------------------


def sections(encoded: bytes) -> list[tuple[int, Any]]:
    """Return the sections of a message: each one's number, and what it holds.

    Raises:
        ValueError: it is no message of AMQP 1.0.
    """
    found: list[tuple[int, Any]] = []
    data, at = Data(), 0
    while at < len(encoded):
        if len(found) == _SECTIONS:
            raise ValueError(f"{_NONE}: it has more than {_SECTIONS} sections")
        data.clear()
        try:
            at += data.decode(encoded[at:] if at else encoded)
            data.rewind()
            data.next()
            held = data.get_object()
        except Exception as error:
            raise ValueError(f"{_NONE}: {error}") from None
        if not isinstance(held, Described) or not isinstance(held.descriptor, int):
            raise ValueError(f"{_NONE}: a section has no number")
        found.append((int(held.descriptor), _own(held.value)))
    return found


def _own(value: Any) -> Any:
    """Return a value that does not share the library's memory."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, decimal32 | decimal64 | decimal128):  # the library has their bits alone
        raise ValueError("it has a decimal of AMQP's, which can't be read")
    if isinstance(value, dict):
        return {_own(name): _own(held) for name, held in value.items()}
    if isinstance(value, Described):
        return _own(value.value)
    if isinstance(value, list):
        return [_own(each) for each in value]
    elements = getattr(value, "elements", None)  # of an array
    return value if elements is None else [_own(each) for each in elements]


def encoded(
    body: bytes | str,
    *,
    identity: str | None,
    address: str | None,
    kind: str,
    group: str | None,
    properties: Mapping[str, str | bytes],
    durable: bool,
    expiry: float | None,
) -> bytes:
    """Return a message as it goes out.

    Args:
        body: bytes make a section of data, text a value.
        identity: its message id.
        address: where it goes, over a link that leads everywhere.
        kind: what the address is: `queue` or `topic`.
        group: its group, JMSXGroupID.
        properties: those of the application.
        expiry: after how many seconds the broker drops it.
    """
    made: Any = Message(body)
    made.inferred = isinstance(body, bytes)
    made.durable = durable
    made.annotations = _DESTINATIONS[kind]
    if identity is not None:
        made.id = identity
    if address is not None:
        made.address = address
    if group is not None:
        made.group_id = group
    if properties:
        made.properties = dict(properties)
    if expiry is not None:
        made.ttl = expiry
    return bytes(made.encode())
