"""SQL databases: a sink whose ledger stands in its own transactions, a source for reference tables."""
