"""Many calls at once to Spark's server for state, over PySpark's own client and a stand-in for the server."""

from __future__ import annotations

import io
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from mainstem_keyed_state.calls import SparkStore, state_of
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
from pyspark.sql.types import IntegerType, StructType


class StateServer(threading.Thread):
    """Answers as Spark's server does: one request after another, a map state in a dict."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.entries: dict[bytes, bytes] = {}
        self.refused = b""
        self.asked = 0

    def run(self) -> None:
        connection, _ = self._listening.accept()
        with connection, connection.makefile("rb") as read, connection.makefile("wb", 0) as write:
            while header := read.read(8):
                version, size = struct.unpack(">ii", header)
                assert version == 0
                request = messages.StateRequest.FromString(read.read(size))
                self._answer(request, write)

    def _answer(self, request: Any, write: io.RawIOBase) -> None:
        answer = messages.StateResponse(statusCode=0)
        call = request.stateVariableRequest.mapStateCall
        kind = call.WhichOneof("method") if request.HasField("stateVariableRequest") else None
        self.asked += kind is not None
        if kind == "getValue":
            answer.value = self.entries.get(call.getValue.userKey, b"")
        elif kind == "updateValue":
            if call.updateValue.userKey == self.refused:
                answer.statusCode, answer.errorMessage = 1, "disk full"
            self.entries[call.updateValue.userKey] = call.updateValue.value
        elif kind == "removeKey":
            del self.entries[call.removeKey.userKey]
        data = answer.SerializeToString()
        write.write(struct.pack(">i", len(data)) + data)


@pytest.fixture
def server() -> Iterator[StateServer]:
    server = StateServer()
    server.start()
    yield server
    server.join(5)


@pytest.fixture
def store(server: StateServer) -> Iterator[SparkStore]:
    client = StatefulProcessorApiClient(server.port, StructType().add("bucket", IntegerType()))
    yield SparkStore(state_of(StatefulProcessorHandle(client), "pages_x"))
    client.sockfile.close()
    client._client_socket.close()


@pytest.mark.in_turn
def test_answers_belong_to_their_questions(store: SparkStore, server: StateServer) -> None:
    """Pass: of 1,000 entries put at once each comes back under its name, and those removed as None."""
    entries = {("t", n): (n % 3, bytes([n % 256]) * (n % 50)) for n in range(1000)}
    store.put(entries)
    assert len(server.entries) == 1000
    names = [*reversed(entries), ("other", 0)]
    assert store.get(names) == [*(entries[name] for name in reversed(entries)), None]
    store.remove([("t", n) for n in range(0, 1000, 2)])
    assert [e is None for e in store.get(list(entries))] == [n % 2 == 0 for n in range(1000)]
    assert store.get([]) == []


def test_large_entries_do_not_stall_both_ends(store: SparkStore, server: StateServer) -> None:
    """Pass: 40 MB in 160 entries go there and back, more than any socket's buffer takes."""
    entries = {("t", n): (0, bytes(250_000)) for n in range(160)}
    store.put(entries)
    assert store.get(list(entries)) == list(entries.values())


def test_what_spark_refuses_is_an_error(store: SparkStore, server: StateServer) -> None:
    """Pass: the error has what Spark says."""
    store.put({("t", 1): (0, b"")})
    server.refused = next(iter(server.entries))
    with pytest.raises(RuntimeError, match="pages_x: Spark answers disk full"):
        store.put({("t", 2): (0, b"x"), ("t", 1): (0, b"y")})
