"""How long an external system is tried."""

from __future__ import annotations

import time

import pytest
from mainstem import PermanentError, TransientError
from mainstem.patience import Patience, pause_after, retry


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


def test_time_that_is_left_out_does_not_count():
    """Pass: what is skipped is had again, and no more than has passed."""
    patience = Patience(0.5)
    time.sleep(0.1)
    patience.skip(0.1)
    assert 0.45 < patience.left() <= 0.5
    patience.skip(100.0)
    assert patience.left() <= 0.5


def test_work_is_retried_while_that_may_help():
    """Pass: as long as it raises transient errors; another error, and the last one after `give_up`, come out."""
    tries, seen = [], []

    def work(number):
        tries.append(number)
        if number < 2:
            raise TransientError(f"not yet {number}")
        return "done"

    assert retry(work, 10.0, seen.append) == "done"
    assert tries == [0, 1, 2]
    assert [str(error) for error in seen] == ["not yet 0", "not yet 1"]

    def never(number):
        raise (PermanentError if number else TransientError)(f"try {number}")

    with pytest.raises(PermanentError, match="try 1"):
        retry(never, 10.0)
    with pytest.raises(TransientError, match="try 0"):
        retry(never, 0.0)
