"""What the ledger of a sink says of a batch: to write it, to skip it, or that its run was replaced.

A ledger keeps, for each checkpoint of a pipeline that writes by a sink, the last batch that is in and the
highest epoch of a run that has written. Where it is kept, and how it is locked, is the sink's.
"""

from __future__ import annotations

from enum import Enum

from mainstem.contracts.contexts import Batch
from mainstem.errors import FencedError


class Step(Enum):
    """What is to be done with a batch."""

    WRITE = "write"
    #: It is in: nothing is written.
    SKIP = "skip"


def ledger_step(batch: Batch, *, last: int, epoch: int, once: bool = True) -> Step:
    """Return what is to be done with a batch.

    Args:
        batch: the batch.
        last: the last batch that is in, as the ledger has it; -1 for none.
        epoch: the highest epoch that the ledger has seen; 0 for none.
        once: whether a batch that is in is not written again; if not, the epoch alone decides.

    Raises:
        FencedError: a run with a higher epoch has been there, or a later batch is in: what runs here is
            an old copy of the checkpoint, or was replaced.
    """
    if epoch > batch.epoch:
        raise FencedError(
            f"{batch.sink}: the ledger has seen run {epoch} of this checkpoint, and this is run "
            f"{batch.epoch}: another runner has taken over, or the checkpoint is an old copy. Start over "
            "with `--fresh` if the copy is what you want.",
            node=batch.sink,
        )
    if not once or last < batch.id:
        return Step.WRITE
    if last > batch.id:
        raise old_copy(batch, f"batch {last} of this checkpoint, and this is batch {batch.id}")
    return Step.SKIP


def old_copy(batch: Batch, there: str) -> FencedError:
    """Return the error for a checkpoint whose later batches are in.

    Args:
        batch: what is to be written.
        there: what the ledger has.
    """
    return FencedError(
        f"{batch.sink}: the ledger has {there}: the checkpoint is an old copy, and what it would write "
        "need not be what is there. Go on from the newest copy, or start over with `--fresh`.",
        node=batch.sink,
    )
