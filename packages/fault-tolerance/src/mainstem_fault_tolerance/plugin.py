"""Wires the words of this distribution to their classes."""

from __future__ import annotations

from mainstem import hookimpl


@hookimpl
def mainstem_delivery() -> dict[str, str]:
    """Return the strategies by word."""
    return {
        "idempotent": "mainstem_fault_tolerance.idempotent:Idempotent",
        "numbered": "mainstem_fault_tolerance.numbered:Numbered",
        "transactional": "mainstem_fault_tolerance.transactional:TransactionalDelivery",
        "staged": "mainstem_fault_tolerance.staged:StagedDelivery",
    }
