"""Feeds that carry the same messages: each once, and a gap is what none of them has."""

from __future__ import annotations

import json
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mainstem_direct_udp.copies import Copies
from mainstem_direct_udp.options import UDPSourceOptions
from mainstem_direct_udp.receiver import UDPReceiver
from mainstem_ingress.losses import loss_of
from pydantic import ValidationError
from udp_peers import Sender, free_port


@given(
    numbers=st.integers(2, 60),
    data=st.data(),
)
def test_any_two_feeds_give_each_number_once(numbers, data):
    """Both drop and delay at random. Pass: first copies are each number once, gaps what neither had."""
    feeds = []
    for _ in range(2):
        kept = data.draw(st.lists(st.booleans(), min_size=numbers, max_size=numbers))
        late = data.draw(st.lists(st.integers(0, 3), min_size=numbers, max_size=numbers))
        feeds += [(n + late[n], n) for n in range(numbers) if kept[n]]
    arrivals = [n for _, n in sorted(feeds)]
    if not arrivals:
        return
    made, came, gone, now = Copies(5.0, 10), [], [], 0.0
    for n in arrivals:
        now += 0.01
        if made.first(b"", n + 1000, now):
            came.append(n + 1000)
    for gap in made.due(now + 10):
        gone += range(gap.first, gap.last + 1)
    begun = arrivals[0] + 1000
    above = [n for n in came if n >= begun]
    whole = sorted([*above, *gone])
    assert len(set(whole)) == len(whole)
    assert whole == list(range(begun, max(arrivals) + 1001))


def test_a_beginning_a_copy_that_comes_too_late_and_a_cursor():
    """Pass: a count that begins again is no copy; what is missing is still missing after a restart."""
    made = Copies(1.0, 10)
    assert [made.first(b"", n, 0.0) for n in (500, 501, 504, 501)] == [True, True, True, False]
    again = Copies(1.0, 10, made.encoded())
    assert json.loads(made.encoded()) == {"": [504, 502, 503]}
    now = time.monotonic()
    assert again.first(b"", 502, now)
    (gap,) = again.due(now + 5)
    assert (gap.first, gap.last) == (503, 503)
    assert again.first(b"", 1, now + 5)
    assert again.first(b"", 2, now + 5)
    assert again.due(now + 20) == []


def test_late_copies_of_what_was_stored_before_a_restart_are_copies():
    """Pass: for as long as copies are known; a number that was missing is none, and a new beginning later is one."""
    made = Copies(1.0, 10)
    assert all(made.first(b"", n, 0.0) for n in (98, 99, 101))
    again, now = Copies(1.0, 10, made.encoded()), time.monotonic()
    assert [again.first(b"", n, now) for n in (99, 101, 98, 100, 102)] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert again.due(now + 0.5) == []
    assert again.first(b"", 99, now + 5)


def test_two_senders_of_one_feed():
    """Pass: through the kernel; in `lost` is what neither sent, after the time that is waited."""
    port = free_port()
    sequence = {"format": "uint32", "per": "feed", "copies_within": "200 ms"}
    given_ = {"listen": f"127.0.0.1:{port}", "sequence": sequence}
    made = UDPReceiver(UDPSourceOptions.model_validate(given_), 0, "node")
    made.connect(None)
    a, b = Sender(port), Sender(port)
    for n in range(1, 101):
        for feed, every in ((a, 5), (b, 7)):
            if n % every:
                feed.send(struct.pack(">I", n))
    found, until = [], time.monotonic() + 5
    while time.monotonic() < until and not any(loss_of(m) for m in found[-2:] if m.refused):
        found += made.take(0.05)
    time.sleep(0.3)
    found += made.take(0.05)
    made.close()
    a.close()
    b.close()
    came = [struct.unpack(">I", m.value)[0] for m in found if m.refused is None]
    gone = [(int(x["from"]), int(x["to"])) for x in map(loss_of, found) if x]
    assert sorted(came) == [n for n in range(1, 101) if n % 35]
    assert gone == [(35, 35), (70, 70)]


def test_copies_are_of_all_datagrams():
    """Pass: else it is told when the document is read."""
    sequence = {"per": "sender", "copies_within": "1 s"}
    with pytest.raises(ValidationError, match="per: feed"):
        UDPSourceOptions.model_validate({"listen": "0.0.0.0:1", "sequence": sequence})


@pytest.mark.parametrize("again", [False, True])
def test_numbers_that_begin_again_while_a_feed_is_behind(again):
    """Pass: copies of the end come after the new beginning, and are none; what is missing there is told, also when
    the receiver was restarted between."""
    made, now = Copies(1.0, 10), time.monotonic()
    ahead = [65530, 65532, 65533, 65535, 0, 1]
    assert all(made.first(b"", n, now) for n in ahead)
    if again:
        made = Copies(1.0, 10, made.encoded())
    came = [n for n in (65532, 65533, 65534, 65535, 0, 1, 2, 4, 5) if made.first(b"", n, now + 0.1)]
    assert came == [65534, 2, 4, 5]
    gaps = [(gap.first, gap.last) for gap in made.due(time.monotonic() + 5)]
    assert sorted(gaps) == [(3, 3), (65531, 65531)]
    assert not made.waiting
    assert made.first(b"", 65535, now + 9)


def test_a_sender_that_goes_back_a_little_is_a_new_beginning():
    """Pass: its numbers come out again, though they were seen a moment ago."""
    made = Copies(1.0, 10)
    assert all(made.first(b"", n, 0.001 * n) for n in range(5000, 8000))
    assert all(made.first(b"", n, 8.0 + 0.001 * (n - 6000)) for n in range(6000, 8100))
    assert made.due(30.0) == []


def test_of_many_gaps_the_oldest_are_told_at_once():
    """Pass: a feed that has every second number costs no more than a thousand gaps in hand."""
    made = Copies(60.0, 10)
    assert all(made.first(b"", n, 1.0) for n in range(0, 10_000, 2))
    told = made.due(1.0)
    assert [gap.first for gap in told] == list(range(1, 7998, 2))
    assert len(json.loads(made.encoded())[""]) == 2001


def test_a_single_number_that_is_late_is_no_beginning():
    """Pass: after it the count goes on as before, and nothing that came is told as missing but what it covers."""
    made, came = Copies(1.0, 10), []
    for n in range(8000):
        now = 0.001 * n
        came += [n] if made.first(b"", n, now) else []
        if n >= 50 and made.first(b"", n - 50, now):
            came.append(n - 50)
        if n == 3000 and made.first(b"", 1500, now):
            came.append(1500)
    assert sorted(came) == sorted([*range(8000), 1500])
    assert made.due(30.0) == []
