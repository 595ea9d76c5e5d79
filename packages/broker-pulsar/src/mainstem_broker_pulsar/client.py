"""Connections by the vendor's library, which is imported here alone."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pulsar  # type: ignore[import-untyped]
from mainstem import ExternalError, PermanentError, TransientError

from mainstem_broker_pulsar.options import ConnectionOptions

Timeout = pulsar.Timeout
Failure = pulsar.PulsarException
Result = pulsar.Result
#: Results that are about one message, which will never be taken.
UNFIT = frozenset([Result.MessageTooBig, Result.InvalidMessage, Result.CryptoError])
#: What no retry mends.
_LASTING = (
    pulsar.AuthenticationError,
    pulsar.AuthorizationError,
    pulsar.ErrorGettingAuthenticationData,
    pulsar.IncompatibleSchema,
    pulsar.InvalidConfiguration,
    pulsar.InvalidTopicName,
    pulsar.InvalidUrl,
    pulsar.NotAllowedError,
    pulsar.OperationNotSupported,
    pulsar.TopicNotFound,
    pulsar.TopicTerminated,
    pulsar.UnsupportedVersionError,
)
LASTING = frozenset([Result.TopicTerminated, Result.AuthorizationError, Result.IncompatibleSchema])
_MODES = {
    "shared": pulsar.ConsumerType.Shared,
    "key_shared": pulsar.ConsumerType.KeyShared,
    "failover": pulsar.ConsumerType.Failover,
    "exclusive": pulsar.ConsumerType.Exclusive,
}
_STARTS = {
    "earliest": pulsar.InitialPosition.Earliest,
    "latest": pulsar.InitialPosition.Latest,
}
_COMPRESSED = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}


def failure(error: Exception, place: str, what: str = "") -> ExternalError:
    """Return what an error of the library means, in its words, which have no secrets."""
    text = (
        f"pulsar {place}: {what}{': ' if what else ''}{str(error).removeprefix('Pulsar error: ')}"
    )
    return PermanentError(text) if isinstance(error, _LASTING) else TransientError(text)


class Client:
    """A client of a cluster, which connects as it needs to and closes all that it has opened.

    Args:
        options: of the component.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        self.place = options.place()
        self._open: list[Any] = []
        tls, seconds = options.tls, options.connect_timeout.total_seconds()
        certificate = str(tls.certificate) if tls is not None and tls.certificate else None
        key = str(tls.key) if tls is not None and tls.key else certificate
        login: Any = None
        if options.token is not None:
            login = pulsar.AuthenticationToken(options.token.get_secret_value())
        elif options.user is not None and options.password is not None:
            login = pulsar.AuthenticationBasic(options.user, options.password.get_secret_value())
        elif certificate is not None:
            login = pulsar.AuthenticationTLS(certificate, key)
        try:
            self._client = pulsar.Client(
                options.url.get_secret_value(),
                login,
                operation_timeout_seconds=max(1, round(seconds)),
                connection_timeout_ms=round(1000 * seconds),
                stats_interval_in_seconds=0,
                tls_trust_certs_file_path=str(tls.ca) if tls is not None and tls.ca else None,
                tls_validate_hostname=tls is None or tls.verify_host,
                tls_certificate_file_path=certificate,
                tls_private_key_file_path=key,
                listener_name=options.listener,
                # It would print; what matters comes as exceptions.
                logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"),
            )
        except (Failure, ValueError, RuntimeError) as error:
            raise failure(error, self.place) from None

    def partitions(self, topic: str) -> list[str]:
        """Return the topics that a topic is made of: itself, if it has no partitions."""
        try:
            found: list[str] = self._client.get_topic_partitions(topic)
        except Failure as error:
            raise failure(error, self.place, topic) from None
        return found

    def consumer(
        self, topic: str, subscription: str, *, mode: str, start: str, prefetch: int, name: str
    ) -> Any:
        """Return a consumer of a durable subscription.

        Raises:
            ExternalError: there is none to be had.
        """
        try:
            made = self._client.subscribe(
                topic,
                subscription,
                consumer_type=_MODES[mode],
                initial_position=_STARTS[start],
                receiver_queue_size=prefetch,
                consumer_name=name,
                batch_index_ack_enabled=True,
                max_pending_chunked_message=100,
            )
        except Failure as error:
            raise failure(error, self.place, f"{topic}, subscription {subscription!r}") from None
        self._open.append(made)
        return made

    def reader(self, topic: str, ledger: int, entry: int, *, compacted: bool, name: str) -> Any:
        """Return a reader of what comes after an entry of a topic without partitions.

        Raises:
            ExternalError: there is none to be had.
        """
        after = pulsar.MessageId(-1, ledger, entry, -1)
        try:
            made = self._client.create_reader(
                topic,
                after,
                reader_name=name,
                is_read_compacted=compacted,
                receiver_queue_size=2000,
            )
        except Failure as error:
            raise failure(error, self.place, topic) from None
        self._open.append(made)
        return made

    def producer(
        self,
        topic: str,
        name: str | None,
        *,
        batching: str,
        compression: str,
        chunks: bool,
        pending: int,
        seconds: float,
    ) -> Any:
        """Return a producer for a topic without partitions.

        Args:
            topic: its full name.
            name: by which the broker knows its messages when they come again; None for one of its own.
            batching: `default`, `by_key`, `none`.
            compression: as the options name it.
            chunks: whether a large message goes in parts.
            pending: how many messages may have no answer.
            seconds: after how long without an answer messages have failed.

        Raises:
            ExternalError: there is none to be had.
        """
        by_key = batching == "by_key"
        try:
            return self._client.create_producer(
                topic,
                name,
                batching_enabled=batching != "none",
                batching_type=pulsar.BatchingType.KeyBased
                if by_key
                else pulsar.BatchingType.Default,
                batching_max_publish_delay_ms=2,
                compression_type=_COMPRESSED[compression],
                chunking_enabled=chunks,
                max_pending_messages=pending,
                max_pending_messages_across_partitions=pending,
                send_timeout_millis=round(1000 * seconds),
            )
        except Failure as error:
            raise failure(error, self.place, topic) from None

    def close(self) -> None:
        """End all connections, consumers, readers and producers."""
        # The library's own list of them would keep its threads until garbage is collected.
        for each in self._open:
            with suppress(Failure):
                each.close()
        self._open.clear()
        try:
            self._client.close()
        except Failure:  # it is gone all the same
            self._client.shutdown()
