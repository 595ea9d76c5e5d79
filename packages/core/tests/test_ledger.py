"""What a ledger says of a batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from mainstem import FencedError
from mainstem.sinks import Step, ledger_step


def batch(number: int, epoch: int = 2) -> Any:
    return SimpleNamespace(id=number, epoch=epoch, sink="out")


@pytest.mark.parametrize(
    ("last", "epoch", "step"),
    [
        (-1, 0, Step.WRITE),
        (4, 2, Step.WRITE),
        (4, 1, Step.WRITE),
        (5, 2, Step.SKIP),
        (5, 1, Step.SKIP),
    ],
)
def test_a_batch_is_written_once(last, epoch, step):
    """Pass: what is not in is written; what is in is skipped, whichever run wrote it."""
    assert ledger_step(batch(5), last=last, epoch=epoch) is step


@pytest.mark.parametrize(("last", "once"), [(4, True), (5, True), (9, False), (-1, False)])
def test_a_run_that_was_replaced_writes_nothing(last, once):
    """Pass: a higher epoch in the ledger, whatever is in: an error that names both runs."""
    with pytest.raises(FencedError, match="out: the ledger has seen run 3 .* this is run 2"):
        ledger_step(batch(5), last=last, epoch=3, once=once)


def test_an_old_copy_writes_nothing():
    """Pass: a later batch that is in is an error that names both; where only runs count, it is not."""
    with pytest.raises(FencedError, match="batch 6 of this checkpoint, and this is batch 5"):
        ledger_step(batch(5), last=6, epoch=2)
    assert ledger_step(batch(5), last=6, epoch=2, once=False) is Step.WRITE
