"""What stands before and behind a row of its key: whole columns give what Polars does group by group."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mainstem_keyed_state import runs
from mainstem_keyed_state.logic import KEY

ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, b"", b"a", b"ab"]),
        st.integers(0, 2),
        st.one_of(st.none(), st.integers(-5, 5)),
        st.integers(-5, 5),
    ),
    max_size=30,
)
VALUE, WHOLE = pl.col("value"), pl.col("whole")


def _frame(rows: list[tuple[bytes | None, int, int | None, int]]) -> pl.DataFrame:
    columns = {KEY: pl.Binary(), "tie": pl.Int64(), "value": pl.Int64(), "whole": pl.Int64()}
    return pl.DataFrame(rows, columns, orient="row").sort(KEY, "tie", maintain_order=True)


@given(ROWS)
@pytest.mark.parametrize("by", [(), (KEY, "tie")], ids=["key", "two columns"])
def test_whole_columns_give_what_each_group_does(
    by: tuple[str, ...], rows: list[tuple[bytes | None, int, int | None, int]]
) -> None:
    found = _frame(rows).select(
        before=runs.before(VALUE, *by),
        behind=runs.behind(VALUE, *by),
        first=runs.first(WHOLE, *by),
        place=runs.place(*by),
        total=runs.total(WHOLE, *by),
        most=runs.most(WHOLE, *by),
    )
    wanted = _frame(rows).select(
        before=VALUE.shift(1).over(by or KEY),
        behind=VALUE.shift(-1).over(by or KEY),
        first=WHOLE.first().over(by or KEY),
        place=pl.int_range(pl.len(), dtype=pl.Int64()).over(by or KEY),
        total=WHOLE.cum_sum().over(by or KEY),
        most=WHOLE.cum_max().over(by or KEY),
    )
    assert found.equals(wanted)


def test_the_ends_of_time_are_compared_exactly() -> None:
    kind = pl.Datetime("us", "UTC")
    ends = pl.Series([-(2**62), 2**62, 0, 0, -(2**62)], dtype=pl.Int64()).cast(kind)
    frame = pl.DataFrame({KEY: pl.Series([b"a", b"a", b"a", b"b", b"b"]), "end": ends})
    found = frame.select(runs.most(pl.col("end"))).to_series().to_physical().to_list()
    assert found == [-(2**62), 2**62, 2**62, 0, 0]
