"""Clients on librdkafka, for what Spark's own can't do; the only module that imports confluent_kafka.

They say nothing on standard error: what they complain of is kept, for the one error that a call ends
with often says only that time ran out.
"""

from __future__ import annotations

import logging
import re
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from mainstem import ExternalError, MachineError, OptionError, PermanentError, TransientError

from mainstem_broker_kafka.connection import Properties

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer, ShareConsumer
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")

_UNKNOWN = re.compile(r'No such configuration property: "([^"]+)"')
_KEPT = 20


class Heard:
    """What a client has complained of, the newest last."""

    def __init__(self) -> None:
        self.errors: deque[KafkaError] = deque(maxlen=_KEPT)
        #: Takes the client's log, which tells the same again, and prints nothing.
        self.logger = logging.Logger("mainstem.kafka")  # known to nobody
        self.logger.addHandler(logging.NullHandler())
        self._client: weakref.ref[Any] | None = None

    def error(self, error: KafkaError) -> None:
        """Keep an error that belongs to no call: the client's `error_cb`."""
        self.errors.append(error)

    def all(self) -> list[KafkaError]:
        """Return the errors up to now, also those that the client has not handed out yet."""
        client = self._client() if self._client is not None else None
        if client is not None:
            client.poll(0)
        return list(self.errors)

    def follow(self, client: Any) -> None:
        """Take a client whose errors are to be fetched; others are polled for their own sake."""
        with suppress(TypeError):  # consumers and producers can't be referred to weakly
            self._client = weakref.ref(client)


def unless_given(settings: Properties, **more: Any) -> dict[str, Any]:
    """Return those of some settings, with `_` for `.`, that the user has not given."""
    return {key: value for key, value in more.items() if key.replace("_", ".") not in settings}


def library() -> Any:
    """Return the module `confluent_kafka`, with its `admin`: for its types and constants."""
    import confluent_kafka
    import confluent_kafka.admin

    return confluent_kafka


def admin(settings: Properties, heard: Heard | None = None) -> AdminClient:
    """Return a client for topics, offsets and groups; it connects when it is first asked."""
    from confluent_kafka.admin import AdminClient

    return _make(AdminClient, settings, heard, {})


def consumer(settings: Properties, heard: Heard | None = None, **more: Any) -> Consumer:
    """Return a consumer that commits nothing by itself; `close` it.

    Args:
        settings: `connecting.librdkafka(options)`.
        heard: keeps what the client complains of.
        more: further settings, with `_` for `.`: `group_id`.
    """
    from confluent_kafka import Consumer

    plain = {"enable_auto_commit": False, "enable_auto_offset_store": False, **more}
    return _make(Consumer, settings, heard, plain)


def producer(settings: Properties, heard: Heard | None = None, **more: Any) -> Producer:
    """Return a producer; arguments as `consumer`'s."""
    from confluent_kafka import Producer

    return _make(Producer, settings, heard, more)


def share_consumer(
    settings: Properties,
    group: str,
    heard: Heard,
    watched: Callable[[str], None],
    **more: Any,
) -> ShareConsumer:
    """Return a member of a share group, whose messages are acknowledged one by one; `close` it.

    Args:
        settings: `connecting.librdkafka(options)`.
        group: the share group.
        heard: keeps what the client complains of.
        watched: is told every second, in `poll`, what the client is about (statistics in JSON).
        more: further settings, with `_` for `.`.

    Raises:
        MachineError: the installed library knows no share groups.
    """
    try:
        from confluent_kafka import ShareConsumer
    except ImportError:
        raise MachineError(
            "kafka_queue needs confluent-kafka 2.15 or newer: pip install 'confluent-kafka>=2.15'"
        ) from None
    given = {
        "group_id": group,
        "share_acknowledgement_mode": "explicit",
        "statistics_interval_ms": 1000,
        "stats_cb": watched,
        **more,
    }
    return _make(ShareConsumer, settings, heard, given)


def _make(
    kind: Callable[..., T], settings: Properties, heard: Heard | None, more: Mapping[str, Any]
) -> T:
    from confluent_kafka import KafkaException

    heard = heard or Heard()
    named = {k if callable(v) else k.replace("_", "."): v for k, v in more.items()}
    given: dict[str, Any] = {**settings, **named}
    given["error_cb"] = heard.error
    while True:
        try:
            made = kind(dict(given), logger=heard.logger)
            heard.follow(made)
            return made
        except (KafkaException, ValueError) as error:
            # `kafka` speaks to Java's client too, which has settings that librdkafka knows nothing of.
            unknown = _UNKNOWN.search(str(error))
            if unknown and unknown[1] in settings.optional and unknown[1] in given:
                del given[unknown[1]]
                continue
            hint = (
                "What differs between the clients goes under `librdkafka`." if not unknown else ""
            )
            message = f"Kafka's client does not take a setting: {words(error)}"
            raise OptionError(message, option="kafka", hint=hint) from None


