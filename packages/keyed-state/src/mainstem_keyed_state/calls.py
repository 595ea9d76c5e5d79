"""The entries of a bucket in Spark's state store, asked for and sent many at a time.

PySpark's own `MapState` waits for the answer to each call, a round trip by the socket for each page. Here
requests go out together and their answers are read after. Everything of PySpark's that is not its public
API is used in this module alone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle

    from mainstem_keyed_state.entries import Entry, Name

#: Requests that are out at once. Answers to so many updates, and so many requests for entries, fit into a
#: socket's buffers, so that neither end waits for the other to read first.
_OUT = 128
#: The version of PySpark's protocol.
_PROTOCOL = 0


def state_of(handle: StatefulProcessorHandle, name: str) -> MapState:
    """Return the state variable of that name; call it in `init`."""
    from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

    key = StructType().add("table", StringType()).add("page", IntegerType())
    value = StructType().add("layout", IntegerType()).add("data", BinaryType())
    return handle.getMapState(name, key, value)


class SparkStore:
    """The entries of the group that Spark is at."""

    def __init__(self, state: MapState) -> None:
        self._client: Any = state._mapStateClient
        self._api: Any = self._client._stateful_processor_api_client
        self._name = state._stateName

    def get(self, names: Sequence[Name]) -> list[Entry | None]:
        from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

        asked = (messages.MapStateCall(stateName=self._name, getValue=messages.GetValue(userKey=k))
                 for k in map(self._key, names))  # fmt: skip
        return [self._entry(value) for value in self._answers(asked)]

    def put(self, entries: Mapping[Name, Entry]) -> None:
        from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

        schema = self._client.value_schema
        updates = (
            messages.UpdateValue(
                userKey=self._key(n), value=self._api._serialize_to_bytes(schema, e)
            )
            for n, e in entries.items()
        )
        calls = (messages.MapStateCall(stateName=self._name, updateValue=u) for u in updates)
        for _ in self._answers(calls):
            pass

    def remove(self, names: Sequence[Name]) -> None:
        from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

        keys = (messages.RemoveKey(userKey=self._key(name)) for name in names)
        calls = (messages.MapStateCall(stateName=self._name, removeKey=key) for key in keys)
        for _ in self._answers(calls):
            pass

    def _key(self, name: Name) -> bytes:
        return self._api._serialize_to_bytes(self._client.user_key_schema, name)  # type: ignore[no-any-return]

    def _entry(self, value: bytes) -> Entry | None:
        if not value:
            return None
        layout, data = self._api._deserialize_from_bytes(value)
        return layout, bytes(data)

    def _answers(self, calls: Iterable[Any]) -> Iterable[bytes]:
        """Send calls, many at a time, and yield what each is answered.

        Raises:
            RuntimeError: Spark refuses one.
        """
        from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

        file = self._api.sockfile
        waiting = iter(calls)
        while some := list(islice(waiting, _OUT)):
            for call in some:
                asked = messages.StateVariableRequest(mapStateCall=call)
                data = messages.StateRequest(stateVariableRequest=asked).SerializeToString()
                file.write(struct.pack(">ii", _PROTOCOL, len(data)) + data)
            file.flush()
            answers = [self._api._receive_proto_message() for _ in some]
            for status, message, value in answers:
                if status != 0:
                    raise RuntimeError(f"state {self._name}: Spark answers {message}")
                yield value
