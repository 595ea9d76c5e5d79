"""The standard tests of a receiver as a process of its own: killed, and stopped in good order."""

from __future__ import annotations

import os
import signal
import time

from mainstem_testkit.conformance._receiver import difference, stored
from mainstem_testkit.conformance.receiving import ReceivingSuite
from mainstem_testkit.conformance.suite import proves


class ReceiverProcessSuite(ReceivingSuite):
    """What is stored when its process ends."""

    @proves("crashes", dear=True)
    def test_one_message_and_a_kill(self) -> None:
        """1 message, idle, kill -9, restart: stored once, and nothing is left at the external system."""
        self._not_lossy()
        self.put([0])
        with self._process() as process:
            process.until(lambda: stored(self._folder), "stored")
            time.sleep(self.quiet)
            process.kill()
        self.nothing_left()
        with self._process() as process:
            process.until(lambda: any(facts.get("ready") for facts in process.told()), "ready")
            time.sleep(self.quiet)
            assert process.stop() == 0, process.words()
        self.check(stored(self._folder), [0])
        self.nothing_left()

    @proves("crashes", dear=True)
    def test_a_kill_at_each_crash_point_loses_nothing(self) -> None:
        """Killed at each point that it passes, one after the other: all is stored, as often as claimed.

        With `MAINSTEM_CRASH=all` at the first three passes of each.
        """
        self._not_lossy()
        trace = self.place / "points"
        self._store_more(0)
        # What is passed at a beginning alone is not passed again below.
        self._store_more(1, MAINSTEM_FAILPOINT_TRACE=str(trace))
        points = list(dict.fromkeys(trace.read_text().split()))
        passes = (1, 2, 3) if os.environ.get("MAINSTEM_CRASH") == "all" else (1,)
        kills = ["", "", *(f"{point}:{number}" for number in passes for point in points), ""]
        for number, kill in enumerate(kills[2:], 2):
            # With a trace it acts once, also in a process that the receiver has started and starts again.
            trace = self.place / f"kill-{number}"
            armed = {"MAINSTEM_FAILPOINT": kill, "MAINSTEM_FAILPOINT_TRACE": str(trace)}
            try:
                self._store_more(number, **(armed if kill else {}))
            except AssertionError as error:
                raise AssertionError(f"after a kill at {kills[number - 1]}: {error}") from None
            killed = trace.exists() and kill in trace.read_text().split()
            assert killed or not kill.endswith(":1"), f"it never came to {kill}"
        found = list(map(self.number, stored(self._folder)))
        wrong = []
        for number, kill in enumerate(kills):
            numbers = _numbers(number)
            came = [each for each in found if each in numbers]
            told = difference(sorted(set(came)) if self.claims.may_duplicate else came, numbers)
            if told:
                where = f"{kill} and later ones" if kill else "no point"
                wrong.append(f"put before kills at {where}: {told}")
        assert not wrong, "\n".join(wrong)
        assert len(kills) > 3, "it passes no crash point"
        self.nothing_left()

    def _store_more(self, number: int, **env: str) -> None:
        """Put 10 messages more and take them, perhaps with a crash point armed."""
        self.put(_numbers(number))
        wanted = set(range(_numbers(number).stop))
        with self._process(env=env, segment_rows=3) as process:
            try:
                process.until(
                    lambda: not process.running or wanted <= self._stored(), "stored", ending=True
                )
            except AssertionError as error:
                lost = difference(sorted(self._stored()), sorted(wanted))
                raise AssertionError(f"{lost}; {error}") from None
            # In good order it passes the last points, or is killed there.
            code = process.stop()
        assert code in (0, -signal.SIGKILL), f"it ended with {code}"

    @proves("stopping", dear=True)
    def test_a_stop_in_good_order_loses_and_doubles_nothing(self) -> None:
        """Stopped in the middle and started again: exit 0, and each message is stored once."""
        self._not_lossy()
        for start in (0, 100, 200):
            with self._process(segment_rows=7) as process:
                self.put(range(start, start + 50))
                process.until(self._has_more_than(start), "stored")
                self.put(range(start + 50, start + 100))
                assert process.stop() == 0, process.words()
        with self._process() as process:
            process.until(lambda: len(stored(self._folder)) >= 300, "all stored")
            time.sleep(self.quiet)
            assert process.stop() == 0, process.words()
        self.check(stored(self._folder), range(300))
        self.nothing_left()


def _numbers(number: int) -> range:
    return range(10 * number, 10 * number + 10)
