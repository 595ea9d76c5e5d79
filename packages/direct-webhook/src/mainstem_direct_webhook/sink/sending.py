"""Sends the rows of a task; runs in an executor."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from mainstem import PermanentError, TLSOptions, failpoint
from mainstem.sinks import Refused

from mainstem_direct_webhook.sink.client import Client
from mainstem_direct_webhook.sink.dispatcher import Deliverer
from mainstem_direct_webhook.sink.redact import Blanking
from mainstem_direct_webhook.sink.requests import Packing
from mainstem_direct_webhook.sink.worker import Gate, Lane
from mainstem_direct_webhook.standard import read_secret

if TYPE_CHECKING:
    import pyarrow as pa

    from mainstem_direct_webhook.sink.options import WebhookSinkOptions


def make_deliverer(options: WebhookSinkOptions, packing: Packing, refused: Refused) -> Deliverer:
    """Return what delivers requests as the options say.

    Args:
        packing: makes a request of each message of one that was refused.
        refused: is given the messages that are refused for good.

    Raises:
        PermanentError: a file of `tls` can't be read.
    """
    gate = Gate()
    try:
        context = (options.tls or TLSOptions()).context()
    except OSError as error:
        raise PermanentError(str(error)) from None
    keys = [read_secret(secret.get_secret_value()) for secret in options.sign_with or ()]
    blanking = Blanking(options)
    most = options.batch_timeout
    last = time.monotonic() + most.total_seconds() if most is not None else float("inf")

    def make_lane() -> Lane:
        return Lane(
            options,
            Client(options, context),
            gate,
            keys,
            blanking.shown,
            lambda message, why: refused.add(message.identity, message.payload, why),
            packing.pack,
            last,
        )

    return Deliverer(make_lane, options.requests, gate.stopped.set)


def send(
    batches: Iterable[pa.RecordBatch], options: WebhookSinkOptions
) -> Iterator[pa.RecordBatch]:
    """Send the rows of a task and yield those that were refused for good.

    Raises:
        PermanentError: a request was not taken, or a file of `tls` can't be read.
    """
    refused, packing = Refused(), Packing(options)
    deliverer = make_deliverer(options, packing, refused)
    try:
        for batch in batches:
            for parcel in packing.parcels(batch, refused):
                deliverer.send(parcel)
            yield from refused.take()
        deliverer.flush()
        failpoint("webhook.before-done")
        yield from refused.take()
    finally:
        deliverer.close()
