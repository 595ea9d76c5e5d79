"""Sink `webhook`: sends messages to an HTTP endpoint, signed, and knows of each one's fate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from socket import gaierror
from typing import TYPE_CHECKING

from mainstem import (
    MESSAGES,
    Batch,
    Level,
    PermanentError,
    Shape,
    Shown,
    Sink,
    SinkCapabilities,
    TLSOptions,
    Typed,
)
from mainstem.columns import Column, check_order, check_types, find_column
from mainstem.sinks import in_partitions, write_by_tasks

from mainstem_direct_webhook.client.addresses import AddressRefusedError, resolve
from mainstem_direct_webhook.client.secret_options import PORTS, place, split
from mainstem_direct_webhook.sink.options import WebhookSinkOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_TYPES = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": ("map<string,binary>",),
    "timestamp": ("timestamp",),
}
_SHOWN = {
    "microbatch": Shown(
        Level.AT_LEAST_ONCE, "packages/direct-webhook/tests/test_webhook_sink_conformance.py"
    )
}


class WebhookSink(Sink, Typed):
    """Sends messages to an HTTP endpoint; each request carries an id that is the same at every try.

    At least once: a batch that is retried, or a request whose answer was lost, is sent again, with
    the same id. An endpoint that remembers ids drops the copies.
    """

    options: WebhookSinkOptions
    accepts = MESSAGES

    def __init__(self, options: WebhookSinkOptions) -> None:
        super().__init__(options)
        self._checked = False

    @property
    def capabilities(self) -> SinkCapabilities:  # type: ignore[override]
        """The facts, and what is assumed of the endpoint."""
        assumed = ["the endpoint has kept what it answers with 2xx"]
        return SinkCapabilities(needs_id=True, assumptions=tuple(assumed), shown=_SHOWN)

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that can't be what their names say, or lack what the options name."""
        check_types(columns, _TYPES)
        if self.options.order == "log":
            check_order(columns, "order", "write `order: key`")
        if self.options.forward_headers:
            hint = "Keep the column of the source's, or leave out `forward_headers`."
            find_column(columns, "headers", "forward_headers", hint=hint)

    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Send a batch; return the rows that were refused for good.

        Raises:
            PermanentError: the endpoint does not take requests; no row was dropped.
        """
        if not self._checked:
            self._check()
            self._checked = True
        task = partial(send, options=self.options)
        key = "key" if self.options.order == "log" else None
        return write_by_tasks(in_partitions(frame, self.options.partitions, key), task)

    def _check(self) -> None:
        """Say once and plainly, from here, what no executor can change: files, and a private address."""
        parts = split(self.options.url)
        try:
            (self.options.tls or TLSOptions()).context()
            if not self.options.allow_private:
                port = parts.port or PORTS[parts.scheme]
                resolve(parts.hostname or "", port, allow_private=False)
        except AddressRefusedError as error:
            raise PermanentError(f"{place(self.options.url)}: {error}") from None
        except gaierror:
            pass  # names may be known to the executors alone
        except OSError as error:
            raise PermanentError(str(error)) from None


def send(
    batches: Iterable[pa.RecordBatch], options: WebhookSinkOptions
) -> Iterator[pa.RecordBatch]:
    """Send the rows of a task and yield those that were refused for good; runs in an executor."""
    from mainstem_direct_webhook.sink import dispatcher

    return dispatcher.send(batches, options)
