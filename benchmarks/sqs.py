"""Amazon SQS over the emulator ElasticMQ: source and sink beside bare loops of the same client.

The source takes messages of 200 bytes that wait in a queue, stores them in durable segments and deletes
them; the bare loop takes and deletes as many by the same requests and as many threads, and stores
nothing. The sink sends them in requests of ten with their identities; so does the bare loop. The emulator
works on the same two cores, and has its messages in memory. Goals: both >= 0.9.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

from beside import compare, store
from mainstem.sinks import Refused
from mainstem_aws.client import connect
from mainstem_broker_sqs.options import SQSOptions, SQSSourceOptions
from mainstem_broker_sqs.receiver import SQSReceiver
from mainstem_broker_sqs.sink import SQSSink
from mainstem_broker_sqs.testing import CREDENTIALS, ElasticMQ
from mainstem_egress.sink import dispatcher_of
from mainstem_testkit.conformance.sender import batch_of

MESSAGES, RUNS, THREADS = 20_000, 3, 8
BODY = "x" * 200
IDENTITY = {"DataType": "String", "StringValue": "0" * 32}
NUMBERS = count()


class InMemory(ElasticMQ):
    """The emulator without its files."""

    def prepare(self) -> None:
        super().prepare()
        file = self.folder / "elasticmq.conf"
        text = file.read_text()
        storage = "messages-storage { enabled = "
        file.write_text(text.replace(f"{storage}true", f"{storage}false"))


def main() -> None:
    """Run both, and print the ratios."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        InMemory(Path(folder, "server")) as server,
    ):
        given = {"endpoint": server.url, **CREDENTIALS}

        def client() -> Any:
            options = SQSOptions.model_validate({"queue": "q", **given})
            return connect("sqs", options, connections=THREADS)

        def send(made: Any, url: str, _: int) -> None:
            entries = [
                {"Id": str(n), "MessageBody": BODY, "MessageAttributes": {"mainstem-id": IDENTITY}}
                for n in range(10)
            ]
            made.send_message_batch(QueueUrl=url, Entries=entries)

        def fill(name: str) -> str:
            url = server.queue(name)
            with closing(client()) as made, ThreadPoolExecutor(THREADS) as threads:
                list(threads.map(lambda n: send(made, url, n), range(MESSAGES // 10)))
            return url

        full = [f"full-{n}" for n in range(2 * RUNS + 1)]
        urls = {name: fill(name) for name in full}

        def source() -> None:
            name = full.pop()
            options = SQSSourceOptions.model_validate(
                {"queue": name, **given, "requests": THREADS, "wait": "1 s"}
            )
            receiver = SQSReceiver(options, 0, "node")
            store(receiver, Path(folder, name), MESSAGES, [("receive_count", "int")])

        def bare_source() -> None:
            url = urls[full.pop()]
            left = [MESSAGES]

            def take(made: Any) -> None:
                while left[0] > 0:
                    said = made.receive_message(
                        QueueUrl=url,
                        MaxNumberOfMessages=10,
                        WaitTimeSeconds=1,
                        AttributeNames=["All"],
                        MessageAttributeNames=["All"],
                    )
                    found = said.get("Messages", [])
                    if found:
                        entries = [
                            {"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]}
                            for n, each in enumerate(found)
                        ]
                        made.delete_message_batch(QueueUrl=url, Entries=entries)
                        left[0] -= len(found)

            with closing(client()) as made, ThreadPoolExecutor(THREADS) as threads:
                list(threads.map(take, [made] * THREADS))

        source()
        compare("source sqs", MESSAGES, "messages", source, bare_source, RUNS)

        batch = batch_of(
            [{"value": BODY.encode(), "_id": n.to_bytes(16, "big")} for n in range(MESSAGES)]
        )

        def sink() -> None:
            name = f"out-{next(NUMBERS)}"
            server.queue(name)
            made = SQSSink(SQSOptions.model_validate({"queue": name, **given, "requests": THREADS}))
            sender = made.sender()(made.options, "benchmark")
            with closing(dispatcher_of(sender, made.options, lambda *_: None)) as sends:
                for message in sender.messages(batch, Refused()):
                    sends.send(message)
                sends.flush()

        sink()
        compare("sink sqs", MESSAGES, "messages", sink, lambda: fill(f"out-{next(NUMBERS)}"), RUNS)


if __name__ == "__main__":
    sys.exit(main())
