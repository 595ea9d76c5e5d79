"""Where messages end: the same however the bytes are cut; what can't be a message is told."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mainstem_ingress.framing import Frame, Framer, FramingError, FramingOptions, framed

KINDS = [
    {"framing": "lines"},
    {"framing": "delimiter"},
    {"framing": "delimiter", "delimiter": "ab"},
    {"framing": "delimiter", "delimiter": "\n\n"},
    {"framing": "length"},
    {"framing": "length", "length": {"bytes": 2, "byte_order": "little", "includes_itself": True}},
    {"framing": "octets"},
]
MOST = 50


def options(kind):
    return FramingOptions.model_validate(kind)


def cut(kind, data, places):
    """Return the messages of some bytes that come in parts."""
    framer, found, at = Framer(options(kind), MOST), [], 0
    for place in [*sorted({p % (len(data) + 1) for p in places}), len(data)]:
        found += framer.feed(data[at:place])
        at = place
    return found


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(
    messages=st.lists(
        st.one_of(st.binary(max_size=MOST), st.sampled_from([b"\n", b"a\n", b"a", b"\r"])),
        max_size=8,
    ),
    places=st.lists(st.integers(0, 1000), max_size=8),
)
def test_messages_come_back_however_they_are_cut(kind, messages, places):
    """Pass: each once, in order; what would end before it does is refused by who sends."""
    whole, sent = b"", []
    for message in messages:
        try:
            whole += framed(options(kind), message)
        except ValueError:
            continue
        sent.append(message)
    assert cut(kind, whole, places) == [Frame(message) for message in sent]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(
    sizes=st.lists(
        st.sampled_from([0, 1, MOST, MOST + 1, MOST + 2, 3 * MOST]), min_size=1, max_size=5
    ),
    places=st.lists(st.integers(0, 1000), max_size=8),
)
def test_large_messages_are_refused_and_the_next_ones_come(kind, sizes, places):
    """Pass: with their beginning, once, however they are cut."""
    messages = [b"x" * size for size in sizes]
    whole = b"".join(framed(options(kind), message) for message in messages)
    found = cut(kind, whole, places)
    assert len(found) == len(messages)
    for frame, message in zip(found, messages, strict=True):
        if len(message) > MOST:
            assert "more than 50 bytes" in frame.refused
            assert message.startswith(frame.data)
        else:
            assert frame == Frame(message)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_random_bytes_end_nothing_but_their_connection(kind):
    """A million bytes. Pass: messages or one error, and no more is kept than the beginning of a large one."""
    noise = random.Random(7)
    framer = Framer(options(kind), MOST)
    for _ in range(250):
        try:
            framer.feed(noise.randbytes(4000))
        except FramingError:
            framer = Framer(options(kind), MOST)
        assert framer.held <= 64 * 1024 + 4 * MOST


def test_what_is_left_at_the_end():
    """Pass: a line without an end is one where a file ends, and is refused where a connection breaks."""
    framer = Framer(options({"framing": "lines"}), MOST)
    assert framer.feed(b"a\r\nb") == [Frame(b"a")]
    assert framer.last(whole=True) == Frame(b"b")
    framer.feed(b"c")
    assert framer.last(whole=False) == Frame(b"c", "the stream ended within it")
    assert framer.last(whole=False) is None


def test_after_a_large_message_what_is_cut_off_is_told():
    """Pass: also where messages have lengths."""
    framer = Framer(options({"framing": "octets"}), MOST)
    (large,) = framer.feed(b"60 " + b"x" * 60)
    assert large.refused
    assert framer.feed(b"5 ab") == []
    assert framer.last(whole=False) == Frame(b"5 ab", "the stream ended within it")


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ({"framing": "octets"}, b"x 1"),
        ({"framing": "octets"}, b"12345678901 x"),
        ({"framing": "length", "length": {"includes_itself": True}}, b"\0\0\0\1"),
    ],
)
def test_a_length_that_can_be_none_is_told(kind, data):
    """Pass: an error, for nobody knows where the next message begins."""
    good = framed(options(kind), b"good")
    with pytest.raises(FramingError) as told:
        Framer(options(kind), MOST).feed(good + data)
    assert told.value.frames == [Frame(b"good")]


def test_a_message_in_many_pieces_is_put_together_once():
    """Pass: each piece is looked at alone, for ends and for lengths, so that long ones cost what they have."""
    for options, before, after in (
        ({}, b"", b"\r\n"),
        ({"framing": "delimiter", "delimiter": "<>"}, b"", b"<>"),
        ({"framing": "length"}, (3_000_000).to_bytes(4, "big"), b""),
        ({"framing": "octets"}, b"3000000 ", b""),
    ):
        framer = Framer(FramingOptions.model_validate(options), 4_000_000)
        assert framer.feed(before + b"x" * 100) == []
        pieces = 0
        for _ in range(2_999):
            assert framer.feed(b"x" * 1_000) == []
            pieces = max(pieces, len(framer._pieces))
        assert pieces > 2_900  # none of them was joined with others
        (found,) = framer.feed(b"x" * 900 + after)
        assert (len(found.data), found.refused) == (3_000_000, None)
        assert framer.held == 0


def test_a_last_line_without_an_end_has_none_of_it():
    """Pass: nor the first half of one."""
    framer = Framer(FramingOptions(), MOST)
    assert framer.feed(b"a\r\nb\r") == [Frame(b"a")]
    assert framer.last(whole=True) == Frame(b"b")
