"""Source `mongodb`: collections and their changes, through the ingress log."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem import Level, Shown, SourceCapabilities
from mainstem_cdc import CaptureSource, FoundTable
from mainstem_ingress import Receiver

from mainstem_cdc_mongodb.options import MongoDBSourceOptions


class MongoDBSource(CaptureSource):
    """Gives the documents of collections and then every change, in the order of a change stream.

    A change's sequence is the time of its write, and its number among those of that time. It is text of a
    fixed width, so that bytes compare as times do.
    """

    options: MongoDBSourceOptions

    capabilities = SourceCapabilities(
        ordered=True,
        assumptions=(
            "the server keeps its log (oplog) until it was read",
            "the server does what its documentation says: shown on an emulation of it alone",
            "the disk keeps what it says it has written",
        ),
        shown=Shown(Level.EXACTLY_ONCE, "packages/cdc-mongodb/tests/test_mongodb_conformance.py"),
    )

    def receiver(self) -> type[Receiver]:
        from mainstem_cdc_mongodb.receiver import MongoDBReceiver

        return MongoDBReceiver

    def found(self) -> Sequence[FoundTable]:
        from mainstem_cdc_mongodb.tables import found_collections

        return found_collections(self.options)
