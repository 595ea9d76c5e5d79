"""Source `zeromq`: messages of PUSH or PUB sockets, through the ingress log."""

from __future__ import annotations

from mainstem import (
    Level,
    OptionError,
    Shown,
    SourceCapabilities,
)
from mainstem_ingress import (
    IngressSource,
    Receiver,
)

from mainstem_direct_zeromq.source.options import ZeroMQSourceOptions


class ZeroMQSource(IngressSource):
    """Takes messages of PUSH or PUB sockets; a crash can lose what ZeroMQ had in memory."""

    options: ZeroMQSourceOptions

    def __init__(self, options: ZeroMQSourceOptions) -> None:
        # What is taken and not yet stored is a group: no larger than the high-water mark.
        group = min(options.segment_rows, options.high_water_mark)
        super().__init__(options.model_copy(update={"segment_rows": group}))
        if options.socket == "pull" and options.topics != [""]:
            raise OptionError("is for `socket: sub`", option="topics")
        if "max_message" in options.model_fields_set and options.max_message > options.max_frame:
            raise OptionError("is more than `max_frame` lets in", option="max_message")
        counted = options.counted()
        self.loses = counted is not None
        if counted is not None:
            try:
                counted.check(options.layout())
            except ValueError as error:
                raise OptionError(str(error), option="sequence") from None
        if options.receivers > 1:
            why = (
                "each would be given every message"
                if options.socket == "sub"
                else "only one can bind an address"
                if options.bind
                else "the messages of a publisher would be shared, and each count have gaps"
                if counted is not None
                else ""
            )
            if why:
                raise OptionError(f"expected 1: {why}", option="receivers")

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]
        """Both kinds of socket lose messages; PULL only those that a crash or a stop finds in memory."""
        options = self.options
        mark = f"{options.high_water_mark:,}"
        stop = (
            f"a crash or a stop here loses up to {mark} messages of each peer in libzmq, {mark} not"
        )
        theirs = ", and what peers that bind hold, up to their own mark" if options.connect else ""
        if options.socket == "sub":
            why = (
                "PUB drops messages for a subscriber that is away, not yet connected, or slow (SUB); "
                f"{stop} stored yet"
            )
        else:
            why = (
                f"ZeroMQ has no acknowledgements (PULL): {stop} stored yet, and what is in flight "
                f"between the two libzmqs{theirs}; a connection that breaks loses what is in "
                f"flight{theirs}; what was stored stays"
            )
        if options.counted() is not None:
            why += "; what is missing comes out of `lost`"
        assumptions = ["the disk keeps what it says it has written"]
        if options.receivers == 1:
            assumptions.append("the order of messages of different connections does not matter")
        if "id" in options.layout() and options.duplicates_within:
            assumptions.append("no two messages have one id (frame `id`)")
        return SourceCapabilities(
            lossy=True,
            ordered=options.receivers == 1,
            why=why,
            assumptions=tuple(assumptions),
            shown=Shown(Level.AT_MOST_ONCE, "packages/direct-zeromq/tests/test_zeromq_crashes.py"),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_direct_zeromq.source.receiver import ZeroMQReceiver

        return ZeroMQReceiver
