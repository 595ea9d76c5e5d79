from __future__ import annotations

import pytest
from mainstem.columns import Template, TemplateText
from pydantic import TypeAdapter, ValidationError


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
