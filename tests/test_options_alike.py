"""Options that mean the same are the same: name, type, default, and whether they are for experts."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta

import pytest
from mainstem.registry import Registry

KINDS = ("source", "sink")
_SECOND, _MINUTE = timedelta(seconds=1), timedelta(minutes=1)
_OF_NATS = "a request that is lost with its server is never answered, and servers answer at once"
#: By kind and name: the default of all components of the kind, and those that have another, with why.
WANTED = {
    ("source", "connect_timeout"): (timedelta(seconds=10), {}),
    ("sink", "connect_timeout"): (timedelta(seconds=10), {}),
    ("source", "answer_timeout"): (
        timedelta(seconds=30),
        dict.fromkeys(
            ("jetstream", "jetstream_queue", "nats", "nats_bucket"), (10 * _SECOND, _OF_NATS)
        ),
    ),
    ("sink", "answer_timeout"): (
        timedelta(seconds=30),
        {
            "amqp": (
                5 * _MINUTE,
                "heartbeats find lost connections; what is slow must not be doubled",
            ),
            "jetstream": (10 * _SECOND, _OF_NATS),
            "nats": (10 * _SECOND, _OF_NATS),
        },
    ),
    ("source", "give_up"): (_MINUTE, {}),
    ("sink", "give_up"): (5 * _MINUTE, {}),
    ("sink", "in_flight"): (
        1000,
        {
            "pulsar": (
                5000,
                "answers come in a thread of the library's, and waking up for few is dear",
            )
        },
    ),
    ("sink", "in_flight_bytes"): (32 * 2**20, {}),
    ("sink", "requests"): (
        8,
        {"kinesis": (4, "a call holds up to 500 records")},
    ),
    ("sink", "partitions"): (None, {}),
    ("sink", "order"): (
        "key",
        {"jetstream": ("none", "an order costs a round trip for each message of a subject")},
    ),
    ("source", "duplicates_within"): (timedelta(hours=1), {}),
    ("source", "duplicates_most"): (2_000_000, {}),
    ("source", "receivers"): (1, {}),
    ("source", "on_loss"): ("fail", {}),
}


def options(kind):
    """Return the fields of each option of a kind's components: name -> word -> field."""
    registry, found = Registry(), defaultdict(dict)
    for word in registry.named(kind):
        for name, field in registry.component(kind, word).options_model().model_fields.items():
            found[name][word] = field
    return found


@pytest.mark.parametrize(("kind", "name"), WANTED)
def test_an_option_that_several_have_is_the_same_everywhere(kind, name):
    """Pass: all components of a kind that have it agree in its type and its default; where one differs, it
    does as is said here, with why."""
    default, others = WANTED[kind, name]
    fields = options(kind)[name]
    assert len(fields) > 1, "nothing is compared"
    assert others.keys() <= fields.keys()
    found = {word: field.default for word, field in fields.items()}
    assert found == {word: others.get(word, (default,))[0] for word in fields}
    assert len({_kind_of(field) for field in fields.values()}) == 1
    assert all(why for _, why in others.values())


def _kind_of(field):
    """Return an option's type, in which an order of words makes no difference."""
    text = str(field.annotation)
    if "Literal[" in text:
        return frozenset(text.partition("[")[2].rstrip("]").split(", "))
    return text


@pytest.mark.parametrize("kind", KINDS)
def test_no_option_has_a_second_name(kind):
    """Pass: none is called by a word that others do not use for it."""
    second = {
        "timeout": "answer_timeout", "window": "in_flight", "concurrency": "requests",
        "max_in_flight": "in_flight", "retry_for": "give_up", "patience": "give_up",
        "parallelism": "partitions", "ordering": "order", "ssl": "tls",
    }  # fmt: skip
    wrong = {f"{word}.{n}" for n, words in options(kind).items() if n in second for word in words}
    assert not wrong


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_secret_is_hidden_everywhere(kind):
    """Pass: passwords, keys and tokens are of a type that is never printed."""
    bare = [
        f"{word}.{name}"
        for name, words in options(kind).items()
        if name in ("password", "token", "secret", "secret_key", "session_token", "nkey")
        for word, field in words.items()
        if "Secret" not in str(field.annotation)
    ]
    assert not bare
