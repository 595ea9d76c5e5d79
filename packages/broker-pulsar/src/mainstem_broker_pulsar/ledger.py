"""Notes which run of a checkpoint writes which batch, so that one that was replaced is told.

A checkpoint has a producer of its own in the ledger's topic, whose numbers are the epochs of its runs
with their batches: the broker keeps the highest, and says it to whoever comes by the producer's name. So
no message of the ledger is ever read. Where brokers have removed the topic, since nobody uses it between
batches, the numbers of the rows themselves tell an old copy.
"""

from __future__ import annotations

import logging
from hashlib import blake2b

from mainstem import Batch, PermanentError, TransientError
from mainstem.patience import retry
from mainstem.sinks import ledger_step, old_copy

from mainstem_broker_pulsar.client import Client, Failure, failure
from mainstem_broker_pulsar.options import PulsarOptions

_LOG = logging.getLogger(__name__)

#: A number has the epoch above so many bits of the batch.
_BITS = 36
_MOST = 2**_BITS - 1


def enter(options: PulsarOptions, batch: Batch) -> None:
    """Note that a batch is written by its run, unless a newer run has been.

    Raises:
        FencedError: a run of a higher epoch has written, or a later batch was begun.
        PermanentError: the broker does not know what comes again.
        ExternalError: no broker answers, or it forbids it.
    """

    def log(error: TransientError) -> None:
        _LOG.warning("%s: the ledger can't be asked: %s", batch.sink, error)

    retry(lambda _: _enter(options, batch), options.give_up.total_seconds(), log)


def _enter(options: PulsarOptions, batch: Batch) -> None:
    client = Client(options)
    try:
        noted = _note(client, options, batch)
        epoch, last = (noted >> _BITS, noted & _MOST) if noted >= 0 else (0, -1)
        ledger_step(batch, last=last, epoch=epoch, once=False)
        if last > batch.id:
            raise old_copy(batch, f"batch {last} of this checkpoint, and this is batch {batch.id}")
        # The broker knows it from now on, or it knows nothing.
        if epoch < batch.epoch and _note(client, options, batch) < _number(batch):
            raise PermanentError(
                f"pulsar {options.place()}: deduplication is off for {options.ledger_topic()}: turn it "
                "on for the namespace (`pulsar-admin namespaces set-deduplication --enable`), or write "
                "`deliver: microbatch`, which may write a batch twice"
            )
    finally:
        client.close()


def _number(batch: Batch) -> int:
    return (batch.epoch << _BITS) + batch.id


def _note(client: Client, options: PulsarOptions, batch: Batch) -> int:
    """Return the number that the broker has seen last, and show it that of a batch if it may follow."""
    topic = options.ledger_topic()
    mark = blake2b(options.topic.encode(), digest_size=4).hexdigest()
    producer = client.producer(
        topic,
        f"{batch.sink}-{batch.query_id}-{mark}",
        batching="none",
        compression="none",
        chunks=False,
        pending=1,
        seconds=options.answer_timeout.total_seconds(),
    )
    try:
        found, number = int(producer.last_sequence_id()), _number(batch)
        if found < number and (found < 0 or found & _MOST <= batch.id):
            producer.send(b"", sequence_id=number)
        producer.close()
    except Failure as error:
        raise failure(error, options.place(), topic) from None
    return found
