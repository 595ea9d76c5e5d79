"""Packs messages into records, which wait in their lanes."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from mainstem_broker_kinesis.sink.lanes import Lanes
from mainstem_broker_kinesis.sink.records import Message, Record

#: Packing ends here, as that of AWS's producer library does: larger records are cheaper by nothing, and
#: are more to send again.
PACKED = 51_200


class Records:
    """Makes records of a task's messages.

    Args:
        pack: whether a record holds more than one message.
        ordered: whether records of one key keep their order; packed ones do in any case.
        largest: the largest record that the stream takes, in bytes.
        refuse: called with a message that no record can hold, and why.
        lanes: where records wait to be sent.
    """

    def __init__(
        self,
        *,
        pack: bool,
        ordered: bool,
        largest: int,
        refuse: Callable[[Message, str], None],
        lanes: Lanes,
    ) -> None:
        self._pack = pack
        self._ordered = ordered or pack
        self._largest = largest
        self._refuse = refuse
        self._lanes = lanes
        #: The record that messages without a key are being added to.
        self._keyless: Record | None = None

    def take(self, message: Message) -> None:
        """Let a message wait to be sent, in a record of its own or one that has room; or refuse it."""
        open_ = self._open(message)
        if open_ is not None and open_.size + len(message.data) <= min(PACKED, self._largest):
            open_.add(message)
            self._lanes.grew(len(message.data))
            return
        key = message.key
        if key is None:
            key = message.identity.hex() if message.identity is not None else uuid.uuid4().hex
        record = Record(key, message.hash_key, (key, message.hash_key), self._pack)
        if not self._ordered:
            record.lane = record
        record.add(message)
        if record.size > self._largest:
            self._refuse(
                message,
                f"it would be a record of {record.size:,} bytes with its partition key, and the stream "
                f"takes {self._largest:,}",
            )
            return
        if message.key is None and message.hash_key is None:
            self._keyless = record
        self._lanes.add(record)

    def _open(self, message: Message) -> Record | None:
        """Return the record that a message can be added to if it has room."""
        if not self._pack:
            return None
        if message.key is None and message.hash_key is None:
            open_ = self._keyless
            return open_ if open_ is not None and not open_.sent else None
        return self._lanes.last((message.key, message.hash_key))
