"""Many values read side by side: what each thing gives, and what is marked."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from mainstem.cursors import Cursors, Items, read_values, spread, twice

LIMITS = [0, 1, 127, 128, 300, 2**31, 2**63, 2**64 - 1]


def varint(value):
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def cursors(*values):
    return Cursors(pa.array(values, pa.binary()))


def test_numbers_of_each_size_are_read():
    """Pass: to the last bit, and each stands behind its number."""
    made = cursors(*map(varint, LIMITS))
    assert made.varint(made.rows).tolist() == LIMITS
    assert made.ended(made.rows).all()
    assert not made.marked.any()


def test_signed_numbers_are_read():
    """Pass: the lowest bit is the sign."""
    made = cursors(*(varint(each) for each in (0, 1, 2, 2**64 - 2, 2**64 - 1)))
    assert made.zigzag(made.rows).tolist() == [0, -1, 1, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize(
    "value", [b"", b"\x80", b"\xff" * 9, b"\xff" * 9 + b"\2", b"\xff" * 11, None]
)
def test_what_is_no_number_is_marked(value):
    """Pass: alone, and beside others, which are read."""
    made = cursors(b"\1", value, b"\2")
    found = made.varint(made.rows)
    assert made.marked.tolist() == [False, True, False]
    assert found[[0, 2]].tolist() == [1, 2]
    assert made.byte(made.rows[1:2]).tolist() == [0]  # what is marked is zeros


def test_bytes_and_texts_are_read():
    """Pass: short and long ones, and of some of the rows."""
    made = cursors(b"ab", b"x" * 500, b"", "ü".encode())
    found = made.slices(made.rows, np.array([1, 499, 0, 0]))
    assert found.to_pylist() == [b"a", b"x" * 499, b"", b""]
    rows = np.array([1, 3])
    assert made.texts(rows, np.array([1, 2])).to_pylist() == ["x", "ü"]
    assert made.ended(made.rows).tolist() == [False, True, True, True]
    assert not made.marked.any()


def test_what_is_too_long_or_no_text_is_marked():
    """Pass: only these."""
    made = cursors(b"ab", b"\xff", b"ab", b"ab")
    assert made.texts(made.rows, np.array([2, 1, 3, -1])).to_pylist() == ["ab", "", "", ""]
    assert made.marked.tolist() == [False, True, True, True]


def test_half_a_letter_is_no_text_though_the_next_value_ends_it():
    """Pass: each is looked at by itself."""
    made = cursors(b"\xc3", b"\xbc")
    made.texts(made.rows, np.array([1, 1]))
    assert made.marked.all()


def test_plain_numbers_are_read():
    """Pass: what is cut is marked, also at the end of all."""
    made = cursors(b"\0\0\x80\x3f", b"\1\0")
    assert made.plain(made.rows, "<f4")[0] == 1
    assert made.marked.tolist() == [False, True]


def test_a_part_of_an_array_is_read():
    """Pass: from its own place on, with nulls."""
    array = pa.array([b"zz", b"\5", None, b"\6"], pa.binary()).slice(1)
    made = Cursors(array)
    assert made.varint(made.rows).tolist()[::2] == [5, 6]
    assert made.marked.tolist() == [False, True, False]


def test_no_values_are_read():
    """Pass: nothing of nothing."""
    made = cursors()
    assert made.varint(made.rows).tolist() == []
    assert made.texts(made.rows, made.rows).to_pylist() == []


def test_a_batch_has_one_budget_of_steps_for_few_values():
    """Pass: few values are left alone once it is spent, whoever asks; a step of many costs nothing of it."""
    many = cursors(*[b"\1"] * 200)
    assert all(many.worth(many.rows) for _ in range(10_000))
    assert many.worth(many.rows[:5], 1500)
    assert many.worth(many.rows[5:9], 500)
    assert not many.worth(many.rows[:3])
    assert np.flatnonzero(many.marked).tolist() == [0, 1, 2]
    assert many.worth(many.rows)


def test_items_are_in_the_order_of_their_lists():
    """Pass: whichever list had one first."""
    items = Items(np.array([4, 5, 6]))
    items.add(np.array([0, 2]), pa.array([1, 2]))
    items.add(np.array([2]), pa.array([3]))
    offsets, (held,), owners = items.lists(pa.int64())
    assert pa.ListArray.from_arrays(offsets, held).to_pylist() == [[1], [], [2, 3]]
    assert owners.tolist() == [0, 2, 2]


def test_values_are_spread():
    """Pass: nulls between."""
    assert spread(pa.array([1, 2]), np.array([True, False, True])).to_pylist() == [1, None, 2]


def test_keys_that_are_there_twice_are_found():
    """Pass: in one list alone."""
    assert twice(np.array([0, 0, 1, 3, 3]), pa.array(["a", "b", "a", "c", "c"])).tolist() == [3]


def test_what_is_inside_ends_by_itself():
    """Pass: what is longer than the value is marked, and what is behind is read on."""
    made = cursors(b"\1\2\3", b"\1", b"\1\2")
    ends = made.enter(made.rows, np.array([2, 2, 0]))
    assert made.marked.tolist() == [False, True, False]
    assert made.ended(made.rows).tolist() == [False, True, True]
    rows = made.rows[:1]
    assert made.between(rows, made.at[rows] * 0).to_pylist() == [b""]
    assert (made.byte(rows)[0], made.byte(rows)[0]) == (1, 2)
    assert made.ended(rows).all()
    made.leave(made.rows, ends)
    assert made.byte(made.rows).tolist() == [3, 0, 1]
    assert made.between(rows, made.at[rows] * 0).to_pylist() == [b"\1\2\3"]


def test_values_are_read_side_by_side_or_alone():
    """Pass: in their order, with the reasons of those that are refused."""

    def together(made):
        rows = made.rows[~made.marked]
        for some in (rows[rows % 2 == 1], rows[rows % 2 == 0][1:]):
            yield some, [pa.array(made.varint(some).astype("int32"))]

    def alone(value):
        if len(value) > 2:
            raise ValueError("too long")
        return [-len(value)]

    values = pa.array([b"\1", b"\2", b"\3", b"\4\0", None, b"", b"\xff\xff\1\1"], pa.binary())
    (found,), reasons = read_values(values, [pa.int32()], together, alone)
    assert found.to_pylist() == [-1, 2, 3, -2, None, 0, None]
    assert reasons == [None, None, None, None, "the value is null", None, "too long"]
    assert read_values(values[:0], [pa.int32()], together, alone) == ([found[:0]], [])
