"""Google Pub/Sub: source and sink beside the client library that Google's users have.

Google's fake gives a hundred messages a second, so both talk to a stand-in: a server that streams
messages of 100 bytes, made beforehand, as fast as they are wanted, and answers each request without
looking at it. It works on the same two cores. The source stores messages in durable segments and
acknowledges them; beside it a callback acknowledges each. The sink publishes rows; beside it each message
is published by the library, which batches them. Goals: both >= 0.9.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any

import grpc
from beside import compare, store
from google.auth.credentials import AnonymousCredentials
from google.cloud import pubsub_v1
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport
from mainstem.columns import read_columns
from mainstem.sinks import Refused
from mainstem_broker_pubsub.options import PubSubOptions, PubSubSourceOptions
from mainstem_broker_pubsub.receiver import PubSubReceiver
from mainstem_broker_pubsub.sink import PubSubSink
from mainstem_broker_pubsub.source import PubSubSource
from mainstem_egress.sink import dispatcher_of
from mainstem_testkit.conformance.sender import batch_of

MESSAGES, RUNS, PART = 200_000, 3, 100
BODY = b"x" * 100
SUBSCRIPTION, TOPIC = "projects/benchmark/subscriptions/s-1", "projects/benchmark/topics/t-1"
NOBODY: Any = AnonymousCredentials()  # type: ignore[no-untyped-call]
NUMBERS = count()


def serve(told: Any) -> None:
    """Tell the port, and answer for good."""
    from google.protobuf.empty_pb2 import Empty
    from google.pubsub_v1 import types

    parts = []
    for first in range(0, MESSAGES, PART):
        part = types.StreamingPullResponse.pb()()
        for number in range(first, first + PART):
            held = part.received_messages.add(ack_id=f"ack-{number:0150d}")
            held.message.data = BODY
            held.message.message_id = f"{number:016d}"
            held.message.publish_time.GetCurrentTime()
        parts.append(part.SerializeToString())

    def pull(requests: Any, call: Any) -> Any:
        """Stream all that there is, until the other side has enough."""

        def heed() -> None:
            with suppress(grpc.RpcError):
                deque(requests, 0)

        threading.Thread(target=heed, daemon=True).start()
        yield from parts
        while call.is_active():
            threading.Event().wait(0.05)

    def publish(request: bytes, _: Any) -> bytes:
        asked = types.PublishRequest.pb().FromString(request)
        ids = [str(next(NUMBERS)) for _ in asked.messages]
        return bytes(types.PublishResponse.pb()(message_ids=ids).SerializeToString())

    def one(answer: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(answer)

    def empty(_request: bytes, _call: Any) -> bytes:
        return bytes(Empty().SerializeToString())

    handlers = {
        "Subscriber": {
            "StreamingPull": grpc.stream_stream_rpc_method_handler(pull),
            "GetSubscription": one(empty),
            "Acknowledge": one(empty),
            "ModifyAckDeadline": one(empty),
        },
        "Publisher": {"Publish": one(publish), "GetTopic": one(empty)},
    }
    server = grpc.server(ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler(f"google.pubsub.v1.{name}", methods)
            for name, methods in handlers.items()
        ]
    )
    told.put(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    server.wait_for_termination()


def main() -> None:
    """Run both, and print the ratios."""
    spawn = multiprocessing.get_context("spawn")
    told = spawn.Queue()
    server = spawn.Process(target=serve, args=(told,), daemon=True)
    server.start()
    address = f"127.0.0.1:{told.get(timeout=60)}"
    given = {"emulator": address}
    columns = [(c.name, c.type or "") for c in read_columns(PubSubSource.extra)]

    def channel() -> Any:
        return grpc.insecure_channel(address)

    with tempfile.TemporaryDirectory() as folder:

        def source() -> None:
            options = PubSubSourceOptions.model_validate({"subscription": SUBSCRIPTION, **given})
            receiver = PubSubReceiver(options, 0, "node")
            store(receiver, Path(folder, str(next(NUMBERS))), MESSAGES, columns)

        def library_source() -> None:
            enough, left = threading.Event(), count(1)

            def take(message: Any) -> None:
                _ = (message.data, message.attributes, message.message_id, message.publish_time)
                message.ack()
                if next(left) == MESSAGES:
                    enough.set()

            with pubsub_v1.SubscriberClient(
                transport=SubscriberGrpcTransport(channel=channel(), credentials=NOBODY)
            ) as client:
                pull = client.subscribe(SUBSCRIPTION, callback=take)
                enough.wait()
                pull.cancel()
                pull.result()

        source()
        compare("source pubsub", MESSAGES, "messages", source, library_source, RUNS)

    batch = batch_of([{"value": BODY, "_id": n.to_bytes(16, "big")} for n in range(MESSAGES)])

    def sink() -> None:
        made = PubSubSink(PubSubOptions.model_validate({"topic": TOPIC, **given}))
        sender = made.sender()(made.options, "benchmark")
        with closing(dispatcher_of(sender, made.options, lambda *_: None)) as sends:
            for message in sender.messages(batch, Refused()):
                sends.send(message)
            sends.flush()

    def library_sink() -> None:
        client = pubsub_v1.PublisherClient(
            batch_settings=pubsub_v1.types.BatchSettings(max_messages=1000),
            transport=PublisherGrpcTransport(channel=channel(), credentials=NOBODY),
        )
        sent = [client.publish(TOPIC, BODY, **{"mainstem-id": str(n)}) for n in range(MESSAGES)]
        for each in sent:
            each.result()
        client.stop()

    sink()
    compare("sink pubsub", MESSAGES, "messages", sink, library_sink, RUNS)
    server.terminate()


if __name__ == "__main__":
    sys.exit(main())
