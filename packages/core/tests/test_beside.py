"""Work beside the runner: done when it is wanted, in one thread, which ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from mainstem.run.background import Beside


class Work:
    """Notes which thread does it, and lasts until it may go on."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.began = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)

    def __call__(self) -> None:
        self.began.release()
        assert self.go_on.acquire(timeout=60)
        self.done.append(threading.get_ident())


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def beside(work: Work) -> Iterator[Beside]:
    made = Beside("test", work)
    made.start()
    yield made
    made.close()
    work.go_on.release(10)
    made.join(60)
    assert not made.is_alive()


def test_all_is_done_in_one_thread(work: Work, beside: Beside) -> None:
    for _ in range(3):
        beside.want()
        assert work.began.acquire(timeout=60)
        work.go_on.release()
    beside.close()
    beside.join(60)
    assert work.done == [beside.ident] * 3


def test_what_is_wanted_meanwhile_is_done_once_more(work: Work, beside: Beside) -> None:
    beside.want()
    assert work.began.acquire(timeout=60)
    for _ in range(5):
        beside.want()
    work.go_on.release(2)
    assert work.began.acquire(timeout=60)
    beside.close()
    beside.join(60)
    assert len(work.done) == 2


def test_what_was_wanted_before_the_end_is_done(work: Work, beside: Beside) -> None:
    beside.want()
    assert work.began.acquire(timeout=60)
    beside.want()
    beside.close()
    work.go_on.release(2)
    beside.join(60)
    assert len(work.done) == 2


def test_one_that_nobody_wanted_ends_without(work: Work, beside: Beside) -> None:
    beside.close()
    beside.join(60)
    assert work.done == []
