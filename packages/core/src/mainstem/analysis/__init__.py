"""SQL of a document, parsed and resolved by Spark's own analyser, without a Spark session.

`words` and `answers` know no Spark; `java` speaks to the analyser in whatever Java process there is, and
`process` to one that is started for that alone.
"""
