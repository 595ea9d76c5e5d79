"""Source `moldudp64`: numbered messages of sessions, through the ingress log."""

from __future__ import annotations

from mainstem import Level, Shown, SourceCapabilities
from mainstem_ingress import IngressSource, Receiver

from mainstem_direct_moldudp64.options import MoldUDP64SourceOptions


class MoldUDP64Source(IngressSource):
    """Takes the messages of feeds by their numbers: each once, as a message or as lost."""

    options: MoldUDP64SourceOptions
    #: The session, and the message's number in it.
    extra = "partition STRING, position STRING"
    loses = True
    lost_columns = "origin STRING, at TIMESTAMP, partition STRING"
    capabilities = SourceCapabilities(
        lossy=True,
        ordered=True,
        why="what neither a feed nor a re-request server has in time comes out of `lost`, each number "
        "once; a session that began and ended while nothing listened is not known",
        assumptions=(
            "the disk keeps what it says it has written",
            "a session's numbers are never used for other messages",
        ),
        shown=Shown(
            Level.AT_MOST_ONCE, "packages/direct-moldudp64/tests/test_moldudp64_receiver.py"
        ),
    )

    def receiver(self) -> type[Receiver]:
        from mainstem_direct_moldudp64.receiver import MoldUDP64Receiver

        return MoldUDP64Receiver
