"""Delivery strategies: how a batch is written so that a retry does no harm.

A strategy knows abilities of sinks (`Transactional`, `Staged`, `KeyedWrites`, `IdentifiedWrites`,
`NumberedWrites`), and no sink.
"""
