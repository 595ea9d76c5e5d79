"""`stream_table_join` passes the standard tests of operators."""

from __future__ import annotations

from hypothesis import strategies as st
from mainstem_testkit.conformance.operator import OperatorSuite

STREAM = "n BIGINT, k STRING, at TIMESTAMP"
TABLE = {
    "columns": "k STRING, since TIMESTAMP, price BIGINT, seq INT, gone BOOLEAN",
    "key": ["k"],
    "sequence": "seq",
    "delete": "gone",
}


def _examples(port):
    """Return rows of two keys, or none; most events are later than most changes."""
    keys = st.sampled_from(["a", "a", "b"] if port == "table" else ["a", "a", "b", None])
    minutes = st.sampled_from([0, 1, 20] if port == "table" else [1, 19, 40, 59])
    times = minutes.map(lambda minute: f"2024-05-01T00:{minute:02}:00Z")
    if port == "stream":
        return st.fixed_dictionaries({"n": st.integers(0, 9), "k": keys, "at": times})
    gone = st.sampled_from([False, False, None, True])
    columns = {
        "k": keys,
        "since": times,
        "price": st.integers(0, 9),
        "seq": st.none(),
        "gone": gone,
    }
    return st.fixed_dictionaries(columns)


class JoinSuite(OperatorSuite):
    """The standard tests over rows of which some match."""

    __test__ = False

    def examples(self, port):
        return _examples(port)


class TestComplete(JoinSuite):
    __test__ = True
    use = "stream_table_join"
    inputs = {"stream": STREAM, "table": TABLE}
    event_time = {"stream": "at", "table": "since"}

    def options(self):
        return {
            "on": ["k"],
            "version": {"sequence": "used", "since": "used_since"},
            "take": ["price"],
        }


class TestLeft(JoinSuite):
    __test__ = True
    use = "stream_table_join"
    inputs = TestComplete.inputs
    event_time = TestComplete.event_time

    def options(self):
        return {"on": ["k"], "join": "left", "take": {"cost": "price", "deleted": "gone"}}


class TestNearest(JoinSuite):
    __test__ = True
    use = "stream_table_join"
    inputs = TestComplete.inputs
    event_time = TestComplete.event_time

    def options(self):
        return {"on": ["k"], "within": "10 minutes", "direction": "nearest", "take": ["price"]}


class TestNow(JoinSuite):
    __test__ = True
    use = "stream_table_join"
    inputs = TestComplete.inputs
    event_time = TestComplete.event_time

    def options(self):
        return {"on": ["k"], "when": "now", "wait": "1 minute", "take": ["price"]}


class TestLatest(JoinSuite):
    __test__ = True
    use = "stream_table_join"
    inputs = TestComplete.inputs

    def options(self):
        return {"on": ["k"], "as_of": "latest", "take": ["price"]}
