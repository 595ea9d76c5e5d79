"""A connection to a server, and what its answers mean: the one module that imports the library."""

from __future__ import annotations

import select
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from mainstem import HostTLSOptions, PermanentError, TransientError
from paho.mqtt.client import Client, MQTTMessage, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from mainstem_broker_mqtt.options import ConnectionOptions, MQTTSourceOptions

#: Reasons why a connection or a subscription is refused that no retry mends.
_LASTING = frozenset(
    {
        *(0x81, 0x82, 0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x8F, 0x90, 0x95, 0x9A, 0x9B, 0x9D),
        *(0x9E, 0xA1, 0xA2),
    }
)
#: Reasons why a message is refused that pass: any error, the server's own, no room.
PASSING = frozenset({0x80, 0x83, 0x97})
#: Reasons to end a connection that are one of its messages' fault.
_FAULTS = frozenset({0x80, 0x81, 0x82, 0x90, 0x95, 0x99, 0x9A, 0x9B})
#: So often it is looked in vain whether more has come, before it is waited.
_LOOKS = 3
#: About so much is taken at a time, so that others have their turn.
_MOST = 2000
#: How long the server may take to read what was sent last, in seconds; a topic that nobody has, which is
#: given up so that it answers.
_LEAVE, _NOTHING = 2.0, "mainstem/nothing"
_RETAINED = {"always": 0, "new": 1, "never": 2}


