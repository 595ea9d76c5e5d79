"""The sink `kafka` passes the standard tests, by each delivery strategy."""

from __future__ import annotations

import hashlib
from typing import ClassVar

import pytest
from kafka_topics import JARS
from ksink_reading import make_topic, read_topic
from mainstem_testkit import SinkSuite


class KafkaSuite(SinkSuite):
    """Writes to a topic of each test's own, and reads what is committed with Debian's kcat.

    The topic takes no message above 20,000 bytes.
    """

    use = "kafka"
    server_fixture = "kafka"
    columns = "key BINARY, value BINARY, headers MAP<STRING, BINARY>"
    refused = {"key": b"large", "value": b"x" * 30_000}
    wrong_options = {
        "servers": {"servers": "no port"},
        "topic": {"topic": "a b"},
        "topics": {"topic_from": "key", "topics": ["a b"]},
        "writers": {"writers": 65},
        "give_up": {"give_up": "0 seconds"},
        "transaction_timeout": {"transaction_timeout": "0 seconds"},
        "create": {"create": {"partitions": 0}},
        "ledger": {"ledger": "a b"},
    }
    partitions: ClassVar[int] = 3
    more: ClassVar[dict] = {}

    # What Spark and the core make of any sink's writes is shown of `files` and `sql` in every run.
    slow_tests = frozenset(
        {
            "test_a_batch_written_again_is_evaluated_again",
            "test_a_batch_written_again_is_there_as_after_once",
            "test_an_empty_batch_changes_nothing",
            "test_batches_stand_beside_each_other",
            "test_the_rows_of_many_tasks_are_there_once",
            "test_two_sinks_of_one_query_stand_beside_each_other",
        }
    )

    @property
    def name(self):
        return "t" + hashlib.sha256(str(self.place).encode()).hexdigest()[:16]

    def prepare(self):
        make_topic(self.server, self.name, self.partitions, {"max.message.bytes": "20000"})

    def options(self):
        return {
            "servers": self.server.url,
            "jars": JARS,
            "topic": self.name,
            "give_up": "5 seconds",
            "answer_timeout": "5 seconds",
            "ledger": f"{self.name}-ledger",  # the suite's tests all have one checkpoint
            **self.more,
        }

    def rows(self, schema):
        found = read_topic(self.server, self.name)
        return [{"key": m.key, "value": m.value, "headers": m.own_headers or None} for m in found]


class TestTransactional(KafkaSuite):
    deliver = "transactional"


class TestMicrobatch(KafkaSuite):
    deliver = "microbatch"
    # It may double at a kill. And what does not depend on the strategy is shown by `TestTransactional`.
    slow_tests = frozenset(
        {
            "test_a_batch_written_again_is_evaluated_again",
            "test_a_batch_written_again_is_there_as_after_once",
            "test_a_far_side_that_is_down_fails_the_batch_until_it_is_back",
            "test_a_far_side_that_stands_still_for_a_while_is_waited_for",
            "test_a_kill_at_each_crash_point_does_no_harm",
            "test_a_run_that_was_replaced_leaves_the_staged_rows_of_the_next",
            "test_a_run_that_was_replaced_writes_nothing_more",
            "test_an_empty_batch_changes_nothing",
            "test_an_old_copy_of_a_checkpoint_is_refused",
            "test_batches_stand_beside_each_other",
            "test_the_ledger_says_what_is_in",
            "test_the_rows_of_many_tasks_are_there_once",
            "test_two_sinks_of_one_query_stand_beside_each_other",
            "test_what_a_batch_refused_is_told_again",
        }
    )


@pytest.mark.slow
class TestTransactionalByFive(KafkaSuite):
    """More writers than partitions."""

    deliver = "transactional"
    more = {"writers": 5, "compression": "zstd"}


@pytest.mark.slow
class TestTransactionalByOne(KafkaSuite):
    deliver = "transactional"
    more = {"writers": 1, "compression": "lz4"}
    partitions = 1
