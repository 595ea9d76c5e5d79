"""The standard tests of senders: sinks whose tasks send messages by `mainstem_egress`.

The suite thinks in numbers: a message is made of each, and `received` tells which have arrived.
None of its tests needs Spark; a few of `SinkSuite` show the rest of such a sink. What a sender must do
is said in `mainstem_egress.Sender`.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from mainstem import PermanentError, Sink
from mainstem.columns import arrow_type
from mainstem.contracts.secrets import secrets_in
from mainstem.contracts.shapes import MESSAGE_COLUMNS
from mainstem.crashpoints import ARMED, TRACE
from mainstem.sinks import Refused

from mainstem_testkit.conformance.suite import Suite, not_given, proves
from mainstem_testkit.pipelines import wait_for
from mainstem_testkit.processes import Resources
from mainstem_testkit.proxy import FaultProxy
from mainstem_testkit.server import Server

#: How many keys the messages have, one after the other.
_KEYS = 3
_SCHEMA = pa.schema(
    [
        *((column.name, arrow_type(column.type or "")) for column in MESSAGE_COLUMNS),
        ("_id", pa.binary()),
    ]
)
#: How long a sender may take to be through, in seconds.
_PATIENCE = 60.0


class SenderSuite(Suite):
    """The standard tests of a sender; needs `mainstem-egress`.

    ```python
    class TestJobs(SenderSuite):
        use = "jobs"
        server_fixture = "job_server"

        def prepare(self):
            self.queue = f"jobs-{uuid.uuid4()}"

        def options(self):
            return {"port": self.port, "queue": self.queue}

        def received(self):
            return [int(text) for text in everything(self.server, self.queue)]
    ```
    """

    kind: ClassVar[str] = "sink"
    #: A row that the external system refuses for good, as changes to that of a number.
    refused: ClassVar[Mapping[str, Any] | None] = None
    #: Whether it ends the connection over such a row: what was in flight is then sent once more.
    refusing_disconnects: ClassVar[bool] = False
    #: Texts, beside the component's secret options, that no error may show.
    secrets: ClassVar[Sequence[str]] = ()
    _proxy: FaultProxy | None = None

    def received(self) -> Sequence[int]:
        """Return the numbers of the messages that the external system has, in its order, copies too."""
        raise NotImplementedError

    def permanent(self) -> Mapping[str, Mapping[str, Any]]:
        """Return changed options that no retry mends, by what is wrong: a password, a missing queue."""
        return {}

    def row(self, number: int) -> dict[str, Any]:
        """Return the columns of a number's message, by name; `value` is the number as text."""
        return {
            "key": b"key %d" % (number % _KEYS),
            "value": b"%d" % number,
            "headers": [("number", b"%d" % number)],
            "timestamp": datetime(2026, 1, 1, tzinfo=UTC),
            "origin": "numbers",
            "partition": "0",
            "position": f"{number:012}",
            "_id": number.to_bytes(16, "big"),
        }

    @property
    def port(self) -> int:
        """Where the sender is to connect: to the server, or to what breaks its connections."""
        if self._proxy is not None:
            return self._proxy.port
        return self._server().port

    def parts(self, **changes: Any) -> dict[str, Any]:
        source = {"use": "files", "with": {"path": "./in", "format": "message"}}
        sink = {"use": self.use, "from": "lines", "with": {**self.options(), **changes}}
        return {"sources": {"lines": source}, "sinks": {"subject": sink}}

    @pytest.fixture(autouse=True)
    def _in_its_place(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:  # no Java
        assert self.use, f"{type(self).__name__} does not say which word is tested: `use`"
        self._turn = request.getfixturevalue("turn")
        if self.server_fixture:
            self.server = request.getfixturevalue(self.server_fixture)
        self._move(tmp_path / "place")

    # -- accepted ---------------------------------------------------------------------------

    @proves("accepted")
    def test_each_message_arrives_once_and_in_its_order(self) -> None:
        """1,000 messages, few in flight at a time: each once, those of a key in their order."""
        assert not self.send(range(1000), in_flight=50)
        self.check(range(1000), once=True)

    @proves("accepted")
    def test_messages_of_any_size_arrive(self) -> None:
        """Empty, and larger than what is in flight may be."""
        large = {7: b"7".rjust(100_000, b" "), 11: b"11".rjust(300_000, b" ")}
        rows = [{**self.row(n), "value": large.get(n, b"%d" % n)} for n in range(20)]
        assert not self.send_rows(rows, in_flight_bytes=150_000)
        self.check(range(20), once=True)

    @proves("accepted")
    def test_several_senders_at_a_time(self) -> None:
        """Four tasks at once, each with a sender of its own: nothing is lost or doubled."""
        errors: list[BaseException] = []
        sink = self.sink()

        def task(numbers: range) -> None:
            try:
                send_by(sink, map(self.row, numbers))
            except BaseException as error:
                errors.append(error)

        threads = [
            threading.Thread(target=task, args=(range(n * 100, n * 100 + 100),)) for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_PATIENCE)
        assert not errors, errors
        self.check(range(400), once=True, ordered=False)

    # -- refused ----------------------------------------------------------------------------

    @proves("refused")
    def test_what_is_refused_comes_back_with_a_reason(self) -> None:
        """One row among others is refused: it has a reason and its value, and the others arrive."""
        if self.refused is None:
            not_given("refused")
        rows = [self.row(number) for number in range(20)]
        rows[5] = {**rows[5], **self.refused}
        found = self.send_rows(rows)
        assert [row["_id"] for row in found] == [rows[5]["_id"]], f"refused: {found}"
        assert found[0]["reason"], "there is no reason"
        assert found[0]["payload"] == rows[5]["value"], "the payload is not the row's value"
        self.check([n for n in range(20) if n != 5], once=not self.refusing_disconnects)

    @proves("refused")
    def test_what_no_retry_mends_fails_at_once(self) -> None:
        """Options that are wrong for good: a permanent error, with no secret in its words."""
        cases = self.permanent()
        if not cases:
            not_given("permanent")
        for what, changes in cases.items():
            with pytest.raises(PermanentError) as told:
                self.send(range(3), **changes)
            assert "give_up" not in str(told.value), f"{what}: it was retried again and again"
            self._no_secret(str(told.value), changes)

    # -- connections ------------------------------------------------------------------------

    @proves("connections")
    def test_a_connection_that_is_cut_loses_nothing(self) -> None:
        """Cut three times in the middle: all arrive, the last of each key last."""
        self._through(lambda proxy, number: proxy.cut() if number in (100, 200, 290) else None)

    @proves("connections")
    def test_an_answer_that_is_lost_loses_nothing(self) -> None:
        """The connection ends in place of an answer: what it was of may be there twice, never less."""
        self._through(
            lambda proxy, number: proxy.drop_answer() if number in (50, 150, 250) else None
        )

    def _through(self, breaks: Callable[[FaultProxy, int], None]) -> None:
        server = self._server()
        with FaultProxy(server.port, server.through) as proxy:
            self._proxy = proxy
            try:
                rows = self._breaking(proxy, breaks)
                assert not self.send_rows(rows, in_flight=20, answer_timeout="2 seconds")
            finally:
                self._proxy = None
        self.check(range(300), once=False)
        assert proxy.connections > 1, "no connection was broken"

    def _breaking(
        self, proxy: FaultProxy, breaks: Callable[[FaultProxy, int], None]
    ) -> Iterable[dict[str, Any]]:
        for number in range(300):
            breaks(proxy, number)
            yield self.row(number)

    @proves("connections")
    def test_a_server_that_stands_still_is_waited_for(self) -> None:
        """The server answers nothing for a second and a half; nothing is lost."""
        server = self._server()
        self.send(range(10))
        server.pause()
        later = threading.Timer(1.5, server.resume)
        later.start()
        try:
            assert not self.send(range(10, 30))
        finally:
            later.join()
        self.check(range(30), once=False)

    @proves("connections", dear=True)
    def test_a_server_that_is_gone_is_waited_for_until_it_is_given_up(self) -> None:
        """While it is down a batch fails after `give_up`, with the reason; with it back, all arrive."""
        server = self._server()
        self.send(range(10))
        server.stop()
        try:
            with pytest.raises(PermanentError, match="give_up") as told:
                self.send(range(10, 20), give_up="1 second")
            self._no_secret(str(told.value))
            later = threading.Timer(1.0, server.start)
            later.start()
            assert not self.send(range(10, 20))
        finally:
            later.join()
        # Of one that keeps nothing a reader, who lost the server too, may have missed some.
        there = set(self.received()) if self.sink().capabilities.lossy else set(range(20))
        self.check(sorted(there), once=False)

    # -- crashes ----------------------------------------------------------------------------

    @proves("crashes", dear=True)
    def test_a_kill_at_each_crash_point_loses_nothing(self) -> None:
        """Killed at each point that it passes, and the batch sent again: all of it is there."""
        trace = self.place / "points"
        self._process(range(10), **{TRACE: str(trace)})
        points = list(dict.fromkeys(trace.read_text().split()))
        assert points, "it passes no crash point"
        for number, point in enumerate(points, 1):
            numbers = range(10 * number, 10 * number + 10)
            self._process(numbers, killed=point, **{ARMED: point})
            self._process(numbers)
            missing = set(numbers) - set(self.received())
            assert not missing, f"killed at {point}: lost: {sorted(missing)}"

    def _process(self, numbers: range, killed: str = "", **env: str) -> None:
        """Send messages in a process of its own."""
        argv = [sys.executable, "-m", "mainstem_testkit.conformance.sender_process"]
        file = str(self.pipeline().file)
        rows = self.place / "rows.arrow"
        with pa.OSFile(str(rows), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
            writer.write(batch_of(map(self.row, numbers)))
        ended = subprocess.run(
            [*argv, file, str(rows)], env={**os.environ, **env}, capture_output=True, text=True,
            timeout=_PATIENCE, check=False,
        )  # fmt: skip
        wanted = -9 if killed else 0
        assert ended.returncode == wanted, f"{killed}: {ended.returncode}: {ended.stderr}"

    # -- resources --------------------------------------------------------------------------

    @proves("resources")
    def test_nothing_is_left_behind(self) -> None:
        """After tasks have ended there are no more threads, files, sockets or processes than before."""
        self.send(range(10))
        gc.collect()
        before = Resources.now()
        for number in range(1, 6):
            self.send(range(number * 10, number * 10 + 10))

        def grown() -> list[str]:
            gc.collect()
            return Resources.now().grown(before, by=1)

        try:
            wait_for(lambda: not grown(), 10)
        except AssertionError:
            raise AssertionError(f"five tasks left: {', '.join(grown())}") from None

    # -- for the tests ----------------------------------------------------------------------

    def send(self, numbers: Iterable[int], **changes: Any) -> list[dict[str, Any]]:
        """Send messages as a task does; return the rows that were refused."""
        return self.send_rows(map(self.row, numbers), **changes)

    def send_rows(self, rows: Iterable[Mapping[str, Any]], **changes: Any) -> list[dict[str, Any]]:
        """Send rows as a task does; return those that were refused. `changes` are to the options."""
        return send_by(self.sink(**changes), rows)

    def check(self, numbers: Iterable[int], *, once: bool, ordered: bool = True) -> None:
        """Compare what was received with what was sent.

        Args:
            once: whether a number that is there twice is wrong.
            ordered: whether the messages of a key keep their order: of the last copy of each.

        Raises:
            AssertionError: numbers were lost or doubled, or were never sent, or in no order.
        """
        wanted, found = list(numbers), list(self.received())
        strange = sorted(set(found) - set(wanted))
        assert not strange, f"never sent: {strange[:10]}"
        lost = sorted(set(wanted) - set(found))
        assert not lost, f"lost: {lost[:10]}"
        twice = sorted(number for number, count in Counter(found).items() if count > 1)
        assert not once or not twice, f"doubled: {twice[:10]}"
        for key in range(_KEYS if ordered else 0):
            mine = [number for number in found if number % _KEYS == key]
            lasts = list(dict.fromkeys(reversed(mine)))
            in_order = lasts == sorted(lasts, reverse=True)
            assert in_order, f"those of key {key} are not in their order: {mine}"

    def sink(self, **changes: Any) -> Any:
        """Return the sink, with changed options, as a document makes it."""
        from mainstem_egress import EgressSink

        found = self.plan(**changes).nodes["subject"].component
        assert isinstance(found, Sink)
        assert isinstance(found, EgressSink), f"{self.use} is no EgressSink"
        return found

    def _server(self) -> Server:
        if self.server is None:
            not_given("server")
        return self.server

    def _no_secret(self, text: str, changes: Mapping[str, Any] | None = None) -> None:
        for secret in [*self.secrets, *secrets_in(self.sink(**(changes or {})).options)]:
            assert secret not in text, "the words of an error hold a secret"


def send_by(sink: Any, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Send rows as a task does, in a batch of Arrow's for each; return those that were refused."""
    from mainstem_egress.sink import dispatcher_of

    refused = Refused()
    sender = sink.sender()(sink.options, "the standard tests")
    made = dispatcher_of(
        sender, sink.options, lambda m, why: refused.add(m.identity, m.payload, why)
    )
    with closing(made) as dispatcher:
        for row in rows:
            for message in sender.messages(batch_of([row]), refused):
                dispatcher.send(message)
        dispatcher.flush()
    return [row for batch in refused.take() for row in batch.to_pylist()]


def batch_of(rows: Iterable[Mapping[str, Any]]) -> pa.RecordBatch:
    """Return rows of messages as a task is given them."""
    return pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=_SCHEMA)
