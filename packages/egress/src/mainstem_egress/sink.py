"""The base of every sink on egress."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mainstem import MESSAGES, Batch, Dataset, Located, Prepared, Shape, Sink, Typed, failpoint
from mainstem.columns import Column, check_order
from mainstem.sinks import in_partitions, write_by_tasks

from mainstem_egress.options import EgressOptions
from mainstem_egress.sender import Sender

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mainstem_egress.dispatcher import Dispatcher
    from mainstem_egress.sender import Sendable


_KEY = "key"


class EgressSink(Sink, Typed, Prepared, Located):
    """A sink whose tasks send messages, each by a sender of its own.

    A subclass annotates `options` with a subclass of `EgressOptions`, and says which sender it is and, in
    `capabilities`, what must hold for an accepted message to stay.
    """

    options: EgressOptions
    accepts = MESSAGES

    @abstractmethod
    def sender(self) -> type[Sender]:
        """Return the class of the senders. It may import the vendor's library."""

    def datasets(self, output: str) -> Sequence[Dataset]:
        return self.options.datasets()

    def lane(self) -> str:
        """Return SQL that is the same for the rows of a lane, which `order: log` brings together."""
        return _KEY

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse an order that the columns can't give; subclasses refuse types too."""
        if self.options.order == "log":
            key = _KEY if self.lane() == _KEY else None
            check_order(columns, "order", "leave out `order`", key=key)

    def prepare(self, columns: Sequence[Column], shape: Shape) -> None:
        """Connect once from here, so that what can't be mended is said once and plainly.

        Raises:
            PermanentError: it can't be.
        """
        dispatcher = dispatcher_of(
            self.sender()(self.options, "mainstem"), self.options, _unexpected
        )
        try:
            dispatcher.connect()
        finally:
            dispatcher.close()

    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Send a batch; return the rows that were refused for good."""
        options = self.options
        name = f"mainstem {batch.pipeline} {batch.sink}"
        task = partial(send, sender=self.sender(), options=options, name=name)
        lane = None
        if options.order == "log":
            from pyspark.sql.functions import expr

            lane = expr(self.lane())
        return write_by_tasks(in_partitions(frame, options.partitions, lane), task)


def dispatcher_of(
    sender: Sender, options: EgressOptions, refuse: Callable[[Sendable, str], None]
) -> Dispatcher:
    """Return what dispatches by a sender as the options say."""
    from mainstem_egress.dispatcher import Dispatcher, LaneDispatcher

    given: dict[str, Any] = {
        "in_flight": options.in_flight,
        "in_flight_bytes": options.in_flight_bytes,
        "answer_timeout": options.answer_timeout.total_seconds(),
        "give_up": options.give_up.total_seconds(),
    }
    ordered = options.order != "none"
    if ordered and sender.one_of_a_lane:
        return LaneDispatcher(sender, refuse, **given)
    return Dispatcher(sender, refuse, **given, ordered=ordered)


def send(
    batches: Iterable[pa.RecordBatch],
    sender: Callable[[Any, str], Sender],
    options: EgressOptions,
    name: str,
) -> Iterator[pa.RecordBatch]:
    """Send the rows of a task and yield those that were refused for good; runs in an executor.

    Args:
        batches: the rows.
        sender: makes the sender, of the options and a name; it is pickled.
        options: of the sink.
        name: of the sink.
    """
    from mainstem.sinks import Refused

    refused = Refused()
    made = sender(options, name)
    dispatcher = dispatcher_of(
        made, options, lambda message, why: refused.add(message.identity, message.payload, why)
    )
    try:
        for batch in batches:
            failpoint("egress.before-send")
            for message in made.messages(batch, refused):
                dispatcher.send(message)
            yield from refused.take()
        failpoint("egress.after-send")
        dispatcher.flush()
        failpoint("egress.after-answers")
        yield from refused.take()
    finally:
        dispatcher.close()


def _unexpected(_: Sendable, why: str) -> None:
    raise AssertionError(f"nothing was sent, and is refused: {why}")
