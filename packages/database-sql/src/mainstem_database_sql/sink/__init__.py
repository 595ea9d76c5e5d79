"""The sink: batches into a table, in transactions with a ledger."""
