"""What stands in the log for messages that did not come."""

from __future__ import annotations

from mainstem import LOST
from mainstem.losses import lost_shape
from mainstem_ingress import Message, loss_of, lost


def test_a_loss_is_no_message_and_no_refused_one():
    """Pass: what was said of it comes back; of a message, or a refused one, nothing does."""
    found = lost("too slow", origin="a", count=3, first="1", last="3", extra=("p",))
    assert loss_of(found) == {"from": "1", "to": "3", "count": 3, "reason": "too slow"}
    assert (found.value, found.origin, found.extra) == (None, "a", ("p",))
    assert loss_of(lost("nobody knows")) == {
        "from": None,
        "to": None,
        "count": None,
        "reason": "nobody knows",
    }
    assert loss_of(Message(b"x", headers=[("lost", b"{}")])) is None
    assert loss_of(Message(b"x", refused="too large")) is None


def test_the_columns_of_lost_are_those_of_the_core_and_more():
    """Pass: in their order, so that a sink of several `lost` outputs takes what they share."""
    found = lost_shape("origin STRING, at TIMESTAMP").columns
    assert found[: len(LOST.columns)] == LOST.columns
    assert [column.name for column in found[len(LOST.columns) :]] == ["origin", "at"]
