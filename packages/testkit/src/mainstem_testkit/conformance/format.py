"""The standard tests of a format: what it reads, and that no bytes harm it."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mainstem.builtin.decode import Decode
from mainstem.builtin.decoding import opened
from mainstem.columns import Column, arrow_type, read_columns
from mainstem.contracts.components import Component
from mainstem.contracts.formats import ChangesDecoder, Format
from mainstem.contracts.options import Options
from mainstem.registry import Registry

from mainstem_testkit.conformance.suite import Suite, not_claimed, proves
from mainstem_testkit.processes import resident
from mainstem_testkit.turns import Turn

#: How many odd values are made of each good one.
_ODD = 200
#: The test of memory: how many values, in turn and where all tests are run; how many at a time, and by
#: how many bytes it may grow in the end.
_MANY, _ALL, _BATCH, _GROWS = 200_000, 1_000_000, 10_000, 64 << 20


class FormatSuite(Suite):
    """The standard tests of a format that can be read.

    ```python
    class TestPairs(FormatSuite):
        use = "pairs"
        schema = "a INT NOT NULL, b STRING"

        def good(self):
            return [(b"a=1;b=x", {"a": 1, "b": "x"}), (b"a=2", {"a": 2})]

        def bad(self):
            return [b"", b"a=x", b"b=x"]
    ```
    """

    kind = "format"
    #: The columns that a document declares; None for a format that has its own, or reads without.
    schema: ClassVar[str | None] = None

    def good(self) -> Sequence[tuple[bytes, Any]]:
        """Return values that are read, each with what is read: different ones, of every kind of column.

        What is read is the row, its columns by name as Arrow gives them to Python; those left out are
        null. Of a format of changes it is a list of them, each with `type`; of one whose values hold many
        rows, a list of rows.
        """
        raise NotImplementedError

    def bad(self) -> Sequence[bytes]:
        """Return values that are refused."""
        raise NotImplementedError

    def options(self) -> Mapping[str, Any]:
        """Return the options that a document gives `decode`, beside format and schema."""
        return {}

    def parts(self, **changes: Any) -> dict[str, Any]:
        given = {**self.given(), **changes}
        return {
            "sources": {"messages": {"use": "files", "with": {"path": "in", "format": "message"}}},
            "operators": {"subject": {"use": "decode", "from": "messages", "with": given}},
            "sinks": {"out": {"use": "console", "from": "subject"}},
        }

    def given(self, schema: str | None = None) -> dict[str, Any]:
        declared = schema or self.schema
        return {"format": self.use, **({"schema": declared} if declared else {}), **self.options()}

    @classmethod
    def model(cls, given: Mapping[str, Any]) -> type[Options]:
        return Decode.options_for({"format": cls.use, **given}, Registry().component)

    def decode(self, schema: str | None = None) -> Decode:
        """Return the operator that reads the format, into these columns or the suite's own."""
        made: type[Component] = self.component_class()
        assert issubclass(made, Format)
        if made.decoder is None:
            not_claimed("reading")
        given = self.given(schema)
        options: Any = self.model(given).model_validate(given)
        return Decode(options)

    def _values(self) -> list[bytes]:
        return [value for value, _ in self.good()]

    def _read(self, values: Sequence[bytes | None]) -> list[dict[str, Any]]:
        """Return what is read of each value, with the reason why it is refused."""
        import pyarrow as pa

        decode = self.decode()
        arrays = [pa.array(values, pa.binary())]
        if isinstance(decode.decoder, ChangesDecoder):
            arrays.append(pa.nulls(len(values), pa.binary()))
        found: list[dict[str, Any]] = opened(decode.decoding())(*arrays).to_pylist()
        assert len(found) == len(values)
        return found

    # -- the tests --------------------------------------------------------------------------

    @proves("values")
    def test_good_values_are_read_and_bad_ones_refused(self) -> None:
        """The good ones are read as what they are, and each of the bad ones has a reason."""
        names = [column.name for column in self.decode().decoding().columns]
        decoding = self.decode().decoding()
        changes, many = decoding.changes, decoding.changes or decoding.many
        for (value, wanted), row in zip(self.good(), self._read(self._values()), strict=True):
            assert row["reason"] is None, value
            found = row["changes" if changes else "rows"] if many else [row]
            for one, its in zip(found, wanted if many else [wanted], strict=True):
                known = {name: one[f"c{number}"] for number, name in enumerate(names)}
                kind = {"type": one["type"]} if changes else {}
                assert {**known, **kind} == {**dict.fromkeys(names), **its}, value
        taken = [
            value
            for value, row in zip(self.bad(), self._read(self.bad()), strict=True)
            if row["reason"] is None
        ]
        assert taken == []

    @proves("values")
    def test_columns_are_of_their_types(self) -> None:
        """What is read has the columns that the plan tells, typed, and no null where none may be."""
        decode = self.decode()
        if isinstance(decode.decoder, ChangesDecoder) or decode.decoder.many:
            not_claimed("a row for each value")
        import pyarrow as pa

        columns = decode.decoding().columns
        declared: Sequence[Column] = read_columns(self.schema) if self.schema else columns
        assert [c.name for c in columns] == [c.name for c in declared]
        values = self._values()
        found = opened(decode.decoding())(pa.array(values, pa.binary())).flatten()
        for column, array in zip(columns, found, strict=False):
            kind = column.type or ""
            texts = decode.decoding().patterned and kind == "timestamp"
            assert array.type == (pa.string() if texts else arrow_type(kind)), column.name
            assert column.nullable or array.null_count == 0, column.name

    @proves("values")
    def test_a_value_is_read_alike_whatever_is_beside_it(self) -> None:
        """One by one, and all in one batch, good and bad ones mixed, and none in it."""
        good = self._values()
        values: list[bytes | None] = [*good, *self.bad(), None, *good]
        assert [row for value in values for row in self._read([value])] == self._read(values)
        assert self._read([]) == []

    @proves("odd values")
    def test_no_bytes_do_harm(self) -> None:
        """Cut, changed and doubled values, and random bytes, are read or refused: a row each."""
        values = self._odd(random.Random(1), _ODD)
        columns = self.decode().decoding().columns
        decoding = self.decode().decoding()
        one = not (decoding.changes or decoding.many)
        for row in self._read(values):
            if row["reason"] is None and one:
                lacking = [
                    column.name
                    for number, column in enumerate(columns)
                    if not column.nullable and row[f"c{number}"] is None
                ]
                assert lacking == []

    @proves("odd values", dear=True)
    def test_a_million_odd_values_take_no_memory(self, turn: Turn) -> None:
        """A row each, as above; what a batch took is there again for the next one. In turn fewer."""
        import pyarrow as pa

        decoding = self.decode().decoding()
        read, chance = opened(decoding), random.Random(2)
        each = max(1, _BATCH // (len(self._values()) + 1))
        batches = [pa.array(self._odd(chance, each), pa.binary()) for _ in range(10)]
        count = before = 0
        while count < (_ALL if turn.number is None else _MANY):
            for values in batches:
                keys = [pa.nulls(len(values), pa.binary())] if decoding.changes else []
                assert len(read(values, *keys)) == len(values)
                count += len(values)
            before = before or resident()[os.getpid()]
        assert resident()[os.getpid()] - before < _GROWS

    @proves("tasks")
    def test_what_goes_to_tasks_is_the_same_there(self) -> None:
        """The reader is pickled, and equal to one that reads alike: a process makes it ready once."""
        first, second = self.decode().decoding(), self.decode().decoding()
        there = pickle.loads(pickle.dumps(first))
        assert there == first == second
        assert hash(there) == hash(second)

    def _odd(self, chance: random.Random, each: int) -> list[bytes]:
        """Return so many odd values of each good one: cut, changed, doubled; and so many random ones."""
        values: list[bytes] = []
        for good in self._values():
            for _ in range(each):
                odd = bytearray(good)
                for _ in range(chance.choice((1, 1, 2, 5))):
                    at = chance.randrange(len(odd) + 1)
                    what = chance.randrange(4)
                    if what == 0:
                        del odd[at:]
                    elif what == 1:
                        odd[at : at + 1] = chance.randbytes(1)
                    elif what == 2:
                        odd[at:at] = odd[chance.randrange(len(odd) + 1) :]
                    else:
                        odd[at:at] = chance.randbytes(chance.randrange(9))
                values.append(bytes(odd))
        return values + [chance.randbytes(chance.randrange(300)) for _ in range(each)]
