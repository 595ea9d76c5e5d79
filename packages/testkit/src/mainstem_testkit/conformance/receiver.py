"""The standard tests of receivers: sources whose messages come through the ingress log.

The suite thinks in numbers, as that of sources does: `put` makes a message of each, and `number` finds
it in a message. None of its tests needs Spark; `SourceSuite` shows the rest of such a source. What a
receiver must do is said in `mainstem_ingress.Receiver`, and nothing else is asked here.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mainstem_testkit.conformance._receiver import (
    stored,
)
from mainstem_testkit.conformance.receiver_process import ReceiverProcessSuite
from mainstem_testkit.conformance.receiving import SETTLING
from mainstem_testkit.conformance.suite import not_claimed, not_given, proves
from mainstem_testkit.pipelines import wait_for
from mainstem_testkit.processes import Resources

if TYPE_CHECKING:
    from mainstem_ingress import Message, Receiver

    from mainstem_testkit.conformance._receiver import Taker
    from mainstem_testkit.server import Server

_ROUNDS = 6
_ALL = range(10)


def taken(receiver: Receiver, count: int, seconds: float = 8.0) -> list[Message]:
    """Take until there are so many messages, or no longer; and what more has come by then."""
    found: list[Message] = []
    until = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < until:
        found += receiver.take(0.05)
    return found + list(receiver.take(0.1))


class ReceiverSuite(ReceiverProcessSuite):
    """The standard tests of a receiver; needs `mainstem-ingress`.

    ```python
    class TestJobs(ReceiverSuite):
        use = "jobs"
        server_fixture = "job_server"

        def prepare(self):
            self.queue = f"jobs-{uuid.uuid4()}"

        def options(self):
            return {"url": self.server.url, "queue": self.queue}

        def put(self, numbers):
            push(self.server, self.queue, [str(n) for n in numbers])

        def left(self):
            return length(self.server, self.queue)
    ```
    """

    # -- acknowledging --------------------------------------------------------------------------

    @proves("acknowledging", waits=True)
    def test_what_was_not_acknowledged_comes_again(self) -> None:
        """Taken and not acknowledged: all of it comes over the next connection, and to another."""
        self._not_lossy()
        self.put(_ALL)
        with self.taker() as taker:
            taker.connect()
            self.check(taker.take_some(len(_ALL)), _ALL)
            taker.close()
            taker.connect()
            self.check(taker.take_some(len(_ALL)) + taker.take_rest(), _ALL)
        with self.taker() as another:
            another.connect()
            self.check(another.take_some(len(_ALL)) + another.take_rest(), _ALL)

    @proves("acknowledging", waits=True)
    def test_what_was_acknowledged_does_not_come_again(self) -> None:
        """Acknowledged, in several calls: only what was put later comes, also to another."""
        self.put(_ALL)
        with self.taker() as taker:
            taker.connect()
            taken = taker.take_some(len(_ALL))
            for part in (taken[:3], taken[3:4], taken[4:]):
                taker.acknowledge(part)
            taker.close()
            taker.connect(taken[-1].cursor)
            self.check(taker.take_rest(), [])
        self.nothing_left()
        with self.taker() as another:
            another.connect(taken[-1].cursor)
            self.put([10, 11])
            self.check(another.take_some(2) + another.take_rest(), [10, 11])

    @proves("acknowledging", waits=True)
    def test_acknowledging_the_first_leaves_the_rest(self) -> None:
        """Of 10 messages 4 are acknowledged: the other 6 come again, and none of the 4."""
        self._not_lossy()
        if self.output:
            not_claimed("a place for each message")
        self.put(_ALL)
        with self.taker() as taker:
            taker.connect()
            taken = taker.take_some(len(_ALL))
            taker.acknowledge(taken[:4])
            taker.close()
            taker.connect(taken[3].cursor)
            rest = sorted(map(self.number, taken[4:]))  # in the order in which they came
            self.check(taker.take_some(6) + taker.take_rest(), rest)

    @proves("cursor")
    def test_it_goes_on_after_the_cursor(self) -> None:
        """Given a cursor, what comes is exactly what is behind it, whatever was acknowledged."""
        self.put(_ALL)
        with self.taker() as taker:
            taker.connect()
            taken = taker.take_some(len(_ALL))
        cursors = [message.cursor for message in taken]
        if self.output or not any(cursors):
            not_claimed("cursor")
        assert all(cursors), "some messages have a cursor, and some have none"
        for at in (0, 3, 8, 9):
            with self.taker() as another:
                another.connect(cursors[at])
                rest = range(at + 1, 10)
                self.check(another.take_some(len(rest)) + another.take_rest(), rest)

    # -- taking ---------------------------------------------------------------------------------

    @proves("taking")
    def test_taking_waits_for_messages_and_not_for_ever(self) -> None:
        """`take(0)` returns at once; a wait costs next to nothing, and ends when a message comes."""
        with self.taker() as taker:
            taker.connect()
            for _ in range(50):
                assert taker.take(0) == []
            spent = taker.run(time.thread_time, "the clock")
            assert taker.take_rest(1.0) == []
            spent = taker.run(time.thread_time, "the clock") - spent
            assert spent < 0.5, f"waiting for a second took {spent:.1f} s of the processor"
            self.put([0])
            self.check(taker.take_some(1), [0])

    @proves("order")
    def test_messages_keep_their_order(self) -> None:
        """Messages come in the order in which they were put."""
        if not self.claims.ordered:
            not_claimed("ordered")
        with self.taker() as taker:
            taker.connect()
            for start in range(0, 300, 100):
                self.put(range(start, start + 50))
                self.put(range(start + 50, start + 100))
            taken = taker.take_some(300)
        numbers = list(map(self.number, taken))
        wrong = next((at for at, number in enumerate(numbers) if number != at), None)
        assert wrong is None, f"{numbers[wrong or 0]} came where {wrong} was due"

    @proves("pause", waits=True)
    def test_nothing_comes_while_it_is_paused(self) -> None:
        """Paused, what is put stays away, and what was taken can be acknowledged; resumed, it comes."""
        from mainstem_ingress import Receiver

        with self.taker() as taker:
            if type(taker.receiver).pause is Receiver.pause:
                not_claimed("pause")
            taker.connect()
            self.put(range(5))
            taken = taker.take_some(5)
            taker.pause()
            on_its_way = taker.take_rest()
            assert on_its_way == [], "5 were put and more came"
            self.put(range(5, 10))
            came = taker.take_rest()
            assert not came, f"{len(came)} messages came during a pause"
            taker.acknowledge(taken)
            taker.resume()
            if self.claims.lossy:
                self.put(range(10, 15))
                taker.take_some(1)
                return
            taken = taker.take_some(5)
            self.check(taken, range(5, 10))
            if taker.receiver.held():
                taker.acknowledge(taken)
            self.put(range(10, 15))
            self.check(taker.take_some(5), range(10, 15))

    @proves("pause", waits=True)
    def test_pauses_lose_nothing(self) -> None:
        """Pauses of any length, one right after the other, while messages come: each comes once."""
        from mainstem_ingress import Receiver

        self._not_lossy()
        with self.taker() as taker:
            if type(taker.receiver).pause is Receiver.pause:
                not_claimed("pause")
            taker.connect()
            taken: list[Any] = []
            for start in range(0, 40, 10):
                self.put(range(start, start + 10))
                group: list[Any] = []
                for _ in range(3):
                    taker.pause()
                    group += taker.take(0)
                    taker.resume()
                    group += taker.take(0.02)
                if group:
                    taker.acknowledge(group)
                taken += group
            taken += taker.take_some(40 - len(taken))
            self.check(taken + taker.take_rest(), range(40))

    @proves("readiness", waits=True)
    def test_a_bounded_run_begins_with_what_was_waiting(self) -> None:
        """When the process says that it is ready, all that was there before is stored."""
        self._not_lossy()
        self.put(range(1000))
        with self._process(segment_rows=10) as process:
            process.until(lambda: any(facts.get("ready") for facts in process.told()), "ready")
            self.check(stored(self._folder), range(1000))
            assert process.stop() == 0, process.words()

    # -- connections ----------------------------------------------------------------------------

    @proves("closing")
    def test_closing_does_no_harm(self) -> None:
        """Twice, and after a `connect` that failed: it can be connected afterwards."""
        self.put([0])
        with self.taker() as taker:
            taker.connect()
            taker.close()
            taker.close()
            taker.connect()
            if self.claims.lossy:  # the first connection may have had it, and let it go
                self.put([0])
            self.check(taker.take_some(1)[:1], [0])
        for changes in self.permanent().values():
            with self.taker(**changes) as taker:
                self._fails(taker)
                taker.close()
                taker.close()

    @proves("resources", dear=True)
    def test_nothing_is_left_behind_after_closing(self) -> None:
        """Connections, good and failed ones, leave no process, thread, file or socket behind."""
        self.put([0])

        def once() -> None:
            with self.taker() as taker:
                taker.connect()
                taker.take_some(1)
                taker.close()
                taker.connect()
            for changes in self.permanent().values():
                with self.taker(**changes) as taker:
                    self._fails(taker)

        by = _ROUNDS // 2
        before = Resources.now()
        gc.collect()
        gc.disable()  # what is closed when garbage is collected was not closed by `close`
        try:
            once()
            before = Resources.now()
            for _ in range(_ROUNDS):
                once()
            wait_for(lambda: not Resources.now().grown(before, by=by), SETTLING)
        except AssertionError as error:
            grown = Resources.now().grown(before, by=by)
            told = f"left behind by {_ROUNDS} rounds: {', '.join(grown)}"
            raise (AssertionError(told) if grown else error) from None
        finally:
            gc.enable()

    @proves("errors")
    def test_what_no_retry_mends_is_told(self) -> None:
        """Wrong options end in `PermanentError` and end the process with 1; the words hold no secret."""
        from mainstem import PermanentError

        if not self.permanent():
            not_given("permanent")
        for what, changes in self.permanent().items():
            source = self.source(**changes)
            with self.taker(**changes) as taker:
                error = self._fails(taker)
            assert isinstance(error, PermanentError), f"{what}: {type(error).__name__}: {error}"
            self._no_secret(str(error), source)
        with self._process(**changes) as process:
            assert process.wait() == 1, process.words()
            last = process.told()[-1]
            assert last["state"] == "failed", last
            self._no_secret(process.words(), source)

    @proves("server", dear=True)
    def test_a_server_that_is_gone_is_told_and_comes_back(self) -> None:
        """While it is stopped, calls raise what is not `PermanentError`; then all comes, none lost."""
        from mainstem import PermanentError

        with self._five_taken() as (server, taker, taken):
            taker.acknowledge(taken[:2])
            taker.take(0.2)
            server.stop()
            try:
                told = [self._breaks(taker)]
                taker.close()
                for _ in range(2):
                    told.append(self._breaks(taker, connect=True))
                    taker.close()
            finally:
                server.start()
            for error in told:
                assert not isinstance(error, PermanentError), f"told as permanent: {error}"
                self._no_secret(str(error), self.component)
            taker.reconnect(taken[1].cursor)
            self.put(range(5, 10))
            came = taker.take_some(5 if self.claims.lossy else 8) + taker.take_rest()
            if not self.claims.lossy:
                # Acknowledgements may have been lost with the server.
                again = {self.number(message) for message in came}
                rest = {self.number(message) for message in taken[2:]} | set(range(5, 10))
                lost = rest - again
                assert not lost, f"lost: {sorted(lost)}"
                once = again == rest
                assert self.claims.may_duplicate or self._known(came, taker) or once
            taker.acknowledge(came)
            taker.take(0.2)
            taker.close()
            taker.connect(came[-1].cursor)
            self.check(taker.take_rest(), [])

    @proves("server", dear=True)
    def test_a_server_that_stands_still_hangs_nobody(self) -> None:
        """Calls return or raise while the server stands still; afterwards nothing is lost."""
        with self._five_taken() as (server, taker, taken):
            server.pause()
            broken = False
            try:
                taker.acknowledge(taken[:2])
                for _ in range(20):
                    taker.take(0.1)
            except AssertionError:
                raise
            except Exception:
                broken = True
            finally:
                server.resume()
            if broken:
                taker.close()
                taker.reconnect(taken[1].cursor)
            elif taker.receiver.held():
                taker.acknowledge(taken[2:])
            self.put(range(5, 8))
            # What was not acknowledged may come again first.
            taken += taker.take_rest() if broken else taker.take_some(3)
            self.check(taken, range(8), once=not broken)

    @contextmanager
    def _five_taken(self) -> Iterator[tuple[Server, Taker, list[Message]]]:
        server = self.server
        if server is None:
            not_given("server")
        self.put(range(5))
        with self.taker() as taker:
            taker.connect()
            yield server, taker, taker.take_some(5)
