"""From a queue to durable segments: our receivers beside a loop of pika that only acknowledges.

    python benchmarks/amqp_source.py [MESSAGES] [ROUNDS]

Each round fills a durable classic queue of a RabbitMQ node with messages of 200 bytes and drains it three
times: by pika's BlockingConnection, acknowledging a hundred at once and doing nothing else; by one
receiver; by two. Each drain is timed from its first message to its last. Prints messages a second and
the ratios, medians over the rounds.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BODY = b"x" * 200
QUEUE = "bench"


def bare(url: str, messages: int) -> None:
    """Consume with pika as its documentation shows, and print when the first and last came."""
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=2000)
    first, count = 0.0, 0
    for method, _, _ in channel.consume(QUEUE):
        first = first or time.time()
        count += 1
        if count % 100 == 0 or count == messages:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if count == messages:
            break
    print(json.dumps([first, time.time(), count]), flush=True)
    connection.close()


def receiver(url: str, folder: str, number: str, receivers: str) -> None:
    """Run a receiver until nothing comes any more; print when the first and last were stored."""
    from mainstem_broker_amqp.source.options import AMQPSourceOptions
    from mainstem_ingress.process import Task, work

    options = AMQPSourceOptions.model_validate(
        {"url": url, "queue": QUEUE, "receivers": int(receivers), "high_water": "100 GB"}
    )
    target = "mainstem_broker_amqp.source.receiver:AMQPReceiver"
    task = Task(target, "bench", int(number), Path(folder), options)
    stop = threading.Event()
    began = [0.0]

    def tell(facts: dict[str, object]) -> None:
        if facts["state"] == "running" and not began[0]:
            began[0] = time.time()

    thread = threading.Thread(target=work, args=(task, tell, stop))
    thread.start()
    own = Path(folder, "receivers", number)
    ended, seen = 0.0, -1
    while not ended or time.time() - ended < 1.0:
        time.sleep(0.01)
        found = len(list(own.glob("*.arrow"))) if own.exists() else 0
        if found > max(seen, 0):
            seen, ended = found, time.time()
    stop.set()
    thread.join()
    from mainstem_ingress.log import Log

    rows = sum(Log(Path(folder)).unread(number, 0)[:1])
    print(json.dumps([began[0], ended, rows]), flush=True)


def fill(url: str, messages: int) -> None:
    """Put the messages into the queue."""
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True)
    for _ in range(messages):
        channel.basic_publish("", QUEUE, BODY)
    connection.close()


def timed(*commands: list[str]) -> tuple[float, int]:
    """Run processes side by side; return the seconds from first to last message, and the messages."""
    running = [
        subprocess.Popen([sys.executable, __file__, *c], stdout=subprocess.PIPE, text=True)
        for c in commands
    ]
    told = [json.loads(process.communicate()[0]) for process in running]
    began, ended, rows = zip(*told, strict=True)
    return max(ended) - min(began), sum(rows)


def main(messages: int, rounds: int) -> None:
    from mainstem_broker_amqp.testing import RabbitMQ

    rates: dict[str, list[float]] = {"pika": [], "one receiver": [], "two receivers": []}
    with tempfile.TemporaryDirectory() as place, RabbitMQ(Path(place, "rabbitmq")) as server:
        for number in range(rounds):
            for name, found in rates.items():
                fill(server.url, messages)
                folder = str(Path(place, f"log-{number}-{name[:3]}"))
                commands = {
                    "pika": [["bare", server.url, str(messages)]],
                    "one receiver": [["receiver", server.url, folder, "0", "1"]],
                    "two receivers": [["receiver", server.url, folder, n, "2"] for n in ("0", "1")],
                }[name]
                seconds, rows = timed(*commands)
                assert rows == messages, f"{name}: {rows} of {messages}"
                found.append(messages / seconds)
    median = {name: statistics.median(found) for name, found in rates.items()}
    for name, rate in median.items():
        print(f"{name:14} {rate:10,.0f} messages/s")
    print(f"one receiver / pika:          {median['one receiver'] / median['pika']:.2f}")
    print(f"two receivers / one receiver: {median['two receivers'] / median['one receiver']:.2f}")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words and words[0] == "bare":
        bare(words[1], int(words[2]))
    elif words and words[0] == "receiver":
        receiver(*words[1:])
    else:
        main(*(int(word) for word in [*words, "100000", "3"][:2]))
