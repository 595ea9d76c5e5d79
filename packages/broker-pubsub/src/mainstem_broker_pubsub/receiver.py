"""The receiver of the source `pubsub`: a stream of messages, acknowledged once they are stored."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from mainstem import PermanentError, TransientError, failpoint
from mainstem_ingress import Message, Receiver

from mainstem_broker_pubsub.client import Client
from mainstem_broker_pubsub.options import PubSubSourceOptions
from mainstem_broker_pubsub.pull import Pull


class PubSubReceiver(Receiver):
    """Takes messages of a subscription.

    What was pulled and not acknowledged comes again, and is known by its id if it is stored.
    """

    options: PubSubSourceOptions

    def __init__(self, options: PubSubSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._client: Client | None = None
        self._pull: Pull | None = None
        self._paused = False
        self._facts: dict[str, Any] = {}

    def connect(self, cursor: str | None) -> None:
        self._paused = False
        client = self._client = Client(self.options)
        self._facts = self._look(client)
        failpoint("pubsub.after-connect")
        self._pull = Pull(client, self.options)

    def _look(self, client: Client) -> dict[str, Any]:
        """Return what the subscription says of itself, to whom it does.

        Raises:
            PermanentError: there is no such subscription, or nothing can be pulled from it.
        """
        found: dict[str, Any] = {"server": self.options.place()}
        held = client.look("GetSubscription", subscription=self.options.path)
        if held is None:
            return found
        elsewhere = {
            "its topic is gone": held.detached or held.topic == "_deleted-topic_",
            "it pushes to an endpoint": held.push_config.push_endpoint,
            "it writes to BigQuery": held.bigquery_config.table,
            "it writes to Cloud Storage": held.cloud_storage_config.bucket,
        }
        for why, so in elsewhere.items():
            if so:
                raise PermanentError(f"{self.options.place()}: nothing can be pulled: {why}")
        if held.dead_letter_policy.dead_letter_topic:
            policy = held.dead_letter_policy
            name = policy.dead_letter_topic.rpartition("/")[2]
            found["dead_letters"] = f"{name}, after {policy.max_delivery_attempts}"
        if held.filter:
            found["filter"] = held.filter
        return found

    def take(self, seconds: float) -> Iterable[Message]:
        pull = self._pull
        assert pull is not None  # noqa: S101
        if self._paused:
            pull.check()
            time.sleep(seconds)
            return []
        return [self._message(each) for each in pull.take(seconds)]

    def held(self) -> bool:
        return self._pull is not None and self._pull.full()

    def caught_up(self) -> bool | None:
        return None if self._pull is None or self._pull.opened() else False

    def _message(self, given: Any) -> Message:
        held, name = given.message, self.options.key
        headers = [(key, text.encode()) for key, text in held.attributes.items()]
        key = held.ordering_key.encode() or None
        if name is not None:
            key = next((value for each, value in headers if each == name), None)
            headers = [pair for pair in headers if pair[0] != name]
        at = held.publish_time
        return Message(
            held.data,
            key,
            headers or None,
            at.seconds * 1_000_000 + at.nanos // 1000,
            self.options.subscription.rpartition("/")[2],
            # Ids are unique in their topic, and a subscription may be made anew for another one.
            f"{held.message_id}@{at.seconds}.{at.nanos:09}".encode(),
            token=given.ack_id,
            extra=(held.message_id, given.delivery_attempt or None),
        )

    def acknowledge(self, messages: Sequence[Message]) -> None:
        if self._pull is None:
            raise TransientError("there is no connection")
        self._pull.acknowledge([each.token for each in messages])
        failpoint("pubsub.after-acknowledge")

    def pause(self) -> None:
        self._paused = True  # the server sends no more than `prefetch`

    def resume(self) -> None:
        self._paused = False

    def close(self) -> None:
        pull, self._pull = self._pull, None
        client, self._client = self._client, None
        if pull is not None:
            pull.end()
        if client is not None:
            client.close()

    def facts(self) -> dict[str, Any]:
        return self._facts
