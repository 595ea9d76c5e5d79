"""How long a far side is tried."""

from __future__ import annotations

import time

from mainstem import Patience, pause_after


def test_pauses_grow_to_seconds_and_begin_anew_with_progress():
    """Pass: from about 20 ms to at most 5 s, each drawn between half and all of a length that doubles."""
    patience = Patience(300)
    for number in range(20):
        longest = min(5.0, 0.04 * 2**number)
        assert longest / 2 <= patience.pause() <= longest
    assert patience.tries == 20
    patience.progress()
    assert patience.tries == 0
    assert patience.pause() <= 0.04


def test_a_pause_has_the_length_that_is_asked_for():
    """Pass: it doubles from the first to the longest, over any number of tries."""
    for tries in (1, 2, 3, 4, 5, 6, 2000):
        whole = min(30.0, 0.5 * 2 ** min(tries, 10) / 2)
        assert whole / 2 <= pause_after(tries, 0.5, 30.0) <= whole


def test_patience_ends_some_time_after_the_last_progress():
    """Pass: failed tries do not lengthen it, progress does."""
    patience = Patience(0.05)
    assert 0 < patience.left() <= patience.seconds
    time.sleep(0.06)
    patience.pause()
    assert patience.left() <= 0
    patience.progress()
    assert patience.left() > 0