class Connection:
    """A client that the server has let in, used in one thread.

    Args:
        options: how the server is reached.
        client_id: what the server knows the client by; empty for a session that ends with it.
        messages: is given each message that comes.
        published: is given the packet id of each message that was acknowledged, and the reason's number.
        in_flight: how many messages that are published may be without an answer.

    Raises:
        TransientError: the server can't be reached now.
        PermanentError: it does not let us in, or a file of `tls` can't be read.

    Attributes:
        resumed: whether the server had the session.
        most: how many messages the server takes without an answer.
        largest: how many bytes a packet may have that the server takes.
        fault: what the server says of a message, if it has ended the connection because of one.
        aliases: whether it knows a topic by a number that it was given with it.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        client_id: str = "",
        messages: Callable[[MQTTMessage], None] | None = None,
        published: Callable[[int, int], None] | None = None,
        in_flight: int = 20,
    ) -> None:
        self._options = options
        self._five = options.version == "5"
        self._broken = ""
        self._answer: Any = None
        self.most, self.aliases = 65_535, False
        self.largest, self.fault = 2**28, ""
        #: How much has come, so that it can be seen that nothing more has.
        self._came = 0
        #: Whether something was sent that nobody answers.
        self._unread = False
        own: dict[str, Any] = {} if self._five else {"clean_session": not client_id}
        client = self._client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=MQTTv5 if self._five else MQTTv311,
            manual_ack=True,
            reconnect_on_failure=False,
            **own,
        )
        client.connect_timeout = options.connect_timeout.total_seconds()
        client.max_queued_messages_set(0)
        client.max_inflight_messages_set(in_flight)
        client.on_connect = self._connected
        client.on_disconnect = self._disconnected
        client.on_subscribe = client.on_unsubscribe = self._subscribed
        self._messages, self._published = messages, published
        client.on_message = self._message
        client.on_publish = self._acknowledged
        if (login := options.login()) is not None:
            client.username_pw_set(*login)
        try:
            if options.address().scheme == "mqtts":
                client.tls_set_context((options.tls or HostTLSOptions()).context())
        except OSError as error:
            raise PermanentError(str(error)) from None
        if isinstance(options, MQTTSourceOptions) and options.will is not None:
            will = options.will
            client.will_set(will.topic, will.payload, will.qos, will.retain)
        try:
            self._open(kept=bool(client_id))
        except BaseException:
            # The library would keep it, and nobody else knows of it.
            if (made := client.socket()) is not None:
                made.close()
            raise

    def _open(self, *, kept: bool) -> None:
        options = self._options
        given: dict[str, Any] = {}
        if self._five:
            properties = _properties(PacketTypes.CONNECT)
            if isinstance(options, MQTTSourceOptions):
                properties.ReceiveMaximum = options.prefetch
                properties.SessionExpiryInterval = int(options.session_expiry.total_seconds())
            given = {"clean_start": not kept, "properties": properties}
        keep_alive = max(1, int(options.keep_alive.total_seconds()))
        try:
            self._client.connect(*options.place(), keep_alive, **given)
        except ssl.SSLCertVerificationError as error:
            raise PermanentError(f"the server's certificate: {error.verify_message}") from None
        except (OSError, ValueError) as error:
            raise TransientError(str(error) or type(error).__name__) from None
        flags, reason = self._answered("the connection")
        if reason.is_failure:
            raise _refused(reason)
        self.resumed = bool(flags.session_present)

    def _answered(self, what: str) -> Any:
        """Wait for an answer, and return it."""
        until = time.monotonic() + self._options.connect_timeout.total_seconds()
        while self._answer is None:
            if (left := until - time.monotonic()) <= 0:
                raise TransientError(f"the server has not answered {what} in time")
            self.work(left)
        answer, self._answer = self._answer, None
        return answer

    def _message(self, _client: Any, _data: Any, message: MQTTMessage) -> None:
        self._came += 1
        if self._messages is not None:
            self._messages(message)

    def _acknowledged(self, _client: Any, _data: Any, mid: int, reason: Any, _more: Any) -> None:
        self._came += 1
        if self._published is not None:
            self._published(mid, reason.value)

    def _connected(self, _client: Any, _data: Any, flags: Any, reason: Any, more: Any) -> None:
        self._answer = flags, reason
        self.most = getattr(more, "ReceiveMaximum", None) or self.most
        self.largest = getattr(more, "MaximumPacketSize", None) or self.largest
        self.aliases = bool(getattr(more, "TopicAliasMaximum", 0))

    def _disconnected(self, _client: Any, _data: Any, flags: Any, reason: Any, _more: Any) -> None:
        if self._answer is None:  # a refusal says more
            said = flags.is_disconnect_packet_from_server and reason.value in _FAULTS
            self.fault = str(reason) if said else ""
            self._broken = f"the server has ended the connection: {reason}"

    def _subscribed(self, _client: Any, _data: Any, _mid: Any, reasons: Any, _more: Any) -> None:
        self._answer = reasons

    def subscribe(self, filters: Sequence[str], qos: int, retained: str) -> None:
        """Subscribe, and wait for the server's answer.

        Raises:
            PermanentError: one is refused for good; says which.
            TransientError: the server can't now.
        """
        asked: Any = [(name, qos) for name in filters]
        if self._five:
            how = SubscribeOptions(
                qos=qos, retainAsPublished=False, retainHandling=_RETAINED[retained]
            )
            asked = [(name, how) for name in filters]
        self._client.subscribe(asked)
        for name, reason in zip(filters, self._answered("the subscription"), strict=True):
            if reason.is_failure:
                raise _refused(reason, f"{name!r}: ")

    def unsubscribe(self, filters: Sequence[str]) -> None:
        """Let messages of some topics come no more."""
        self._client.unsubscribe(list(filters))
        self._answered("what is given up")

    def work(self, seconds: float) -> None:
        """Send what waits, and take what comes, waiting so long for the first.

        Raises:
            TransientError: the connection is no longer good.
        """
        client = self._client
        made = client.socket()
        if made is None:
            raise TransientError(self._broken or "the server has ended the connection")
        wants = [made] if client.want_write() else []
        pending = isinstance(made, ssl.SSLSocket) and made.pending()
        ready, can, _ = select.select([made], wants, [], 0 if pending else seconds)
        if can:
            self._check(client.loop_write())
        if ready or pending:
            looks, begun = 0, self._came
            while looks < _LOOKS and self._came - begun < _MOST and client.socket() is not None:
                before = self._came
                self._check(client.loop_read())
                looks = looks + 1 if self._came == before else 0
        self._check(client.loop_misc())

    def _check(self, code: MQTTErrorCode) -> None:
        if code != MQTTErrorCode.MQTT_ERR_SUCCESS and self._answer is None:
            raise TransientError(self._broken or f"the connection is broken: {code.name}")

    def acknowledge(self, packet: int) -> None:
        """Acknowledge a message, by its packet id."""
        self._unread = True
        self._client.ack(packet, 1)

    def publish(
        self, topic: str, payload: bytes, qos: int, *, retain: bool, properties: Properties | None
    ) -> int:
        """Publish a message; returns its packet id."""
        made = self._client.publish(topic, payload, qos, retain, properties)
        return int(made.mid)

    def close(self) -> None:
        """Take leave, once the server has read all that was sent before, and end the connection."""
        client = self._client
        with suppress(TransientError):
            if self._unread and client.socket() is not None:
                # The library ends a connection without a look whether anybody has read it.
                self._answer = None
                client.unsubscribe(_NOTHING)
                until = time.monotonic() + _LEAVE
                while self._answer is None and (left := until - time.monotonic()) > 0:
                    self.work(left)
        client.disconnect()


def _properties(kind: int) -> Properties:
    made: Any = Properties
    return made(kind)  # type: ignore[no-any-return]


def user_properties(pairs: Sequence[tuple[str, str]], expiry: int | None) -> Properties:
    """Return the properties of a message to publish."""
    made = _properties(PacketTypes.PUBLISH)
    if pairs:
        made.UserProperty = list(pairs)
    if expiry is not None:
        made.MessageExpiryInterval = expiry
    return made


def _refused(reason: Any, what: str = "") -> PermanentError | TransientError:
    text = f"{what}the server says: {reason}"
    return PermanentError(text) if reason.value in _LASTING else TransientError(text)
