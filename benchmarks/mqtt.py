"""MQTT with QoS 1 on a real Mosquitto: source and sink beside a bare client of the same library.

The source takes messages of 200 bytes that wait in its session and stores them in durable segments; the
bare client takes as many, acknowledges each, and stores nothing. The sink publishes them; so does the
bare client, with as many in flight. Goals: both >= 0.8.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from contextlib import closing
from itertools import count
from pathlib import Path

import paho.mqtt.client as mqtt
from beside import compare, store
from mainstem.sinks import Refused
from mainstem_broker_mqtt.options import MQTTOptions, MQTTSourceOptions
from mainstem_broker_mqtt.receiver import MQTTReceiver
from mainstem_broker_mqtt.sink import MQTTSink
from mainstem_broker_mqtt.testing import Mosquitto
from mainstem_egress.sink import dispatcher_of
from mainstem_testkit.conformance.sender import batch_of
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

MESSAGES, RUNS = 20_000, 3
BODY = b"x" * 200
NUMBERS = count()


def client(name: str = "") -> tuple[mqtt.Client, threading.Event]:
    """Return a bare client, not connected yet, and what is set once it has subscribed."""
    made = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5)
    made.max_inflight_messages_set(1000)
    done = threading.Event()
    made.on_subscribe = lambda *_: done.set()
    return made, done


def connect(made: mqtt.Client, port: int, *, keep: bool) -> None:
    """Connect a bare client, and let its session stay."""
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = 3600 if keep else 0
    properties.ReceiveMaximum = 1000
    made.connect("127.0.0.1", port, clean_start=not keep, properties=properties)
    made.loop_start()


def publish(port: int, topic: str) -> None:
    """Publish all by the bare client."""
    made, _ = client()
    connect(made, port, keep=False)
    sent = [made.publish(topic, BODY, 1) for _ in range(MESSAGES)]
    for each in sent:
        each.wait_for_publish()
    made.disconnect()
    made.loop_stop()


def waiting(port: int) -> tuple[str, str]:
    """Let a session have all messages; return its name and topic."""
    name = f"session-{next(NUMBERS)}"
    made, done = client(name)
    connect(made, port, keep=True)
    made.subscribe(f"{name}/t", 1)
    assert done.wait(10)
    made.disconnect()
    made.loop_stop()
    publish(port, f"{name}/t")
    return name, f"{name}/t"


def main() -> None:
    """Run both, and print the ratios."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with Mosquitto(
            Path(folder, "server"), "autosave_interval 0\nautosave_on_changes false"
        ) as server:
            port = server.port
            sessions = [waiting(port) for _ in range(2 * RUNS + 1)]

            def source() -> None:
                name, topic = sessions.pop()
                given = {"url": server.url, "topics": [topic], "client_id": name}
                options = MQTTSourceOptions.model_validate(given)
                receiver = MQTTReceiver(options, 0, "node")
                store(receiver, Path(folder, name), MESSAGES, [("retained", "boolean")])

            def bare_source() -> None:
                name, _ = sessions.pop()
                made, _ = client(name)
                done, left = threading.Event(), [MESSAGES]

                def came(*_: object) -> None:
                    left[0] -= 1
                    if not left[0]:
                        done.set()

                made.on_message = came
                connect(made, port, keep=True)
                assert done.wait(60)
                made.disconnect()
                made.loop_stop()

            source()
            compare("source mqtt", MESSAGES, "messages", source, bare_source, RUNS)

            batch = batch_of(
                [{"value": BODY, "_id": n.to_bytes(16, "big")} for n in range(MESSAGES)]
            )

            def sink() -> None:
                made = MQTTSink(MQTTOptions(url=server.url, topic="out"))
                sender = made.sender()(made.options, "benchmark")
                with closing(dispatcher_of(sender, made.options, lambda *_: None)) as sends:
                    for message in sender.messages(batch, Refused()):
                        sends.send(message)
                    sends.flush()

            sink()
            compare("sink mqtt", MESSAGES, "messages", sink, lambda: publish(port, "out"), RUNS)


if __name__ == "__main__":
    sys.exit(main())
