"""Google's own fake of Pub/Sub, in memory, for tests: no test here has seen Google's cloud.

What it has is gone with its process. Subscriptions may have a deadline of two seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mainstem_testkit.server import Server, fetched, receive

PROJECT = "mainstem-tests"
_PATIENCE = 5.0
#: How HTTP/2 begins, with settings of which none is named; the server answers with its own.
_FRAME = 9
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


class PubSub(Server):
    """Topics and subscriptions, until it ends."""

    name = "pubsub"

    @property
    def url(self) -> str:
        """The emulator, as the option `emulator` has it."""
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> None:
        self._program()

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        return [str(self._program()), str(self.port)], {}

    def answers(self) -> bool:
        with self.connect() as connection:
            connection.sendall(_GREETING)
            return bool(receive(connection, _FRAME))

    def _program(self) -> Path:
        return fetched("pubsub", "fake", "Google's fake of Pub/Sub")

    # -- what a test does with it -----------------------------------------------------------------

    def ask(self, service: str, name: str, sent: Any, back: Any) -> Any:
        """Call a method, of the classes that its messages are of, and return the answer."""
        import grpc

        with grpc.insecure_channel(self.url) as channel:
            call = channel.unary_unary(
                f"/google.pubsub.v1.{service}/{name}",
                request_serializer=type(sent).SerializeToString,
                response_deserializer=back.FromString,
            )
            return call(sent, timeout=_PATIENCE)

    def topic(self, name: str) -> str:
        """Make a topic and return its whole name."""
        from google.pubsub_v1 import types

        made = types.Topic.pb()(name=f"projects/{PROJECT}/topics/{name}")
        return str(self.ask("Publisher", "CreateTopic", made, type(made)).name)

    def subscription(self, name: str, topic: str, *, seconds: int = 2, **more: Any) -> str:
        """Make a subscription of a topic and return its whole name.

        Args:
            name: its own.
            topic: the topic's whole name.
            seconds: for how long a message is hidden that nobody extends.
            more: further fields, as the protocol names them.
        """
        from google.pubsub_v1 import types

        whole = f"projects/{PROJECT}/subscriptions/{name}"
        made = types.Subscription.pb()(
            name=whole, topic=topic, ack_deadline_seconds=seconds, **more
        )
        return str(self.ask("Subscriber", "CreateSubscription", made, type(made)).name)

    def publish(self, topic: str, messages: Iterable[Mapping[str, Any]]) -> list[str]:
        """Publish messages, each by its fields, and return their ids."""
        from google.pubsub_v1 import types

        held = [types.PubsubMessage.pb()(**each) for each in messages]
        sent = types.PublishRequest.pb()(topic=topic, messages=held)
        return list(self.ask("Publisher", "Publish", sent, types.PublishResponse.pb()).message_ids)

    def pull(self, subscription: str, most: int = 1000) -> list[Any]:
        """Return messages that are there, acknowledged."""
        from google.pubsub_v1 import types

        sent = types.PullRequest.pb()(
            subscription=subscription, max_messages=most, return_immediately=True
        )
        found = self.ask("Subscriber", "Pull", sent, types.PullResponse.pb()).received_messages
        if found:
            from google.protobuf.empty_pb2 import Empty

            ids = [each.ack_id for each in found]
            done = types.AcknowledgeRequest.pb()(subscription=subscription, ack_ids=ids)
            self.ask("Subscriber", "Acknowledge", done, Empty)
        return list(found)
