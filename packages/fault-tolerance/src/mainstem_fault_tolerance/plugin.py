"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl

from mainstem_fault_tolerance.idempotent import Idempotent
from mainstem_fault_tolerance.numbered import Numbered
from mainstem_fault_tolerance.staged import StagedDelivery
from mainstem_fault_tolerance.transactional import TransactionalDelivery


@hookimpl
def mainstem_delivery() -> dict[str, type]:
    """Return the strategies by word."""
    return {
        "idempotent": Idempotent,
        "numbered": Numbered,
        "transactional": TransactionalDelivery,
        "staged": StagedDelivery,
    }
