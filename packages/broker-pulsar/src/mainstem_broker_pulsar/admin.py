"""What brokers tell by their administration: where a topic begins and ends, and what an entry is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import httpx
from mainstem import ExternalError, PermanentError, TransientError

from mainstem_broker_pulsar.content import place_at
from mainstem_broker_pulsar.options import PulsarSourceOptions

_FORBIDDEN = {401, 403}
#: What a broker without transactions says of itself.
_NO_TRANSACTIONS = "transactionCoordinatorEnabled"


#: How often a broker may send us to another one.
_REDIRECTS = 5
#: The longest message that is read so that its connection can be used again, in bytes.
_SMALL = 64 * 2**10


def _pair(entry: str) -> tuple[int, int]:
    """Return ledger and entry, as the administration writes them."""
    ledger, _, number = entry.partition(":")
    return int(ledger), int(number)


class _AnswerError(TransientError):
    """A broker has answered, with a status of HTTP that says no."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Ledgers:
    """The ledgers of a topic without partitions.

    Attributes:
        sizes: how many entries each has, by its number, oldest first; the last is written to.
        last: the last ledger and entry that readers are given, -1 for none.
        compacted: how many entries compaction has left beside them.
    """

    sizes: Mapping[int, int]
    last: tuple[int, int]
    compacted: int

    def between(self, begin: int, end: int) -> dict[int, range]:
        """Return the entries from a position to another one, by ledger."""
        first, last = place_at(begin), place_at(end)
        return {
            ledger: range(
                first.entry if ledger == first.ledger else 0,
                min(size, last.entry + 1) if ledger == last.ledger else size,
            )
            for ledger, size in self.sizes.items()
            if first.ledger <= ledger <= last.ledger
        }

    def upto(self, position: int) -> tuple[int, int] | None:
        """Return the last ledger and entry that are there up to a position; None if there is none."""
        last = place_at(position)
        found = None
        for ledger, size in self.sizes.items():
            here = min(size, last.entry + 1) if ledger == last.ledger else size
            if here and ledger <= last.ledger:
                found = ledger, here - 1
        return found


@dataclass(frozen=True)
class Entry:
    """What a broker tells of an entry, as headers of HTTP.

    Attributes:
        messages: how many messages are in it.
        published: when.
        chunk: of a part of a message: which message, which part of it, and of how many; None for others.
        open: whether it is of a transaction that is not ended.
        void: whether readers are not given it: a mark of the broker's, or of a transaction given up.
    """

    messages: int
    published: datetime | None
    chunk: tuple[str, int, int] | None
    open: bool
    void: bool


