"""Lets the tests of webhooks, and the processes that they start, share their helpers."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
