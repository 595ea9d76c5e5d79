"""Wrong options of the source `kafka` are told with their line before anything is started."""

from __future__ import annotations

import pytest
from mainstem import DocumentError
from mainstem.plan.build import make_plan
from mainstem_broker_kafka.source.options import KafkaSourceOptions
from mainstem_broker_kafka.source.source import KafkaSource

DOCUMENT = """\
pipeline: reading
sources:
  messages:
    use: kafka
    with:
      servers: kafka.test:9092
{lines}
sinks:
  out: {{use: console, from: messages}}
"""


@pytest.mark.parametrize(
    ("lines", "key", "expected"),
    [
        ("topics: [a b]", "topics", "no name of a topic"),
        ("topics: []", "topics", "at least one"),
        ("topics: a\npattern: a", "with", "one of `topics`, `pattern` and `assignment`"),
        ("group: g", "with", "one of `topics`, `pattern` and `assignment`"),
        ("pattern: '('", "pattern", "no regular expression"),
        ("assignment: {a: [-1]}", "assignment", "no number of a partition"),
        ("assignment: {a: []}", "assignment", "numbers of partitions"),
        ("topics: a\nstart: now", "start", "expected `earliest`"),
        ("topics: a\nstart: 1960-01-01", "start", "since 1970"),
        ("topics: a\nstart: {a: {0: -7}}", "start", "no offset"),
        ("topics: a\nstart: {b: {0: 7}}", "with", "`start` names what is not read: b"),
        ("assignment: {a: [0]}\nstart: {a: {1: 7}}", "with", "`start` names what is not read: a"),
        ("topics: a\nmax_rows: 0", "max_rows", "0"),
        ("topics: a\nmax_rows: 1\nmin_rows: 2", "with", "`min_rows` is more than `max_rows`"),
        ("topics: a\nmax_delay: 1 second", "with", "`max_delay` is how long `min_rows`"),
        ("topics: a\nmin_rows: 2\nmax_delay: 0 seconds", "max_delay", "more than 0"),
        ("topics: a\nisolation: none", "isolation", "read_committed"),
        ("topics: a\non_loss: ignore", "on_loss", "report"),
        ("topics: a\nkafka: {group.id: x}", "with", "write `group`"),
        ("topics: a\nkafka: {isolation.level: x}", "with", "write `isolation`"),
        ("topics: a\nkafka: {max.poll.records: [1]}", "kafka", "expected a string"),
        ("topics: a\nserver: b:1", "server", "Did you mean"),
    ],
)
def test_wrong_options_are_told_with_their_line(lines, key, expected, tmp_path):
    """Pass: the error has the line of the option, its key and what was expected."""
    file = tmp_path / "pipeline.yaml"
    given = "\n".join(f"      {line}" for line in lines.splitlines())
    file.write_text(DOCUMENT.format(lines=given))
    with pytest.raises(DocumentError) as failed:
        make_plan(file)
    problem = failed.value.problems[0]
    assert expected in f"{problem.message} {problem.hint}"
    assert key in problem.key.split(".")
    assert 4 <= problem.line <= 10


def plan(tmp_path, lines):
    file = tmp_path / "pipeline.yaml"
    file.write_text(DOCUMENT.format(lines=f"      {lines}"))
    return make_plan(file)


def test_a_date_and_offsets_are_read_as_they_are_written(tmp_path):
    """Pass: dates, times and offsets of YAML become what Spark is told, topics may be one text."""
    for text, expected in (
        ("2026-01-31", "2026-01-31T00:00:00+00:00"),
        ("2026-01-31T08:00:00+02:00", "2026-01-31T08:00:00+02:00"),
    ):
        node = plan(tmp_path, f"topics: a\n      start: {text}").nodes["messages"]
        assert node.component.options.start.isoformat() == expected
    node = plan(tmp_path, "topics: a\n      start: {a: {0: 5, 1: latest}}").nodes["messages"]
    assert node.component.options.start == {"a": {0: 5, 1: -1}}
    assert node.component.options.topics == ("a",)


def test_what_is_promised_follows_the_options():
    """Pass: reading is exact and in order; going on over a loss, cutting partitions among tasks and reading
    uncommitted are told."""

    def made(**more):
        options = {"servers": "a:1", "topics": ("t",), **more}
        return KafkaSource(KafkaSourceOptions.model_validate(options))

    plain = made().capabilities
    assert (plain.replayable, plain.ordered, plain.lossy, plain.may_duplicate) == (
        True,
        True,
        False,
        False,
    )
    goes_on = made(on_loss="report")
    assert goes_on.capabilities.lossy
    assert list(goes_on.outputs({})) == ["lost"]
    assert not made().outputs({})
    assert not made(min_partitions=4).capabilities.ordered
    assert any(
        "aborted" in text for text in made(isolation="read_uncommitted").capabilities.assumptions
    )
