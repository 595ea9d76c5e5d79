"""What a task does with the packed rows of its buckets, by a logic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import polars as pl

from mainstem_keyed_state.entries import Store
from mainstem_keyed_state.logic import Logic
from mainstem_keyed_state.outputs import Whole, packed_outputs
from mainstem_keyed_state.packing import unpacked
from mainstem_keyed_state.runner import Stepping


class Buckets:
    """Runs a logic on packed rows.

    Args:
        ports: the columns of each port's rows as they come, `KEY` among them, in the order of the
            ports' numbers.
        whole: the columns that come of all outputs.
        limits: the bytes of a page and of a portion; see `Stepping`.
    """

    def __init__(
        self, logic: Logic, ports: Mapping[str, pl.Schema], whole: Whole, limits: tuple[int, int]
    ) -> None:
        self._ports = list(ports.items())
        self._whole = whole
        self._stepping = Stepping(logic, *limits)

    @property
    def timers(self) -> tuple[int | None, int | None]:
        """When the last bucket was to be woken before, and is now; see `Stepping`."""
        return self._stepping.timer, self._stepping.next_timer

    def take(
        self, store: Store, packed: Iterable[tuple[int, bytes]], watermark: int | None
    ) -> Iterator[bytes]:
        """Take a bucket's share of a batch.

        Args:
            packed: its rows, with their ports' numbers, beyond which are those of copies (see
                `packer`); none when it was woken.
            watermark: in microseconds; None before there is one.

        Yields:
            Packed rows of outputs.
        """
        found: dict[str, list[pl.DataFrame]] = {port: [] for port, _ in self._ports}
        home = True
        for number, payload in packed:
            copy, at = divmod(number, len(self._ports))
            home = home and not copy
            port, columns = self._ports[at]
            found[port].append(unpacked(payload, columns))
        for name, out in self._stepping.bucket(store, found, watermark, home=home):
            yield from packed_outputs(self._whole, name, out)
