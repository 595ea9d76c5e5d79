"""The standard tests of a format whose values are maps by name, on top of those of a format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest
from mainstem import Inputs, OptionError
from mainstem.builtin.decode import Decode
from mainstem.builtin.decoding import opened
from mainstem.builtin.encode import Encode
from mainstem.columns import read_columns
from mainstem.contracts.formats import Format
from mainstem.registry import Registry

from mainstem_testkit.conformance.format import FormatSuite
from mainstem_testkit.conformance.suite import not_claimed, proves

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AT = datetime(2024, 2, 29, 1, 2, 3, 456789, UTC)
_LOCAL = datetime(2024, 2, 29, 1, 2, 3, 1)  # of no zone
_ANY = '{"a":[1,2.5,null,"ü"]}'
_ROW: dict[str, Any] = {
    "id": 2**63 - 1, "small": -128, "ratio": 0.1, "single": 0.5, "price": Decimal("-1.50"),
    "name": "grüße", "raw": b"\0\xff", "good": True, "day": date(1969, 12, 31),
    "at": _AT, "local": _LOCAL, "tags": ["a", None], "counts": [("x", -1)],
    "line": {"article": "pen", "times": [_AT]}, "any": _ANY,
}  # fmt: skip


class MapFormatSuite(FormatSuite):
    """The standard tests of a format of maps by name, such as one on `MapDecoder`.

    ```python
    class TestBson(MapFormatSuite):
        use = "bson"

        def packed(self, value):
            return bson.encode(value)

        def unpacked(self, data):
            return bson.decode(data)
    ```
    """

    schema = (
        "id BIGINT NOT NULL, small TINYINT, ratio DOUBLE, single FLOAT, price DECIMAL(10,2), "
        "name STRING, raw BINARY, good BOOLEAN, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, "
        "tags ARRAY<STRING>, counts MAP<STRING, INT>, "
        "line STRUCT<article: STRING, times: ARRAY<TIMESTAMP>>, any VARIANT"
    )
    #: What `packed` takes for the time 2024-02-29T01:02:03.456789Z.
    instant: ClassVar[Any] = _AT

    def packed(self, value: Any) -> bytes:
        """Return a value as another implementation of the format writes it."""
        raise NotImplementedError

    def unpacked(self, data: bytes) -> Any:
        """Return what another implementation reads."""
        raise NotImplementedError

    def value(self) -> dict[str, Any]:
        """Return the map that is read as a row with a value in each column; it has more fields, too."""
        return {
            **_ROW, "price": "-1.50", "day": "1969-12-31", "at": self.instant,
            "local": "2024-02-29T01:02:03.000001", "counts": {"x": -1}, "any": json.loads(_ANY),
            "else": 1, "line": {"article": "pen", "times": [self.instant], "more": 1},
        }  # fmt: skip

    def good(self) -> Sequence[tuple[bytes, Any]]:
        nulls = {name: None for name in _ROW if name != "id"}
        return [
            (self.packed(self.value()), _ROW),
            (self.packed({"id": 1}), {"id": 1}),
            (self.packed({"id": 1, **nulls}), {"id": 1}),
        ]

    def bad(self) -> Sequence[bytes]:
        good = self.packed(self.value())
        odd = ([1], {"id": "1"}, {"name": "a"})
        return [b"", good[:-1], good + good, *map(self.packed, odd)]

    @proves("values")
    def test_what_nobody_knows_is_kept_where_it_is_asked_for(self) -> None:
        """As a VARIANT, null where there is nothing: bytes as base64, times by ISO 8601."""
        more = {"a": [1, {"b": b"\0\xff"}], "at": self.instant, "c": None, "d": 0.5}
        values = [self.packed({"id": 1, **more}), self.packed({"id": 2})]
        given = {"format": self.use, **self.options(), "schema": "id BIGINT", "unknown": "rest"}
        model = Decode.options_for(given, Registry().component)
        made = opened(Decode(model.model_validate(given)).decoding())  # type: ignore[arg-type]
        rows = made(pa.array(values, pa.binary())).to_pylist()
        assert [(row["c0"], row["reason"]) for row in rows] == [(1, None), (2, None)]
        told = {"a": [1, {"b": "AP8="}], "at": "2024-02-29T01:02:03.456789Z", "c": None, "d": 0.5}
        assert [row["c1"] and json.loads(row["c1"]) for row in rows] == [told, None]

    @proves("writing")
    def test_what_is_written_is_read_here_and_elsewhere(self, spark: SparkSession) -> None:
        """Each type but VARIANT, which is told before anything runs; what is null is left out."""
        found = self.component_class()
        assert issubclass(found, Format)
        if found.encoder is None:
            not_claimed("writing")
        given = {"format": self.use, **self.options()}
        model = Encode.options_for(given, Registry().component)
        encode = Encode(model.model_validate(given))  # type: ignore[arg-type]
        with pytest.raises(OptionError, match="VARIANT, as column any"):
            encode.encoder.check(read_columns("any VARIANT"))
        frame = spark.sql(
            "SELECT 1L AS id, CAST(-1 AS TINYINT) AS small, 0.1D AS ratio, "
            "CAST(-1.50 AS DECIMAL(10,2)) AS price, 'grüße' AS name, X'00FF' AS raw, true AS good, "
            "DATE '1969-12-31' AS day, TIMESTAMP '2024-02-29 01:02:03.456789Z' AS at, "
            "TIMESTAMP_NTZ '2024-02-29 01:02:03.000001' AS local, array('a', NULL) AS tags, "
            "map('x', -1) AS counts, named_struct('article', 'pen', "
            "'times', array(TIMESTAMP '0001-01-01 00:00:00Z')) AS line "
            "UNION ALL SELECT 2L, " + ", ".join(["NULL"] * 12)
        )
        sent = encode.apply(Inputs({"input": frame}), _Context())  # type: ignore[arg-type]
        values = [bytes(row["value"]) for row in sent.collect()]
        first, second = map(self.unpacked, values)
        assert (first["name"], first["raw"], first["counts"]) == ("grüße", b"\0\xff", {"x": -1})
        assert second == {"id": 2}
        schema = ", ".join(f"{name} {kind}" for name, kind in frame.dtypes)
        back = self.decode(schema).apply(Inputs({"input": sent}), _Context())  # type: ignore[arg-type]
        texts = [f"CAST({n} AS STRING) AS {n}" if n == "line" else n for n in frame.columns]
        read, wanted = (each.selectExpr(texts).orderBy("id").collect() for each in (back, frame))
        assert read == wanted


class _Context:
    """What `encode` and `decode` ask of the context in which they are applied."""

    node = "subject"
    wanted = frozenset(["rejected"])
