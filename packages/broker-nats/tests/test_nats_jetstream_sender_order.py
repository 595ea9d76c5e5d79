"""The sender of the sink `jetstream` against a server that answers as it is told: losses, refusals, silence."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from mainstem import TransientError
from mainstem_broker_nats.sink import jetstream_sender as module
from mainstem_broker_nats.sink.jetstream_sender import JetStreamSender
from mainstem_broker_nats.sink.messages import Message
from mainstem_broker_nats.sink.options import JetStreamSinkOptions
from mainstem_egress.sink import dispatcher_of

TAKEN = b'{"stream":"S","seq":1}'
KNOWN = b'{"stream":"S","seq":1,"duplicate":true}'
FULL = b'{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}}'
LARGE = b'{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum"}}'


class Scripted:
    """Stands in for a link to a stream that knows ids; what fails does so by chance.

    `stored` is what the stream has, over all connections. A connection hands messages over in their order;
    when it is lost, a first part of what was on its way has arrived.
    """

    chance: random.Random
    stored: list
    hopeless: set
    weather: float

    def __init__(self):
        self.lost, self.max_payload = "", 10**6
        self._waiting = []
        config = {"config": {"subjects": ["s.>"]}}
        self.connection = SimpleNamespace(complaints=[], ask=lambda *_: config)

    @classmethod
    def open(cls, options, name, first=0):
        if cls.chance.random() < cls.weather:
            raise TransientError("no")
        return cls()

    @property
    def full(self):
        return self.chance.random() < 0.1

    def forbidden(self):
        return {}

    def fits(self, message):
        return ""

    def put(self, message, number):
        self._waiting.append((number, message))

    def close(self):
        self.lost = self.lost or "closed"

    def poll(self, seconds, enough=1):
        chance, answers = self.chance, []
        if chance.random() < self.weather:
            for _, message in self._waiting[: chance.randrange(len(self._waiting) + 1)]:
                self._store(message)  # it arrives, and nobody here learns of it
            self._waiting, self.lost = [], "gone"
            if chance.random() < 0.5:
                raise TransientError("gone")
            return []
        count = chance.randrange(len(self._waiting) + 1)
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        for number, message in taken:
            if message.identity in self.hopeless:
                answers.append((number, LARGE, None))
            elif chance.random() < self.weather:
                answers.append((number, *chance.choice([(FULL, None), (b"", b"NATS/1.0 503")])))
            elif chance.random() < self.weather / 4:
                pass  # neither stored nor answered
            else:
                answers.append((number, self._store(message), None))
        chance.shuffle(answers)
        return answers

    def _store(self, message):
        if message.identity in self.hopeless:
            return LARGE
        if message.identity in self.stored:
            return KNOWN
        self.stored.append(message.identity)
        return TAKEN


def dispatcher(refused, **more):
    given = {
        "servers": "nats://there",
        "stream": "S",
        "subject": "x",
        "give_up": "100 days",
        **more,
    }
    options = JetStreamSinkOptions.model_validate(given)
    sender = JetStreamSender(options, "test")
    return dispatcher_of(sender, options, lambda message, _: refused.append(message.identity))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_any_answers_leave_nothing_out_and_double_nothing(monkeypatch, seed, ordered):
    """Pass: under refusals, losses and silence all is there once; with `ordered` also in order for each
    subject; each is counted once."""
    chance = random.Random(seed)
    subjects, count = chance.choice([1, 3, 8, 50]), 400
    subject = [chance.randrange(subjects) for _ in range(count)]
    hopeless = {n for n in range(count) if chance.random() < chance.choice([0, 0.1])}

    class Link(Scripted):
        stored: list = []

    Link.chance, Link.hopeless, Link.weather = chance, hopeless, chance.choice([0.02, 0.2])
    clock = iter(range(10**9))
    monkeypatch.setattr(module, "Link", Link)
    monkeypatch.setattr("mainstem.patience.pause_after", lambda *_: 0.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock) * 0.01)
    refused = []
    sending = dispatcher(
        refused,
        in_flight=chance.choice([1, 7, 50]),
        in_flight_bytes=chance.choice([3, 10**6]),  # bodies have one each
        answer_timeout="2 s",
        order="key" if ordered else "none",
    )
    for number in range(count):
        sending.send(Message(number, f"s.{subject[number]}", b"", b"x", 1, str(number)))
    sending.flush()
    wanted = [number for number in range(count) if number not in hopeless]
    assert sorted(refused) == sorted(hopeless)
    assert sorted(Link.stored) == wanted
    if ordered:
        for each in range(subjects):
            mine = [number for number in Link.stored if subject[number] == each]
            assert mine == sorted(mine)
    assert (sending.counts.accepted, sending.counts.refused) == (len(wanted), len(hopeless))


@pytest.mark.parametrize("seed", range(20))
def test_lost_connections_alone_leave_the_order_as_it_is(monkeypatch, seed):
    """Pass: without `ordered`, where connections are lost but nothing is refused: all messages in their order."""
    chance = random.Random(seed)

    class Link(Scripted):
        stored: list = []
        hopeless: set = set()

        def poll(self, seconds, enough=1):
            if chance.random() < 0.3:
                for _, message in self._waiting[: chance.randrange(len(self._waiting) + 1)]:
                    self._store(message)
                self._waiting, self.lost = [], "gone"
                return []
            taken, self._waiting = self._waiting, []
            return [(number, self._store(message), None) for number, message in taken]

    Link.chance, Link.weather = chance, 0.1
    monkeypatch.setattr(module, "Link", Link)
    monkeypatch.setattr("mainstem.patience.pause_after", lambda *_: 0.0)
    sending = dispatcher([], in_flight=20)
    for number in range(500):
        sending.send(Message(number, "s.a", b"", b"x", 1, str(number)))
    sending.flush()
    assert Link.stored == list(range(500))


@pytest.mark.parametrize("seed", range(20))
def test_what_was_refused_goes_before_what_was_not_sent(monkeypatch, seed):
    """Pass: without `ordered`, a stream is full at times, and gets room again only when all that it refused has
    been answered: all messages in their order."""
    chance = random.Random(seed)

    class Link(Scripted):
        stored: list = []
        hopeless: set = set()
        is_full = False

        def __init__(self):
            super().__init__()
            self._untold: list = []

        def poll(self, seconds, enough=1):
            if not self._untold:
                for number, message in self._waiting:
                    Link.is_full = Link.is_full or chance.random() < 0.05
                    answer = FULL if Link.is_full else self._store(message)
                    self._untold.append((number, answer, None))
                self._waiting = []
                chance.shuffle(self._untold)
            count = chance.randrange(len(self._untold) + 1)
            told, self._untold = self._untold[:count], self._untold[count:]
            if not self._untold and not self._waiting:
                Link.is_full = False
            return told

    Link.chance, Link.weather = chance, 0.0
    monkeypatch.setattr(module, "Link", Link)
    monkeypatch.setattr("mainstem.patience.pause_after", lambda *_: 0.0)
    sending = dispatcher([], in_flight=20, in_flight_bytes=chance.choice([3, 10**6]))
    for number in range(500):
        sending.send(Message(number, "s.a", b"", b"x", 1, str(number)))
    sending.flush()
    assert Link.stored == list(range(500))
