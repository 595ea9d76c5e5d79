"""The sink `jetstream` passes the standard tests, by each of its strategies."""

from __future__ import annotations

import hashlib

import pytest
from mainstem_testkit import SinkSuite
from nsink_streams import make, read


class JetStreamSuite(SinkSuite):
    """Writes to a stream of each test's own, and reads it without taking anything.

    A message's key is the end of its subject, so one with a space in it is refused.
    """

    use = "jetstream"
    server_fixture = "nats"
    columns = "key BINARY, value BINARY, headers MAP<STRING, BINARY>"
    refused = {"key": b"two words", "value": b"refused"}
    wrong_options = {
        "window": {"window": 0},
        "partitions": {"partitions": 0},
        "subject": {"subject": "orders.{key"},
        "servers": {"servers": "http://host"},
    }
    storage = "file"

    @property
    def name(self):
        return "s" + hashlib.sha256(str(self.place).encode()).hexdigest()[:16]

    def prepare(self):
        make(self.server.url, self.name, storage=self.storage)

    def row(self, number):
        return {"key": b"k%d" % number, "value": b"%d" % number, "headers": {"n": b"%d" % number}}

    def options(self):
        return {
            "servers": self.server.url,
            "stream": self.name,
            "subject": f"{self.name}.{{key}}",
            "give_up": "5 seconds",
            "answer_timeout": "4 seconds",
        }

    def rows(self, schema):
        found = []
        for message in read(self.server.url, self.name):
            own = {k: v.encode() for k, v in message.headers.items() if not k.startswith("Nats-")}
            key = message.subject.partition(".")[2].encode()
            found.append({"key": key, "value": message.data, "headers": own or None})
        return found


class TestIdempotent(JetStreamSuite):
    deliver = "idempotent"
    # What Spark and the core make of any sink's writes is shown of `files` and `sql` in every run.
    slow_tests = frozenset(
        {
            "test_a_batch_written_again_is_evaluated_again",
            "test_a_batch_written_again_is_there_as_after_once",
            "test_a_far_side_that_stands_still_for_a_while_is_waited_for",
            "test_an_empty_batch_changes_nothing",
            "test_batches_stand_beside_each_other",
            "test_the_rows_of_many_tasks_are_there_once",
            "test_two_sinks_of_one_query_stand_beside_each_other",
        }
    )


class TestMicrobatch(JetStreamSuite):
    deliver = "microbatch"
    #: What does not depend on the strategy; `TestIdempotent` has it unmarked.
    slow_tests = frozenset(
        {
            "test_a_batch_cut_in_the_middle_is_whole_after_its_retry",
            "test_a_batch_written_again_is_evaluated_again",
            "test_a_batch_written_again_is_there_as_after_once",
            "test_a_far_side_that_is_down_fails_the_batch_until_it_is_back",
            "test_a_far_side_that_stands_still_for_a_while_is_waited_for",
            "test_a_kill_at_each_crash_point_does_no_harm",
            "test_a_refused_type_ends_a_run_before_its_first_batch",
            "test_a_task_run_twice_does_no_harm",
            "test_an_empty_batch_changes_nothing",
            "test_batches_stand_beside_each_other",
            "test_each_wrong_option_is_refused_by_its_name",
            "test_refused_rows_come_back_with_a_reason",
            "test_the_rows_of_many_tasks_are_there_once",
            "test_two_sinks_of_one_query_stand_beside_each_other",
            "test_values_of_every_type_come_back_as_they_were_or_are_refused",
        }
    )


@pytest.mark.slow
class TestOrdered(JetStreamSuite):
    """One message of a subject at a time; brought into order, for which rows need their positions."""

    columns = (
        "key BINARY, value BINARY, headers MAP<STRING, BINARY>, origin STRING, partition STRING, "
        "position STRING"
    )

    def row(self, number):
        place = {"origin": "o", "partition": "p", "position": f"{number:06}"}
        return {**super().row(number), **place}

    def options(self):
        return {**super().options(), "order": "log", "partitions": 2}

    def rows(self, schema):
        return [{**row, **self._place(row)} for row in super().rows(schema)]

    @staticmethod
    def _place(row):
        return {"origin": "o", "partition": "p", "position": f"{int(row['value']):06}"}


@pytest.mark.slow
class TestMemory(JetStreamSuite):
    storage = "memory"
    expected_failures = {
        "test_a_far_side_that_is_down_fails_the_batch_until_it_is_back": (
            "a stream in memory is gone with its server"
        )
    }
