"""Records that the stream has dropped before they were read: an error, or a row of `lost`."""

from __future__ import annotations

import time

from mainstem import PermanentError
from mainstem_ingress import Message, lost

from mainstem_broker_kinesis.source.options import KinesisSourceOptions
from mainstem_broker_kinesis.source.places import Place
from mainstem_broker_kinesis.source.records import position

#: In place of a sub-record's number: behind all of them, before the next record; plus the minute, for
#: more can be lost at one place at different times.
_AFTER, _MINUTES = 9_000_000, 1_000_000


def date_of(seconds: float) -> str:
    """Return a time since 1970 for people."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def trimmed(
    options: KinesisSourceOptions,
    shard: str,
    place: Place,
    oldest: str | None,
    covered: float,
    upto: float,
) -> Message:
    """Return the message that stands for what a shard has dropped.

    Nobody can tell whether there was anything: a shard says nothing of what it has dropped.

    Args:
        place: where reading would have gone on.
        oldest: the oldest record that is there, if there is one.
        covered, upto: since when, and until when, records that came are gone, in seconds since 1970.

    Raises:
        PermanentError: the options say that this ends the run.
    """
    reason = (
        f"shard {shard} was read up to {date_of(covered)}, and what came before {date_of(upto)} is gone: "
        "the stream keeps no record longer. So any record that came between the two is lost"
    )
    return _lost(options, shard, place, oldest or "", reason, upto)


def expired(options: KinesisSourceOptions, shard: str, place: Place, now: float) -> Message:
    """Return the message that stands for what is lost of a closed shard that is gone.

    Args:
        now: the time by the stream's clock, in seconds since 1970.

    Raises:
        PermanentError: the options say that this ends the run.
    """
    upto = (
        f"it was read up to record {place.sequence}" if place.sequence else "nothing of it was read"
    )
    reason = f"the closed shard {shard} is gone with its records, before its end was met: {upto}"
    return _lost(options, shard, place, "", reason, now)


def _lost(
    options: KinesisSourceOptions, shard: str, place: Place, to: str, reason: str, at: float
) -> Message:
    if options.on_loss == "fail":
        raise PermanentError(
            f"{options.place()}: {reason}. To go on with what is there, give the source `on_loss: "
            "report` and read its output `lost`; to keep records longer, raise the stream's retention"
        )
    return lost(
        reason,
        origin=options.name,
        first=place.sequence or "",
        last=to,
        extra=(shard, position(place.sequence or "0", _AFTER + int(at // 60) % _MINUTES)),
    )
