"""Which distribution brings which word: turns an unknown word into its `pip install` line.

The one place where the core names other packages of the project; a word stands here from the day
its package works.
"""

from __future__ import annotations

CATALOGUE = {
    ("delivery", "idempotent"): "mainstem-fault-tolerance",
    ("delivery", "staged"): "mainstem-fault-tolerance",
    ("delivery", "transactional"): "mainstem-fault-tolerance",
    ("sink", "amqp"): "mainstem-broker-amqp",
    ("sink", "jetstream"): "mainstem-broker-nats",
    ("sink", "kafka"): "mainstem-broker-kafka",
    ("sink", "kinesis"): "mainstem-broker-kinesis",
    ("source", "mqtt"): "mainstem-broker-mqtt",
    ("sink", "mqtt"): "mainstem-broker-mqtt",
    ("source", "socket"): "mainstem-direct-socket",
    ("source", "pipe"): "mainstem-direct-socket",
    ("sink", "socket"): "mainstem-direct-socket",
    ("sink", "stdout"): "mainstem-direct-socket",
    ("source", "moldudp64"): "mainstem-direct-moldudp64",
    ("sink", "nats"): "mainstem-broker-nats",
    ("sink", "opensearch"): "mainstem-search-opensearch",
    ("sink", "delta"): "mainstem-lake-delta",
    ("sink", "iceberg"): "mainstem-lake-iceberg",
    ("source", "delta"): "mainstem-lake-delta",
    ("source", "iceberg"): "mainstem-lake-iceberg",
    ("sink", "redis"): "mainstem-cache-redis",
    ("source", "redis"): "mainstem-cache-redis",
    ("sink", "redis_table"): "mainstem-cache-redis",
    ("sink", "sql"): "mainstem-database-sql",
    ("sink", "webhook"): "mainstem-direct-webhook",
    ("sink", "zeromq"): "mainstem-direct-zeromq",
    ("source", "amqp"): "mainstem-broker-amqp",
    ("source", "jetstream"): "mainstem-broker-nats",
    ("source", "jetstream_queue"): "mainstem-broker-nats",
    ("source", "kafka"): "mainstem-broker-kafka",
    ("source", "kinesis"): "mainstem-broker-kinesis",
    ("source", "nats"): "mainstem-broker-nats",
    ("source", "nats_bucket"): "mainstem-broker-nats",
    ("source", "mongodb"): "mainstem-cdc-mongodb",
    ("source", "mysql"): "mainstem-cdc-mysql",
    ("source", "postgresql"): "mainstem-cdc-postgresql",
    ("source", "sql"): "mainstem-database-sql",
    ("source", "sqs"): "mainstem-broker-sqs",
    ("sink", "sqs"): "mainstem-broker-sqs",
    ("source", "webhook"): "mainstem-direct-webhook",
    ("sink", "udp"): "mainstem-direct-udp",
    ("source", "statsd"): "mainstem-direct-udp",
    ("source", "udp"): "mainstem-direct-udp",
    ("source", "zeromq"): "mainstem-direct-zeromq",
    ("operator", "decide"): "mainstem-operators-eventsourcing",
    ("operator", "percolate"): "mainstem-operators-search",
    ("operator", "decrypt"): "mainstem-operators-privacy",
    ("operator", "encrypt"): "mainstem-operators-privacy",
    ("sink", "forget"): "mainstem-operators-privacy",
    ("operator", "evolve"): "mainstem-operators-eventsourcing",
    ("operator", "upcast"): "mainstem-operators-eventsourcing",
    ("operator", "aggregate"): "mainstem-operators-windows",
    ("operator", "clock"): "mainstem-operators-windows",
    ("operator", "deduplicate"): "mainstem-operators-windows",
    ("operator", "http_lookup"): "mainstem-direct-webhook",
    ("operator", "outbox"): "mainstem-cdc",
    ("operator", "python_by_key"): "mainstem-keyed-state",
    ("operator", "match"): "mainstem-operators-patterns",
    ("operator", "match_patterns"): "mainstem-operators-patterns",
    ("operator", "rates"): "mainstem-operators-windows",
    ("operator", "sample"): "mainstem-operators-windows",
    ("operator", "sort"): "mainstem-operators-windows",
    ("operator", "sql_lookup"): "mainstem-database-sql",
    ("operator", "top"): "mainstem-operators-windows",
    ("operator", "stream_stream_join"): "mainstem-operators-joins",
    ("operator", "stream_table_join"): "mainstem-operators-joins",
    ("operator", "table"): "mainstem-operators-joins",
    ("operator", "table_table_join"): "mainstem-operators-joins",
}


def install_line(kind: str, word: str) -> str | None:
    """Return the command that installs the plugin for `word`, or None for an unknown word."""
    distribution = CATALOGUE.get((kind, word))
    return f"pip install {distribution}" if distribution else None
