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
    ],
)  # fmt: skip
def test_datasets_have_the_names_that_catalogues_expect(kind, word, given, output, datasets):
    """Pass: namespace and name, of a usual port too, and never a login; one name for one thing."""
    model = Registry().component(kind, word).options_for(given, Registry().component)
    found = Registry().component(kind, word)(model.model_validate(given)).datasets(output)
    assert found == [Dataset(*each) for each in datasets]
