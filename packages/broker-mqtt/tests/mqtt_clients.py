"""Another client of the server, for tests: one that publishes, one that listens."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import contextmanager

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties


@contextmanager
def client(server, name="", *, keep=False, login=None, into=None):
    """Connect in a thread of its own."""
    made = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5)
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 86_400 if keep else 0
    if login:
        made.username_pw_set(*login)
    made.max_inflight_messages_set(100)
    if into is not None:
        made.on_message = lambda _client, _data, message: into.append(message)
    there = threading.Event()
    made.on_connect = lambda *_: there.set()
    made.connect("127.0.0.1", server.port, 60, clean_start=not keep, properties=properties)
    made.loop_start()
    assert there.wait(10)
    try:
        yield made
    finally:
        made.disconnect()
        made.loop_stop()


def publish(server, topic, values, *, qos=1, retain=False, properties=None, **more):
    """Publish messages, and wait until the server has them."""
    with client(server, **more) as made:
        sent = [made.publish(topic, value, qos, retain, properties) for value in values]
        for each in sent:
            each.wait_for_publish(30)


def begin_session(server, name, topic, **more):
    """Let a session begin, as a first connection does."""
    with client(server, name, keep=True, **more) as made:
        done = threading.Event()
        made.on_subscribe = lambda *_: done.set()
        made.subscribe(topic, 1)
        assert done.wait(10)


class Listener:
    """Keeps all that comes of a topic in a session of its own, which outlives connections."""

    def __init__(self, server, topic, **more):
        self.server, self.name, self.topic, self.more = server, f"listener-{topic}", topic, more
        self.found = []
        begin_session(server, self.name, topic, **more)

    def values(self):
        """Return what the server had for the session when this was called, however slow it is."""
        mark = uuid.uuid4().hex.encode()
        publish(self.server, self.topic, [mark], **self.more)
        with client(self.server, self.name, keep=True, into=self.found, **self.more):
            until = time.monotonic() + 60
            while mark not in (message.payload for message in self.found):
                assert time.monotonic() < until, "what was published last has not come"
                time.sleep(0.05)
        self.found = [message for message in self.found if message.payload != mark]
        return [bytes(message.payload) for message in self.found]


def topics_there(server):
    """Return how many topics the server has retained."""
    found = []
    with client(server, into=found) as made:
        made.subscribe("#", 0)
        time.sleep(0.2)
    return [message.topic for message in found]