class Admin:
    """The brokers' administration.

    Args:
        options: of the source.
    """

    def __init__(self, options: PulsarSourceOptions) -> None:
        self._url = options.admin_url.get_secret_value().rstrip("/")
        login: Any = None
        headers = {}
        if options.token is not None:
            headers["Authorization"] = f"Bearer {options.token.get_secret_value()}"
        elif options.user is not None and options.password is not None:
            login = (options.user, options.password.get_secret_value())
        try:
            # What is trusted takes 20 ms to load.
            verify: Any = self._url.startswith("https:")
            if verify and options.tls is not None:
                verify = options.tls.context()
        except OSError as error:
            raise PermanentError(str(error)) from None
        self._client = httpx.Client(
            verify=verify,
            auth=login,
            headers=headers,
            timeout=options.connect_timeout.total_seconds(),
            trust_env=False,
        )
        self._place = self._url.partition("://")[2]
        #: Whether there may be transactions, as far as that was asked.
        self._transactions = True

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    def _answer(
        self, topic: str, path: str, of: str = "v2", *, headers: bool = False
    ) -> httpx.Response | None:
        """Return an answer about a topic; None if it, or what is asked for, is not there.

        Args:
            topic: its full name.
            path: what is asked of it.
            of: the part of the administration that is asked.
            headers: whether those of the answer are enough: it is a message, which may be large.

        Raises:
            ExternalError: nobody answers, or not to us.
        """
        domain, _, rest = topic.partition("://")
        tenant, namespace, name = rest.split("/")
        place = "/".join((tenant, namespace, quote(name, safe="")))
        where = f"{of}/{domain}/{place}/{path}" if path else f"{of}/{place}"
        url = httpx.URL(f"{self._url}/admin/{where}")
        try:
            for _ in range(_REDIRECTS):
                with self._client.stream("GET", url) as found:
                    length = int(found.headers.get("Content-Length", _SMALL + 1))
                    if not headers or found.status_code >= 300 or length <= _SMALL:
                        found.read()
                # To the broker that has the topic, with our login, as brokers expect it.
                if found.next_request is None or found.next_request.url.scheme != url.scheme:
                    break
                url = found.next_request.url
        except httpx.HTTPError as error:
            what = str(error) or type(error).__name__
            raise TransientError(f"pulsar's administration {self._place}: {what}") from None
        if found.status_code == 404:
            return None
        if found.status_code >= 300:
            raise self._failure(topic, found)
        return found

    def _failure(self, topic: str, found: httpx.Response) -> ExternalError:
        text = f"pulsar's administration {self._place}: {topic}: {found.status_code}"
        try:
            text += f" {found.json()['reason']}"
        except (ValueError, KeyError, TypeError):
            text += f" {found.reason_phrase}"
        status = found.status_code
        return PermanentError(text) if status in _FORBIDDEN else _AnswerError(text, status)

    def _told(self, topic: str, path: str) -> Any:
        found = self._answer(topic, path)
        if found is None:
            raise PermanentError(f"pulsar {self._place}: there is no topic {topic}")
        return found.json()

    def partitions(self, topic: str) -> list[str]:
        """Return the topics that a topic is made of: itself, if it has no partitions."""
        count = int(self._told(topic, "partitions").get("partitions", 0))
        return [f"{topic}-partition-{number}" for number in range(count)] or [topic]

    def made(self, topic: str) -> str:
        """Return when a topic without partitions was made."""
        return str(self._told(topic, "internal-info")["creationDate"])

    def retained(self, topic: str) -> float:
        """Return for how many seconds a topic keeps what nobody waits for; 0 if that is unknown."""
        try:
            found = self._answer(topic, "retention?applied=true")
        except PermanentError:  # that is not for us to know
            return 0.0
        except _AnswerError as error:
            if error.status >= 500:
                raise
            return 0.0  # topics have no policies here
        told = found.json() if found is not None and found.content else None
        if not told or int(told.get("retentionSizeInMB", 0)) != -1:
            return 0.0
        minutes = int(told.get("retentionTimeInMinutes", 0))
        return float("inf") if minutes < 0 else 60.0 * minutes

    def ledgers(self, topic: str) -> Ledgers:
        """Return what a topic without partitions has."""
        told = self._told(topic, "internalStats")
        sizes = {int(each["ledgerId"]): int(each["entries"]) for each in told["ledgers"]}
        if sizes:
            sizes[max(sizes)] = int(told["currentLedgerEntries"])
        compacted = max(0, int(told.get("compactedLedger", {}).get("entries", 0)))
        last = _pair(told["lastConfirmedEntry"])
        return Ledgers(dict(sorted(sizes.items())), self._given(topic) or last, compacted)

    def _given(self, topic: str) -> tuple[int, int] | None:
        """Return the last entry before those of open transactions; None where there are none."""
        if not self._transactions:
            return None
        try:
            found = self._answer(topic, "", "v3/transactions/transactionBufferStats")
        except (
            PermanentError
        ):  # that is not for us to know: an entry of one is seen when it is read
            self._transactions = False
            return None
        except _AnswerError as error:
            if _NO_TRANSACTIONS not in str(error):
                raise
            self._transactions = False
            return None
        told = found.json() if found is not None else {}
        if told.get("state") == "Initializing":
            raise TransientError(f"pulsar {self._place}: {topic} is looking for open transactions")
        return _pair(told["maxReadPosition"]) if told.get("maxReadPosition") else None

    def since(self, topic: str, time: datetime) -> tuple[int, int] | None:
        """Return ledger and entry of the first message of a time or later; None if there is none."""
        found = self._answer(topic, f"messageid/{round(time.timestamp() * 1000)}")
        if found is None:
            return None
        told = found.json()
        return (int(told["ledgerId"]), int(told["entryId"])) if told else None

    def entry(self, topic: str, ledger: int, entry: int) -> Entry | None:
        """Return what an entry is; None if it is not there."""
        found = self._answer(topic, f"ledger/{ledger}/entry/{entry}", headers=True)
        if found is None:
            return None
        told = found.headers
        chunk = None
        if "X-Pulsar-chunk-id" in told:
            part, parts = int(told["X-Pulsar-chunk-id"]), int(told["X-Pulsar-num-chunks-from-msg"])
            chunk = told["X-Pulsar-uuid"], part, parts
        at = told.get("X-Pulsar-publish-time")
        return Entry(
            int(told.get("X-Pulsar-num-batch-message", 1)),
            datetime.fromisoformat(at).astimezone(UTC) if at else None,
            chunk,
            told.get("X-Pulsar-txn-uncommitted") == "true",
            "X-Pulsar-marker-type" in told or told.get("X-Pulsar-txn-aborted") == "true",
        )
