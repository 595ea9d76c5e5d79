"""Plain facts about a component, one small frozen class for each kind.

What a component can *do* is an ability (see `abilities`); these are what it simply *is*. A component
states them as the class attribute `capabilities`, or as a property when its options decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mainstem.contracts.guarantee import Level


@dataclass(frozen=True)
class Shown:
    """The level that tests have shown, and where those are."""

    level: Level
    by: str


@dataclass(frozen=True)
class SourceCapabilities:
    """Facts about a source."""

    #: A batch's offset range gives the same rows when it is read again.
    replayable: bool = True
    #: Events can be lost before the source has them; `why` says how.
    lossy: bool = False
    #: The source can give one event twice (under different positions).
    may_duplicate: bool = False
    #: Rows of one partition come in the order in which they happened.
    ordered: bool = False
    #: Why it is lossy, may duplicate or can't be replayed; what must hold for the rest.
    why: str = ""
    assumptions: tuple[str, ...] = ()
    shown: Shown | None = None


@dataclass(frozen=True)
class OperatorCapabilities:
    """Facts about an operator."""

    #: Each output row comes from one input row alone, so reserved columns pass untouched.
    row_wise: bool = False
    #: Each output row has an `_id` that the operator makes of those of the rows it comes from: that of
    #: one of them, or a hash of several. So inputs have the column `_id` where somebody needs it below.
    passes_ids: bool = False
    #: Each input row gives exactly one row, in the main output or a named one; so the rows that came
    #: in are known when those that went out have been counted.
    keeps_rows: bool = False
    #: The output does not depend on how the input was cut into batches.
    batch_invariant: bool = True
    #: A column of the output that has the name of one of the input is that one, unless the operator's SQL
    #: or the operator (`Deriving`) says otherwise.
    keeps_names: bool = True
    #: Rows of named outputs, but for `rejected`, have the reserved columns of the rows they come from.
    splits: bool = False


@dataclass(frozen=True)
class SinkCapabilities:
    """Facts about a sink."""

    #: Writing a batch again replaces what the first try wrote, at once: readers, and who is killed
    #: on the way, leave the one or the other.
    replaces_batch: bool = False
    #: What the sink has taken can be lost before it is there; `why` says how.
    lossy: bool = False
    #: The sink uses the column `_id`.
    needs_id: bool = False
    #: Other reserved columns that the sink is given where the rows have them.
    uses: tuple[str, ...] = ()
    #: It writes rows to standard output, where nothing else may stand then.
    prints: bool = False
    #: Why it is lossy; what must hold for the rest.
    why: str = ""
    assumptions: tuple[str, ...] = ()
    #: What must hold when it is written to by one strategy, by that strategy's word.
    assumptions_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: By the word of the delivery strategy.
    shown: Mapping[str, Shown] = field(default_factory=dict)


@dataclass(frozen=True)
class StateStoreCapabilities:
    """Facts about a state store."""

    #: It can hold the state of operators that work on keyed state (transformWithState).
    keyed: bool = False


@dataclass(frozen=True)
class DeliveryCapabilities:
    """Facts about a delivery strategy."""

    #: The strategy uses the column `_id` of events.
    needs_id: bool = False
    #: Rows that earlier batches have written do no harm when they come again, cut otherwise.
    knows_rows: bool = False
