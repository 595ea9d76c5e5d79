"""The source: topics read by offset, with what Spark's own source lacks."""