# -- errors -------------------------------------------------------------------------------------

#: What an error's name begins with or its text has, and what its reader looks at next: the first found
#: is told.
_NEXT: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"_AUTHENTICATION|SASL_|ILLEGAL_SASL|.*SASL authentication error"),
        "Look at `sasl`: mechanism, user and password.",
    ),
    (
        re.compile(r"_SSL|.*(SSL routines|SSL handshake|certificate)"),
        "Look at `tls`: `ca`, `certificate`, and whether the broker's listener speaks TLS.",
    ),
    (
        re.compile(r"UNSUPPORTED_VERSION.*Share"),
        "Share groups are there since Kafka 4.2 (`kafka-features upgrade --feature share.version=1`).",
    ),
    (
        re.compile(r"(GROUP_ID_NOT_FOUND|INCONSISTENT_GROUP_PROTOCOL).*Share"),
        "Is there a consumer group of this name? A share group needs another one.",
    ),
    (
        re.compile(r"(TOPIC|GROUP|CLUSTER|TRANSACTIONAL_ID)_AUTHORIZATION"),
        "The user lacks a permission (ACL) on the broker.",
    ),
    (
        re.compile(r"_?UNKNOWN_TOPIC"),
        "Is the topic's name right, and may the user see it?",
    ),
    (
        re.compile(r"_RESOLVE|_TRANSPORT|_ALL_BROKERS_DOWN|_TIMED_OUT|_WAIT"),
        "Are the brokers up and to be reached from here, by what `tls` and `sasl` say?",
    ),
)


#: What an error's name begins with, or its text has, that no retry mends; and of those what it does mend.
_LASTING = re.compile(
    r"_AUTHENTICATION|SASL_|ILLEGAL_SASL|.*_AUTHORIZATION|UNSUPPORTED_VERSION|INVALID_(CONFIG|GROUP_ID)"
    r"|GROUP_ID_NOT_FOUND|INCONSISTENT_GROUP|.*(certificate verify failed|SASL authentication error)"
)
_PASSING = re.compile(r".*([Tt]ransport failure|timed out|Failed to acquire|[Dd]isconnected)")
#: Errors that say only that nothing came of it: what was complained of meanwhile says why.
_VAGUE = ("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN")


@contextmanager
def asking(doing: str, settings: Properties, heard: Heard | None = None) -> Iterator[None]:
    """Turn a client's error inside the block into one that says what was tried, and where.

    Args:
        doing: what is tried, as in `reading the offsets of orders`.
        settings: those of the client.
        heard: what it has complained of meanwhile.

    Raises:
        TransientError: a retry may help; without credentials, as the next.
        PermanentError: none does.
    """
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise failure(error, doing, settings, heard) from None


def failure(
    error: Exception, doing: str, settings: Properties, heard: Heard | None = None
) -> ExternalError:
    """Return the error that says what was tried, what came of it and what to do next."""
    own = kafka_error(error)
    # What was complained of meanwhile says more than "time ran out".
    found = [e for e in (*(heard.all() if heard else ()), own) if e is not None]
    told = next(
        (
            (one, step)
            for pattern, step in _NEXT
            for one in found
            if pattern.match(f"{one.name()}: {one.str()}")
        ),
        None,
    )
    text = words(error)
    if told is not None and told[0] is not own:
        text = f"{text} ({told[0].str()})"
    step = f" {told[1]}" if told is not None else ""
    if settings.left_out:
        step += (
            f" `kafka` has {', '.join(sorted(settings.left_out))}, of which this client (librdkafka) "
            "knows nothing: say under `librdkafka`, in its words, how it is let in."
        )
    why = found if own is None or own.name() in _VAGUE else [own]
    kind = PermanentError if any(map(_lasts, why)) else TransientError
    return kind(f"{doing} failed at {settings.servers}: {text}.{step}")


def _lasts(error: KafkaError) -> bool:
    text = f"{error.name()}: {error.str()}"
    return bool(_LASTING.match(text)) and not _PASSING.match(text)


def raised(error: KafkaError) -> Exception:
    """Return the exception for an error that came with a message."""
    from confluent_kafka import KafkaException

    return KafkaException(error)


def kafka_error(error: BaseException) -> KafkaError | None:
    """Return the `KafkaError` that an exception of the client carries, if it does."""
    from confluent_kafka import KafkaError

    return next((one for one in error.args if isinstance(one, KafkaError)), None)


def code(error: BaseException) -> str:
    """Return the name of a client's error, such as `_TIMED_OUT`; empty if it has none."""
    found = kafka_error(error)
    return found.name() if found is not None else ""


def words(error: BaseException) -> str:
    """Return what a client's error says, in one line."""
    found = kafka_error(error)
    text = found.str() if found is not None else str(error)
    return " ".join(text.split()).rstrip(".") or type(error).__name__
