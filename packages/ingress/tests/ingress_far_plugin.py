"""Sources of the far side, as a plugin: the words `far_queue`, `far_stream` and `far_tables`."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from ingress_far import FarOptions, QueueReceiver, StreamReceiver
from mainstem import Changelog, Events, Shape, Source, SourceCapabilities, hookimpl
from mainstem_ingress import IngressSource, Message, Receiver, no_row, row_of


class FarQueue(IngressSource):
    """Takes from the queue."""

    capabilities = SourceCapabilities(replayable=True)
    options: FarOptions

    def receiver(self) -> type[Receiver]:
        return QueueReceiver


class FarStream(FarQueue):
    """Takes from the stream."""

    def receiver(self) -> type[Receiver]:
        return StreamReceiver


class TablesReceiver(QueueReceiver):
    """Gives even numbers as rows of `orders`, odd ones as changes of `customers`, tens as they are."""

    def take(self, seconds: float) -> Iterable[Message]:
        return [self._row(message) for message in super().take(seconds)]

    def _row(self, message: Message) -> Message:
        n = int(message.value or b"0")
        if n % 10 == 0:
            return message._replace(extra=(n, *no_row(TABLES)))
        if n % 2 == 0:
            row = row_of(TABLES, "orders", {"n": n, "price": Decimal(n) / 4, "tags": [f"t{n}"]})
            return message._replace(value=None, extra=(None, *row))
        change = {"name": f"c{n % 4}", "version": n, "_change_type": "update_postimage"}
        row = row_of(TABLES, "customers", {**change, "_commit_version": n})
        return message._replace(value=None, extra=(None, *row))


TABLES: dict[str, Shape] = {
    "orders": Events("n BIGINT, price DECIMAL(10,2), tags ARRAY<STRING>", identity=["n"]),
    "customers": Changelog("name STRING, version BIGINT", key=["name"], sequence="version"),
}


class FarTables(FarQueue):
    """Takes rows of two tables from the queue, and messages of none."""

    extra = "ten BIGINT"
    tables = TABLES

    def receiver(self) -> type[Receiver]:
        return TablesReceiver


@hookimpl
def mainstem_sources() -> dict[str, type[Source]]:
    return {"far_queue": FarQueue, "far_stream": FarStream, "far_tables": FarTables}
