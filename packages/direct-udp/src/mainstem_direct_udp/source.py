"""Source `udp`: datagrams, through the ingress log."""

from __future__ import annotations

from mainstem import Level, Shown, SourceCapabilities
from mainstem_ingress import IngressSource, Receiver

from mainstem_direct_udp.options import UDPSourceOptions


class UDPSource(IngressSource):
    """Takes datagrams of a port, or of multicast groups; what the kernel drops is counted."""

    options: UDPSourceOptions
    loses = True

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """UDP is at-most-once: nobody sends a datagram again."""
        seen = "; numbers that did not come are reported" if self.options.sequence else ""
        return SourceCapabilities(
            lossy=True,
            ordered=False,
            why="UDP has no acknowledgements: what the network drops, what comes while nothing listens, "
            "and what was taken and not stored when a process is killed, is lost. What the kernel drops "
            f"because its buffer is full comes out of `lost`, by its count{seen}",
            assumptions=("the disk keeps what it says it has written",),
            shown=Shown(Level.AT_MOST_ONCE, "packages/direct-udp/tests/test_udp_receiver.py"),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_direct_udp.receiver import UDPReceiver

        return UDPReceiver
