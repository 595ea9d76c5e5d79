"""SQL over the text of a JSON message, in the columns `__raw` (bytes) and `__text`."""

from __future__ import annotations

#: True for nearly every row that is one flat object and UTF-8: nothing follows the first brace, and
#: nothing had to be replaced to read the bytes as text. What it is not true for may still be good.
PLAIN = r"__text RLIKE '^[ \\t\\r\\n]*\\{[^}\\x{FFFD}]*+}[ \\t\\r\\n]*\\z'"
#: A JSON parser stops at the end of the first value. So the text is wrapped twice, as none can break
#: out of both wraps.
_TRAILING = (
    "NOT (json_array_length(concat('[', __text, ']')) <=> 1"
    " AND size(json_object_keys(concat('{\"v\":', __text, '}'))) <=> 1)"
)

#: A condition and the words for it. These are asked before anything is looked up in the text.
NULL = ("__raw IS NULL", "'the value is null'")
NOT_UTF8 = ("NOT is_valid_utf8(__text)", "'not UTF-8'")
EMPTY = ("trim(__text) = ''", "'the value is empty'")
NOT_JSON = ("try_parse_json(__text) IS NULL", "'not JSON'")
NO_OBJECT = ("json_object_keys(__text) IS NULL", "'no JSON object'")
MORE_TEXT = (_TRAILING, "'more text after the JSON value'")
