"""The receiver of the source `kafka_queue`: a member of a share group."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from mainstem import MachineError, OptionError, PermanentError, TransientError, failpoint
from mainstem_ingress import Message, Receiver

from mainstem_broker_kafka import client
from mainstem_broker_kafka.connection import Properties, librdkafka
from mainstem_broker_kafka.queue import group
from mainstem_broker_kafka.queue.options import KafkaQueueOptions
from mainstem_broker_kafka.source.offsets import Brokers, Partition
from mainstem_broker_kafka.source.rows import FAR, FIRST, LAST

#: When nothing has come for so long since partitions were given, all that was there is here.
_QUIET = 2.0
#: How long brokers wait for messages that one request asks for, in milliseconds, if the document does not
#: say it; partitions are asked for one after the other. And the most bytes that one brings.
_FETCH_WAIT = 50
_FETCHING = {"fetch.wait.max.ms": _FETCH_WAIT, "fetch.max.bytes": 16 * 2**20}
#: For so long after a look a topic of which nothing has come yet is taken for the same.
_FRESH = 1.0
#: How long closing waits for brokers that do not answer, in seconds.
_PATIENCE = 5.0


class KafkaQueueReceiver(Receiver):
    """Takes messages of a share group; none come before those at hand are acknowledged.

    What was not acknowledged brokers give again, to this or to others: when the connection has ended, or
    when a message has been with a receiver for longer than `share.record.lock.duration.ms`.
    """

    options: KafkaQueueOptions

    def __init__(self, options: KafkaQueueOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._settings = Properties()
        self._brokers: Brokers | None = None
        self._heard = client.Heard()
        self._consumer: Any = None
        self._paused = False
        #: How many messages are at hand that are not acknowledged.
        self._at_hand = 0
        #: The ids of topics: one that is made anew under its name has the same places.
        self._ids: dict[str, str] = {}
        self._asked = 0.0
        #: The highest offset that has come, by partition; and what each had when this process began.
        self._seen: dict[Partition, int] = {}
        self._ends: dict[Partition, int] | None = None
        self._partitions_there = 0
        #: Since when partitions are given and nothing comes; None before that.
        self._idle: float | None = None
        #: Since when no broker is connected; None if one is. And how much they have sent.
        self._away: float | None = None
        self._sent = 0

    def connect(self, cursor: str | None) -> None:
        options, heard = self.options, client.Heard()
        self._heard, self._paused, self._at_hand = heard, False, 0
        self._idle = self._away = None
        try:
            settings = self._settings = librdkafka(options)
            # No other client is there whose settings these could be.
            settings.optional = frozenset()
            brokers = self._brokers = Brokers(options)
            there = self._partitions(brokers)
            self._partitions_there = len(there)
            if self._ends is None:
                first, ends = brokers.beginnings(there), brokers.ends(there)
                self._ends = {p: end for p, end in ends.items() if end > first.get(p, 0)}
            self._look()
            self._seen = {}
            with self._asking(f"setting up {options.place()}"):
                group.set_up(options, settings, heard)
            failpoint("kafka.after-set-up")
            self._consumer = client.share_consumer(
                settings,
                options.group,
                heard,
                self._watch,
                max_poll_records=options.prefetch,
                **{name: value for name, value in _FETCHING.items() if name not in settings},
            )
            with self._asking(f"joining {options.place()}"):
                self._consumer.subscribe(list(options.topics))
        except (OptionError, MachineError) as error:
            raise PermanentError(str(error)) from None
        failpoint("kafka.after-subscribe")

    def _partitions(self, brokers: Brokers) -> list[Partition]:
        """Return what is to be read.

        Raises:
            OptionError: a topic is not there, and was not.
            TransientError: one is not there any more: it may be made anew.
        """
        try:
            return brokers.partitions()
        except OptionError as error:
            if self._ends is None:
                raise
            raise TransientError(str(error)) from None

    # -- taking -----------------------------------------------------------------------------------

    def take(self, seconds: float) -> Iterable[Message]:
        with self._asking(f"reading {self.options.told}"):
            if self._paused or self._at_hand:
                time.sleep(seconds)
                self._consumer.commit_async()  # by which the library tells what it is about
                came = []
            else:
                came = list(self._consumer.poll(seconds))
        now = time.monotonic()
        if not came:
            away = now - self._away if self._away is not None else 0.0
            if away > self.options.connect_timeout.total_seconds():
                raise TransientError(f"{self.options.place()}: no broker can be reached")
            return []
        self._heard.errors.clear()  # it goes on well
        self._idle, self._at_hand = now, len(came)
        self._place(came)
        found = [self._message(each) for each in came]
        failpoint("kafka.after-take")
        return found

    def held(self) -> bool:
        return self._at_hand > 0

    def _place(self, came: Sequence[Any]) -> None:
        """Note where messages are; look again at topics of which one comes that was there before."""
        seen, again = self._seen, False
        fresh = time.monotonic() - self._asked <= _FRESH
        for each in came:
            place = Partition(each.topic(), each.partition())
            offset = each.offset()
            if offset <= seen.get(place, -1):
                again = True
            else:
                again = again or (place not in seen and not fresh)
                seen[place] = offset
        if not again:
            return
        before = self._ids.copy()
        with suppress(TransientError):  # what is known then is as good as ever
            self._look()
        anew = {topic for topic, its in self._ids.items() if before.get(topic, its) != its}
        for place in [each for each in seen if each.topic in anew]:
            del seen[place]
        seen |= {Partition(e.topic(), e.partition()): e.offset() for e in came if e.topic() in anew}

    def _look(self) -> None:
        """Learn which topics these are."""
        assert self._brokers is not None  # noqa: S101
        self._ids |= self._brokers.ids(self.options.topics)
        self._asked = time.monotonic()

    def _message(self, given: Any) -> Message:
        topic, partition, offset = given.topic(), given.partition(), given.offset()
        kind, millis = given.timestamp()
        headers = given.headers()
        at = None
        if kind and FIRST <= millis <= LAST:
            at = millis * 1000
        elif kind:
            headers = [*(h for h in headers or () if h[0] != FAR), (FAR, b"%d" % millis)]
        error = given.error()
        return Message(
            given.value() if error is None else None,
            given.key(),
            headers or None,
            at,
            topic,
            b"%s/%d/%d/%d" % (self._ids.get(topic, "").encode(), partition, offset, millis),
            token=given,
            refused=f"it can't be read: {error.str()}" if error is not None else None,
            extra=(partition, offset, given.delivery_count()),
        )

    def acknowledge(self, messages: Sequence[Message]) -> None:
        if self._consumer is None:
            raise TransientError("there is no connection")
        acknowledge = self._consumer.acknowledge
        with self._asking(f"acknowledging in {self.options.place()}"):
            for message in messages:
                acknowledge(message.token)
            self._at_hand -= len(messages)
            self._consumer.commit_async()
        self._idle = time.monotonic()
        failpoint("kafka.after-acknowledge")

    # -- the connection ---------------------------------------------------------------------------

    def _asking(self, doing: str) -> AbstractContextManager[None]:
        return client.asking(doing, self._settings, self._heard)

    def _watch(self, statistics: str) -> None:
        """Note since when the group has given partitions, and brokers, whom the library reaches anew by
        itself, are away.
        """
        told, now = json.loads(statistics), time.monotonic()
        if self._idle is None and told.get("cgrp", {}).get("assignment_size"):
            self._idle = now
        brokers = told["brokers"].values()
        sent = sum(each["rxbytes"] for each in brokers)
        if self._idle is not None and sent == self._sent:
            self._idle = now  # that nothing comes of who says nothing means nothing
        self._sent = sent
        if any(each["state"] == "UP" for each in brokers):
            self._away = None
        elif self._away is None:
            self._away = now

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            # The library waits for as long as a request may take; what is not acknowledged comes again.
            closing = threading.Thread(target=_close, args=(consumer,), daemon=True)
            closing.start()
            closing.join(_PATIENCE)

    def caught_up(self) -> bool | None:
        ends = self._ends or {}
        if self._at_hand or self._away is not None:
            return False
        if all(self._seen.get(place, -1) >= end - 1 for place, end in ends.items()):
            return True
        wait = float(self._settings.get("fetch.wait.max.ms", _FETCH_WAIT)) / 1000
        quiet = max(_QUIET, 2 * wait * self._partitions_there)
        return self._idle is not None and time.monotonic() - self._idle > quiet

    def facts(self) -> dict[str, Any]:
        return {"server": self.options.place()}


def _close(consumer: Any) -> None:
    with suppress(Exception):
        consumer.close()
