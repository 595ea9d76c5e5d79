"""Frames to rows and back: what is written is what is read, and what does not fit is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mainstem_direct_zeromq.frames import (
    ID,
    KEPT,
    SEQUENCE,
    Fields,
    Layout,
    check_layout,
    refused,
)
from mainstem_direct_zeromq.source.sequence import Counts, SequenceOptions

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = TEXT.filter(lambda name: name and name not in (SEQUENCE, ID))


def fields(layout, frames):
    """What a message's frames become, as what a row's frames are made of."""
    found = layout.message(frames, "origin")
    assert found.refused is None
    headers = None if found.headers is None else dict(found.headers)
    topic = found.origin if "topic" in layout.names else None
    return Fields(found.value, found.key, topic, headers, found.id)


@st.composite
def layouts(draw):
    """Any order of any frames, with `value` among them."""
    single = draw(st.sets(st.sampled_from(["key", "topic", "headers", "sequence", "id"])))
    named = draw(st.sets(NAMES.map(lambda name: f"header.{name}"), max_size=3))
    return Layout(draw(st.permutations(["value", *sorted(single), *sorted(named)])))


@st.composite
def messages(draw):
    """A layout, and the frames of a message as somebody who keeps to it would write them."""
    layout = draw(layouts())
    frames = []
    taken = {name.removeprefix("header.") for name in layout.names}
    for name in layout.names:
        if name == "topic":
            frames.append(draw(TEXT).encode())
        elif name == "headers":
            texts = draw(st.none() | st.dictionaries(NAMES.filter(lambda n: n not in taken), TEXT))
            written = json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode()
            frames.append(b"" if texts is None else written)
        else:
            frames.append(draw(st.binary(max_size=50)))
    return layout, frames


@settings(max_examples=60, deadline=None)
@given(messages())
@pytest.mark.in_turn
def test_frames_become_a_row_and_the_row_the_same_frames(given):
    """Pass: for any layout and any content, byte for byte."""
    layout, frames = given
    row = fields(layout, frames)
    if "headers" in layout.names and not frames[layout.names.index("headers")]:
        # No headers, but those that have frames of their own: `{}` and nothing read alike.
        again = layout.frames(row)
        at = layout.names.index("headers")
        assert again[at] in (b"", b"{}")
        assert again[:at] + again[at + 1 :] == frames[:at] + frames[at + 1 :]
    else:
        assert layout.frames(row) == frames


@settings(max_examples=60, deadline=None)
@given(
    layouts(),
    st.binary(),
    st.binary(),
    TEXT,
    st.dictionaries(NAMES, TEXT),
    st.binary(),
    st.binary(),
)
@pytest.mark.in_turn
def test_a_row_becomes_frames_and_the_frames_the_same_row(
    layout, value, key, topic, headers, number, identifier
):
    """Pass: all that the layout has a frame for comes back, and what it has none for does not."""
    given = {name: text.encode() for name, text in headers.items()}
    own = {n.removeprefix("header.") for n in layout.names if n.startswith("header.")}
    given |= dict.fromkeys(own, b"\xff") | {SEQUENCE: number, ID: identifier}
    found = fields(layout, layout.frames(Fields(value, key, topic, given)))
    assert found.value == value
    assert found.key == (key if "key" in layout.names else None)
    assert found.topic == (topic if "topic" in layout.names else None)
    kept = own | {h for n, h in (("sequence", SEQUENCE), ("id", ID)) if n in layout.names}
    if "headers" in layout.names:
        kept |= headers.keys()
    assert (found.headers or {}) == {name: given[name] for name in kept}


@settings(max_examples=60, deadline=None)
@given(layouts(), st.lists(st.binary(max_size=20), max_size=9))
@pytest.mark.in_turn
def test_any_frames_give_a_message_or_a_reason(layout, frames):
    """Pass: nothing is raised; another number of frames is refused, with both numbers named."""
    message = layout.message(frames, "origin")
    if len(frames) != layout.count:
        assert message.refused
        assert str(len(frames)) in message.refused
        assert str(layout.count) in message.refused
        assert message.value == b"".join(b"%d:%b," % (len(f), f) for f in frames)
    elif message.refused is None:
        assert message.value == frames[layout.names.index("value")]


@pytest.mark.parametrize(
    ("names", "frames", "reason"),
    [
        (["value"], [], "it has 0 frames"),
        (["value"], [b"a", b"b"], "it has 2 frames, and `frames` names 1"),
        (["topic", "value"], [b"\xff\xfe", b"v"], "topic is not UTF-8"),
        (["headers", "value"], [b"[1]", b"v"], "no JSON object"),
        (["headers", "value"], [b"{", b"v"], "no JSON object"),
        (["headers", "value"], [b"\xff", b"v"], "no JSON object"),
        (["headers", "value"], [b"[" * 100_000, b"v"], "no JSON object"),
        (["headers", "value"], [b'{"a":"\\ud800"}', b"v"], "surrogate"),
        (["headers", "value"], [b'{"\\ud800":"a"}', b"v"], "surrogate"),
        (["headers", "value"], [b'{"a":"' + b"x" * 2**20 + b'"}', b"v"], "more than 1,048,576"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(names, frames, reason):
    """Pass: the reason says what is wrong, and the value has the frames."""
    message = Layout(names).message(frames, "origin")
    assert reason in (message.refused or "")
    assert message.value is not None
    assert message.value.startswith(b"".join(b"%d:" % len(frame) for frame in frames[:1]))


def test_headers_of_any_depth_give_a_message_or_a_reason():
    """Pass: also where JSON can be read and not be written again: nothing is raised."""
    reasons = set()
    for depth in range(1, 1200):
        frame = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
        message = Layout(["headers", "value"]).message([frame, b"v"], "origin")
        reasons.add(message.refused)
    assert reasons <= {None, "its headers are no JSON object", "its headers are nested too deeply"}


def test_numbers_and_flags_of_headers_become_texts():
    """Pass: as JSON writes them."""
    frame = b'{"n": 1, "f": 1.5, "t": true, "z": null, "l": [1, "\xc3\xa4"], "s": "text"}'
    found = fields(Layout(["headers", "value"]), [frame, b""]).headers
    expected = {"n": "1", "f": "1.5", "t": "true", "z": "null", "l": '[1, "ä"]', "s": "text"}
    assert found == {name: text.encode() for name, text in expected.items()}


def test_a_large_message_that_is_refused_is_cut():
    """Pass: its beginning is kept, and the reason says so."""
    message = refused([b"x" * 10 * KEPT], "origin", "for a reason")
    assert len(message.value or b"") == KEPT
    assert "here are the first" in (message.refused or "")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (Fields(b"v", None, None), "no topic"),
        (Fields(b"v", None, "t", {"a": b"\xff"}), "'a' is not UTF-8"),
        (Fields(b"v", None, "t", {"a": b"x"}), "no header zmq.sequence"),
    ],
)
def test_a_row_that_makes_no_message_is_told_why(fields, reason):
    """Pass: a ValueError that names what is missing."""
    with pytest.raises(ValueError, match=reason):
        Layout(["topic", "headers", "sequence", "value"]).frames(fields)


def test_nulls_are_written_as_empty_frames():
    """Pass: a value, a key, headers and a header that are null."""
    layout = Layout(["skip", "key", "headers", "header.a", "value"])
    assert layout.frames(Fields(None)) == [b""] * 5
    assert layout.frames(Fields(None, headers={"b": b"1"}))[2] == b'{"b":"1"}'


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        (["value", "body"], "'body'"),
        (["value", "header."], "'header.'"),
        (["value", "value"], "twice"),
        (["topic"], "no frame is the value"),
        (["value", "sequence", "header.zmq.sequence"], "two frames"),
    ],
)
def test_layouts_that_make_no_sense_are_told(names, wrong):
    """Pass: a ValueError that says what is wrong."""
    with pytest.raises(ValueError, match=wrong):
        check_layout(names)


# -- sequence numbers ---------------------------------------------------------------------------


def counts(told=None, names=("topic", "sequence", "value"), **options):
    return Counts(SequenceOptions.model_validate(options), names, told)


def seen(counts, *numbers, topic=b"t"):
    """Show numbers; return the gaps."""
    found = []
    for number in numbers:
        frames = [topic, number.to_bytes(8, "big"), b""]
        gap = counts.gap(frames)
        if gap is not None:
            found.append((gap.first, gap.last))
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 60), unique=True, min_size=1))
def test_gaps_are_exactly_the_numbers_that_did_not_come(numbers):
    """Pass: of a publisher that counts up, whatever is missing between the first and the last."""
    numbers.sort()
    gaps = [n for first, last in seen(counts(), *numbers) for n in range(first, last + 1)]
    assert gaps == [n for n in range(numbers[0], numbers[-1]) if n not in numbers]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(1, 20), unique=True, max_size=16).flatmap(st.permutations),
    st.integers(0, 16),
)
def test_what_comes_late_is_not_lost_in_the_end(numbers, restart):
    """Pass: in whatever order numbers come after the lowest, as over several connections, each gap is told once, and
    what was told and has not come late is what never came; also if what was seen is stored on the way."""
    numbers = [0, *numbers]
    own = counts()
    told = [n for first, last in seen(own, *numbers[:restart]) for n in range(first, last + 1)]
    again = counts(own.encoded())
    again.lost = own.lost
    rest = seen(again, *numbers[restart:])
    told += [n for first, last in rest for n in range(first, last + 1)]
    assert len(told) == len(set(told))
    never = set(range(max(numbers))) - set(numbers)
    assert never <= set(told)
    assert again.lost == len(never)


def test_gaps_that_are_remembered_have_bounds():
    """Pass: the latest few of each publisher; one that is wider than any queue is told and not remembered, so that a
    single wrong number does not hide what is lost afterwards."""
    own = counts()
    seen(own, *range(0, 10_000, 2))
    assert len(own.encoded()) < 200
    assert seen(own, 9_997, 9_995, 10_001) == [(9_999, 10_000)]
    assert seen(own, 2**60, 10_002, 10_004) == [(10_002, 2**60 - 1), (10_003, 10_003)]


def test_counts_that_were_stored_without_gaps_are_read():
    """Pass: a number for each publisher, as it is written where nothing is missing."""
    assert counts().encoded() == "{}"
    own = counts('{"t": 4, "u": [9, 3, 5]}')
    assert seen(own, 5, 7) == [(6, 6)]
    assert seen(own, 4, 10, topic=b"u") == []
    assert json.loads(own.encoded()) == {"t": [7, 6, 6], "u": [10, 3, 3, 5, 5]}


def test_publishers_are_told_apart_whatever_their_names_hold():
    """Pass: two frames `a` and `b, c` are not `a, b` and `c`."""
    own = counts(names=("topic", "header.x", "sequence", "value"), per=["topic", "header.x"])

    def see(topic, other, number):
        frames = [topic, other, number.to_bytes(8, "big"), b""]
        return own.gap(frames)

    pairs = [(b"a", b"b, c"), (b"a, b", b"c"), (b"a\\, b", b"c"), (b"a\\", b"b, c")]
    for number, pair in enumerate(pairs):
        assert see(*pair, 100 * number) is None
    for number, pair in enumerate(pairs):
        assert see(*pair, 100 * number + 1) is None


def test_each_topic_has_its_own_count_and_a_restart_is_no_gap():
    """Pass: topics do not mix; a lower number starts over; a copy changes nothing."""
    own = counts()
    assert seen(own, 5, 6, 8) == [(7, 7)]
    assert seen(own, 100, 101, topic=b"u") == []
    assert seen(own, 9, 0, 1, 1, 2) == []


def test_counts_go_on_from_what_was_stored():
    """Pass: another one, given what the first said, sees the gap between them."""
    first = counts()
    seen(first, 1, 2)
    assert seen(counts(first.encoded()), 7) == [(3, 6)]


def test_counts_of_the_silent_are_forgotten():
    """Pass: no more than `remember`, and the one that was silent for longest goes."""
    own = counts(remember=2)
    for topic in (b"a", b"b", b"a", b"c"):
        seen(own, 1, topic=topic)
    assert sorted(json.loads(own.encoded())) == ["a", "c"]


@pytest.mark.parametrize(
    ("options", "frame", "number"),
    [
        ({"format": "digits"}, b"0042", 42),
        ({"format": "uint16"}, b"\x01\x02", 0x102),
        ({"format": "uint32", "byte_order": "little"}, b"\x01\x02\x00\x00rest", 0x201),
        ({"format": "uint64", "at": 2}, b"ab" + (7).to_bytes(8, "big"), 7),
        ({"format": "digits"}, b"-1", None),
        ({"format": "digits"}, b"", None),
        ({"format": "digits"}, b"1" * 5000, None),
        ({"format": "uint64"}, b"\x01", None),
        ({"format": "uint16", "at": 1}, b"\x01\x02", None),
    ],
)
def test_numbers_are_read_as_the_options_say(options, frame, number):
    """Pass: the number; or a ValueError for a frame that holds none."""
    own = SequenceOptions.model_validate(options)
    if number is None:
        with pytest.raises(ValueError, match="its sequence"):
            own.number(frame)
    else:
        assert own.number(frame) == number


def test_what_tells_publishers_apart_must_be_short():
    """Pass: a topic that would fill the memory is refused."""
    with pytest.raises(ValueError, match="more than 255 bytes"):
        seen(counts(), 1, topic=b"x" * 256)


def test_a_gap_too_wide_for_a_column_is_still_told():
    """Pass: its ends are exact, its count the most that a BIGINT holds."""
    own = counts()
    seen(own, 0)
    frames = [b"t", (2**64 - 1).to_bytes(8, "big"), b""]
    gap = own.gap(frames)
    assert (gap.first, gap.last) == (1, 2**64 - 2)
    assert gap.missing == 2**63 - 1
