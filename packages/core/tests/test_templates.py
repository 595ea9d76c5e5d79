from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mainstem.columns import Template, TemplateText
from pydantic import TypeAdapter, ValidationError

TEXTS = st.text("abx:-%é{}/5", max_size=4)


def test_a_template_names_its_columns_each_once():
    assert Template("a:{id}:{at}:{id}").columns == ["id", "at"]
    assert Template("plain").columns == []


def test_a_row_fills_a_template_whatever_the_case_of_its_names():
    assert Template("customer:{ID}/{{x}}").filled({"id": "7"}) == "customer:7/{x}"


def test_a_row_without_one_of_the_columns_has_no_name():
    assert Template("{id}:{at}").filled({"id": "7"}) is None


def test_what_all_names_match_keeps_the_text_between():
    made = Template("a*{id}.b").pattern("*", lambda text: text.replace("*", "\\*"))
    assert made == "a\\**.b"


def test_sql_holds_text_and_names_as_they_are():
    made = Template("it's {we`ird}").sql()
    assert made == "concat('it\\'s ', CAST(`we``ird` AS STRING))"


def test_a_template_is_made_of_columns_with_braces_in_their_names_too():
    made = Template.of(["a", "b{}"], ":")
    assert made.columns == ["a", "b{}"]
    assert made.filled({"a": "1", "b{}": "2"}) == "1:2"


@pytest.mark.parametrize("text", ["{id", "id}", "{}", "{id!r}", "{id:>3}"])
def test_what_is_no_template_says_so(text):
    with pytest.raises(ValidationError, match=r"\{id\}"):
        TypeAdapter(TemplateText).validate_python(text)


@given(
    st.sampled_from(
        ["c:{a}:{b}", "{a}-{b}", "{a}xb{b}", "{a}%{b}", "x{{{a}}}é{b}", "{a}/5/{b}", "{a}ab:{b}:"]
    ),
    st.lists(st.tuples(TEXTS, TEXTS), min_size=2, max_size=6, unique=True),
)
def test_no_two_rows_have_one_name(text, rows):
    """Pass: whatever their values are, also those with what stands between the columns."""
    template = Template(text)
    names = [template.row_filled({"a": a, "b": b}) for a, b in rows]
    assert len(set(names)) == len(rows)


def test_a_name_of_one_column_and_plain_values_are_as_they_read():
    assert Template("c:{a}").row_filled({"a": "x:%y"}) == "c:x:%y"
    assert Template("c:{a}:{b}").row_filled({"a": "x", "b": "y-1"}) == "c:x:y-1"
    assert Template("c:{a}:{b}").row_filled({"a": "x:y", "b": "5%:"}) == "c:x%3Ay:5%:"
    order = Template("user:{a}:order:{b}")
    assert order.row_filled({"a": "acme", "b": "red-1"}) == "user:acme:order:red-1"
    assert Template("{a}-{b}").row_filled({"a": "t", "b": "0-0-0"}) == "t-0-0-0"


def test_columns_without_a_text_between_them_are_refused():
    Template("{a}:{b}").apart()
    for text in ("{a}{b}", "{a}5{b}", "{a}:{b}{c}"):
        with pytest.raises(ValueError, match="need a sign between them"):
            Template(text).apart()


@pytest.mark.in_turn
@pytest.mark.parametrize("text", ["c:{a}:{b}", "{a}%{b}", "{a}/5/{b}:{a}", "{a}xb{b}"])
def test_sql_makes_the_same_names(spark, text):
    """Pass: for values with all signs that are written otherwise."""
    template = Template(text)
    values = ["", "x:y", "5%", "%3A", "a/5/b", "xb", "%%x"]
    rows = [(a, b) for a in values for b in values]
    frame = spark.createDataFrame(rows, "a STRING, b STRING")
    found = [row[0] for row in frame.selectExpr(template.row_sql()).collect()]
    assert found == [template.row_filled({"a": a, "b": b}) for a, b in rows]
