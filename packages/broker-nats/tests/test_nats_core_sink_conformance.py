"""The sink `nats` passes the standard tests, before a reader who listens all the time."""

from __future__ import annotations

import hashlib

import pytest
from mainstem_testkit import SinkSuite
from nsink_streams import Listener


class TestCore(SinkSuite):
    """A message's key is the end of its subject, so one with a space in it is refused."""

    use = "nats"
    server_fixture = "nats"
    columns = "key BINARY, value BINARY, headers MAP<STRING, BINARY>"
    refused = {"key": b"two words", "value": b"refused"}
    wrong_options = {
        "window": {"window": 0},
        "partitions": {"partitions": 0},
        "subject": {"subject": "a..b"},
        "servers": {"servers": "http://host"},
    }

    #: A batch or a task that comes again is sent again, as one that is cut in the middle.
    slow_tests = frozenset(
        {
            "test_a_batch_written_again_is_evaluated_again",
            "test_a_batch_written_again_is_there_as_after_once",
            "test_a_far_side_that_stands_still_for_a_while_is_waited_for",
            "test_a_kill_at_each_crash_point_does_no_harm",
            "test_a_task_run_twice_does_no_harm",
            "test_an_empty_batch_changes_nothing",
            "test_batches_stand_beside_each_other",
            "test_the_rows_of_many_tasks_are_there_once",
            "test_two_sinks_of_one_query_stand_beside_each_other",
        }
    )

    @pytest.fixture(autouse=True)
    def _listeners_end(self):
        yield
        for listener in self.listeners.values():
            listener.close()

    @property
    def name(self):
        return "c" + hashlib.sha256(str(self.place).encode()).hexdigest()[:16]

    def prepare(self):
        made = Listener(self.server.url, f"{self.name}.>")
        self.listeners = {**getattr(self, "listeners", {}), self.name: made}

    def row(self, number):
        return {"key": b"k%d" % number, "value": b"%d" % number, "headers": {"n": b"%d" % number}}

    def options(self):
        return {
            "servers": self.server.url,
            "subject": f"{self.name}.{{key}}",
            "give_up": "5 seconds",
            "answer_timeout": "4 seconds",
        }

    def rows(self, schema):
        return [
            {
                "key": message.subject.partition(".")[2].encode(),
                "value": message.data,
                "headers": {k: v.encode() for k, v in (message.headers or {}).items()} or None,
            }
            for message in self.listeners[self.name].quiet()
        ]
