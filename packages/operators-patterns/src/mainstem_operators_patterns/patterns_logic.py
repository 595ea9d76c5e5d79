"""What `match_patterns` does: many patterns, which come and go as rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import polars as pl
from mainstem import COMMIT_VERSION
from mainstem_keyed_state import KEY, Done, Step, Table
from mainstem_keyed_state.changes import DELETED, SEQUENCE, newest, replaced

from mainstem_operators_patterns.match_logic import (
    COURSE_PATTERN,
    COURSES,
    PATTERN,
    Book,
    MatchLogic,
    Told,
)
from mainstem_operators_patterns.matching import Rules
from mainstem_operators_patterns.vocabulary import Vocabulary

#: The column of a pattern's text at the port, and the port's name, as that of the table; and, in that, by
#: which change the text became what it is.
TEXT, PATTERNS, SINCE = "__text", "patterns", "__since"
#: The rules of texts that were read, by vocabulary: tasks come and go, and their process stays.
_KNOWN: dict[tuple[str, str], Rules] = {}
_MOST_KNOWN = 50_000
_TOKEN_BYTES = 16


class PatternsLogic(MatchLogic):
    """Matches rows with all patterns that are there.

    Args:
        rows, patterns: the columns of the ports; a pattern has those that name it, `TEXT`, and what
            `newest` asks for.
    """

    everywhere = (PATTERNS,)

    def __init__(
        self,
        rows: pl.Schema,
        patterns: pl.Schema,
        vocabulary: Vocabulary,
        values: Sequence[str],
        told: Told,
    ) -> None:
        super().__init__(rows, None, values, told)
        self._vocabulary = vocabulary
        self.ports = {"input": rows, PATTERNS: patterns}
        kept = {name: kind for name, kind in patterns.items() if name != COMMIT_VERSION}
        kept[SINCE] = pl.String()
        courses = pl.Schema({**self.tables[COURSES].columns, COURSE_PATTERN: pl.Binary()})
        self.tables = {
            **self.tables,
            COURSES: Table(courses, due=self.tables[COURSES].due),
            PATTERNS: Table(pl.Schema(kept), shared=True),
        }
        refused = pl.Schema({"reason": pl.String(), "payload": pl.Binary()})
        self.outputs = {**self.outputs, "rejected": refused}

    def share(self, step: Step) -> Done:
        """Note the patterns that are new, and forget those that are gone; tell which can't be read."""
        state = step.state[PATTERNS]
        came = step.rows[PATTERNS].select(n for n in state.columns if n != SINCE)
        fresh, _ = newest(came, state.select(came.columns))
        live = state.filter(~pl.col(DELETED))
        known = {key: (text, at) for key, text, at in live.select(KEY, TEXT, SINCE).iter_rows()}
        since = []
        for key, text, sequence in fresh.select(KEY, TEXT, SEQUENCE).iter_rows():
            before, at = known.get(key, (None, None))
            since.append(at if text is not None and text == before else str(sequence))
        fresh = fresh.with_columns(pl.Series(SINCE, since, pl.String())).select(state.columns)
        reasons = [
            None if gone else self._wrong(text)
            for text, gone in fresh.select(TEXT, DELETED).iter_rows()
        ]
        wrong = pl.Series("reason", reasons, pl.String())
        refused = fresh.with_columns(wrong).filter(wrong.is_not_null())
        # One that can't be read is no pattern; of its id there is none any more.
        fresh = fresh.with_columns(pl.col(DELETED) | wrong.is_not_null())
        outputs = {}
        if not refused.is_empty():
            payload = pl.col(TEXT).fill_null("").cast(pl.Binary).alias("payload")
            outputs["rejected"] = refused.select("reason", payload)
        return Done(outputs, {PATTERNS: replaced(state, fresh)})

    def _wrong(self, text: str | None) -> str | None:
        """Return why a text is no pattern."""
        if text is None:
            return "the pattern is null"
        try:
            self._read(text)
        except ValueError as error:
            return f"pattern: {error}"
        return None

    def _read(self, text: str) -> Rules:
        place = (self._vocabulary.mark, text)
        found = _KNOWN.get(place)
        if found is None:
            if len(_KNOWN) >= _MOST_KNOWN:
                _KNOWN.clear()
            found = _KNOWN[place] = self._vocabulary.read(text)
        return found

    def book(self, step: Step) -> Book:
        there = step.state[PATTERNS].filter(~pl.col(DELETED)).sort(KEY)
        texts = there[TEXT].to_list()
        parts = zip(there[KEY], texts, there[SINCE], strict=True)
        tokens = [_token(*each) for each in parts]
        rules = {token: self._read(text) for token, text in zip(tokens, texts, strict=True)}
        names = there.select(pl.Series(PATTERN, tokens, pl.Binary()), KEY, *self._told.named)
        return Book(rules, names)

    def let_go(
        self, step: Step, refused: Sequence[tuple[bytes, str]]
    ) -> Mapping[str, pl.DataFrame]:
        if not refused:
            return {}
        there = step.state[PATTERNS].filter(~pl.col(DELETED))
        texts = {_token(*each): each[1] for each in there.select(KEY, TEXT, SINCE).iter_rows()}
        rows = {
            "reason": [f"pattern: {why}; those of the key are let go of" for _, why in refused],
            "payload": [texts[token].encode() for token, _ in refused],
        }
        return {"rejected": pl.DataFrame(rows, schema=self.outputs["rejected"])}


def _token(key: bytes, text: str, since: str) -> bytes:
    """Return what a pattern's partial matches are known by: those of another text, or another time that
    it was there, are others.
    """
    whole = b"\0".join((key, text.encode(), since.encode()))
    return hashlib.sha256(whole).digest()[:_TOKEN_BYTES]
