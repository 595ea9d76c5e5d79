"""The source: snapshots of a table, and polling by a column that grows."""
