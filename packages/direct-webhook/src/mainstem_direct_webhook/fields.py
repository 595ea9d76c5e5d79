"""What the options of source and sink are made of: texts in headers."""

from __future__ import annotations

import re

#: A name of a header (RFC 9110, section 5.6.2).
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: A value of a header: visible characters, with spaces and tabs within.
VALUE = re.compile(r"[!-~\x80-\xff]([ \t!-~\x80-\xff]*[!-~\x80-\xff])?|")
