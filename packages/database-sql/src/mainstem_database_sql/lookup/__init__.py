"""The operator `sql_lookup`: rows ask a table."""
