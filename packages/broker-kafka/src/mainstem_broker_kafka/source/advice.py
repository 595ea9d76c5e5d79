"""What to do about what Spark's source fails with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainstem_broker_kafka.source.offsets import Places

_LOST = re.compile(
    r"KAFKA_DATA_LOSS|OffsetOutOfRange|may have been missed|Some data may have been lost|"
    r"Cannot fetch offset"
)
_UNREACHED = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(TimeoutException|DisconnectException)|"
    r"No resolvable bootstrap urls|Timed out waiting for a node assignment"
)
_LOGIN = re.compile(r"SaslAuthenticationException|SslAuthenticationException|SSLHandshakeException")
_SETTINGS = re.compile(
    r"Failed to (create new KafkaAdminClient|construct kafka consumer)", re.IGNORECASE
)
_FORBIDDEN = re.compile(r"(Topic|Group|Cluster)AuthorizationException")


#: What Spark's reader says of a timestamp that it can't hold in microseconds.
_OVERFLOW = "long overflow"


def overflows(failure: str) -> bool:
    """Whether a failure may be of a message's timestamp."""
    return _OVERFLOW in failure


def of_overflow(found: Places) -> str:
    """Return which messages have timestamps that Spark's reader can't hold."""
    places = ", ".join(
        f"{p.topic} partition {p.number} offset {o}" for p, o in sorted(found.items())
    )
    return (
        f"the timestamp of {places} is beyond what Spark's reader of Kafka can hold (nanoseconds for "
        "milliseconds?): read with the second client instead"
    )


def advice(failure: str) -> str:
    """Return the next step for who reads `failure`; empty if it is none of Kafka's."""
    if overflows(failure):
        return (
            "A message's timestamp is beyond what Spark's reader of Kafka can hold. The second client "
            "reads such topics, but does not know how to log in: `kafka` says that for Spark's alone. "
            "Say it under `librdkafka` too, in its words."
        )
    if _LOST.search(failure):
        return (
            "Messages were gone before they were read: the topic's retention removed them, or the topic "
            "was deleted. `on_loss: report` goes on after them, and tells in the output `lost` "
            "which offsets are gone; `--fresh` starts over at `start`."
        )
    if _LOGIN.search(failure):
        return "The broker lets nobody in with this `sasl` and `tls`."
    if _SETTINGS.search(failure):
        return (
            "Kafka's client in Java does not take these settings: look at `tls` (an encrypted key of a "
            "kind that Java reads: openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES), `sasl` and `kafka`."
        )
    if _FORBIDDEN.search(failure):
        return "The user lacks a permission (ACL) on the broker."
    if _UNREACHED.search(failure):
        return (
            "The brokers did not answer for long: are they up? The next run goes on after the last batch "
            "that was finished."
        )
    return ""
