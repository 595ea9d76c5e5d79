"""What sources and sinks say that they read and write, by OpenLineage's convention for names."""

from __future__ import annotations

import pytest
from mainstem import Dataset
from mainstem.registry import Registry

ID = {"schema": "id BIGINT", "key": ["id"]}


@pytest.mark.parametrize(
    ("kind", "word", "given", "output", "datasets"),
    [
        ("source", "files", {"path": "/in", "format": "text"}, "", [("file", "/in")]),
        ("sink", "files", {"path": "/out", "format": "csv"}, "", [("file", "/out")]),
        ("source", "kafka", {"servers": ["b:9092", "c:9092"], "topics": ["x", "y"]}, "", [("kafka://b:9092", "x"), ("kafka://b:9092", "y")]),
        ("source", "kafka", {"servers": "b:9092", "pattern": "x.*"}, "", [("kafka://b:9092", "x.*")]),
        ("sink", "kafka", {"servers": "b:9092", "topic": "x"}, "", [("kafka://b:9092", "x")]),
        ("sink", "sql", {"url": "postgresql://u:secret@h/shop", "table": "t"}, "", [("postgres://h:5432", "shop.public.t")]),
        ("sink", "sql", {"url": "postgresql://u:secret@h:1/shop", "table": "t", "namespace": "shop"}, "", [("postgres://h:1", "shop.shop.t")]),
        ("source", "sql", {"url": "mariadb://u:secret@h/shop", "table": "t", "schema": "id BIGINT"}, "", [("mysql://h:3306", "shop.t")]),
        ("sink", "sql", {"url": "mysql://u:secret@h/shop", "table": "t", "namespace": "other"}, "", [("mysql://h:3306", "other.t")]),
        ("sink", "sql", {"url": "sqlite:////data/shop.db", "table": "t"}, "", [("file", "/data/shop.db/t")]),
        ("source", "postgresql", {"url": "postgresql://u:secret@h/shop", "slot": "s", "tables": {"t": ID}}, "t", [("postgres://h:5432", "shop.public.t")]),
        ("source", "postgresql", {"url": "postgresql://u:secret@h/shop", "slot": "s", "tables": {"t": {**ID, "table": "shop.orders"}}}, "t", [("postgres://h:5432", "shop.shop.orders")]),
        ("source", "mysql", {"url": "mysql://u:secret@h/shop", "tables": {"t": ID}}, "t", [("mysql://h:3306", "shop.t")]),
        ("source", "mysql", {"url": "mysql://u:secret@h/shop", "tables": {"t": ID}}, "", []),
        ("source", "mongodb", {"url": "mongodb://u:secret@h/shop", "tables": {"t": ID}}, "t", [("mongodb://h:27017", "shop.t")]),
        ("source", "mongodb", {"url": "mongodb://u:secret@h1:27018,h2:27019/shop?replicaSet=r", "tables": {"t": ID}}, "t", [("mongodb://h1:27018", "shop.t")]),
        ("sink", "sql", {"url": "postgresql://u:secret@[::1]/shop", "table": "t"}, "", [("postgres://[::1]:5432", "shop.public.t")]),
        ("source", "kafka_queue", {"servers": "b:9092", "topics": ["x"], "group": "g"}, "", [("kafka://b:9092", "x")]),
        ("sink", "delta", {"url": "file:///lake/t/"}, "", [("file", "/lake/t")]),
        ("sink", "delta", {"url": "s3a://bucket/lake/t/"}, "", [("s3://bucket", "lake/t")]),
        ("sink", "delta", {"path": "/lake/t"}, "", [("file", "/lake/t")]),
        ("sink", "delta", {"url": "s3://bucket/lake/t"}, "", [("s3://bucket", "lake/t")]),
        ("source", "amqp", {"url": "amqp://u:secret@h/%2f", "queue": "q"}, "", [("amqp://h:5672", "q")]),
        ("source", "amqp", {"url": ["amqps://u:secret@h/shop", "amqps://u:secret@i/shop"], "queue": "q"}, "", [("amqp://h:5671", "shop/q")]),
        ("sink", "amqp", {"url": "amqp://u:secret@h:1", "exchange": "e"}, "", [("amqp://h:1", "e")]),
        ("source", "amqp1", {"url": "amqps://u:secret@[::1]", "address": "q"}, "", [("amqp://[::1]:5671", "q")]),
        ("sink", "amqp1", {"url": "amqp://u:secret@h", "address_from": "x"}, "", []),
        ("source", "jetstream", {"servers": ["nats://u:secret@h", "nats://u:secret@i"], "stream": "S"}, "", [("nats://h:4222", "S")]),
        ("source", "jetstream_queue", {"servers": "tls://h:1", "stream": "S", "consumer": "c"}, "", [("nats://h:1", "S")]),
        ("source", "nats_bucket", {"servers": "nats://h", "bucket": "b"}, "", [("nats://h:4222", "KV_b")]),
        ("source", "nats", {"servers": "nats://h", "subjects": ["x", "y.>"]}, "", [("nats://h:4222", "x"), ("nats://h:4222", "y.>")]),
        ("sink", "nats", {"servers": "nats://h", "subject": "x"}, "", [("nats://h:4222", "x")]),
        ("sink", "jetstream", {"servers": "nats://h", "stream": "S", "subject": "x.{n}"}, "", [("nats://h:4222", "S")]),
        ("source", "mqtt", {"url": "mqtts://u:secret@h", "topics": ["x/+"], "client_id": "c"}, "", [("mqtt://h:8883", "x/+")]),
        ("sink", "mqtt", {"url": "mqtt://h", "topic": "x"}, "", [("mqtt://h:1883", "x")]),
        ("source", "pulsar", {"url": "pulsar://h:1,i:2", "admin_url": "http://h:8080", "topic": "x"}, "", [("pulsar://h:1", "persistent://public/default/x")]),
        ("source", "pulsar_queue", {"url": "pulsar+ssl://h/", "topic": "x", "subscription": "s"}, "", [("pulsar://h:6651", "persistent://public/default/x")]),
        ("sink", "pulsar", {"url": "pulsar://h", "topic": "x"}, "", [("pulsar://h:6650", "persistent://public/default/x")]),
        ("source", "redis", {"url": "redis://u:secret@h/3", "streams": ["x"], "group": "g"}, "", [("redis://h:6379", "3/x")]),
        ("sink", "redis", {"url": "rediss://h:1", "stream": "x"}, "", [("redis://h:1", "0/x")]),
        ("sink", "redis_table", {"url": "redis://h", "key": "row:{id}"}, "", [("redis://h:6379", "0/row:{id}")]),
        ("sink", "opensearch", {"url": "https://u:secret@h", "index": "orders-{day}"}, "", [("opensearch://h:9200", "orders-{day}")]),
        ("source", "webhook", {"port": 8080, "paths": {"/x": {"verify": {"use": "none"}}}}, "", []),
    ],
)  # fmt: skip
def test_datasets_have_the_names_that_catalogues_expect(kind, word, given, output, datasets):
    """Pass: namespace and name, of a usual port too, and never a login; one name for one thing."""
    model = Registry().component(kind, word).options_for(given, Registry().component)
    found = Registry().component(kind, word)(model.model_validate(given)).datasets(output)
    assert [*found] == [Dataset(*each) for each in datasets]
