"""Lets the tests share their helper modules."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
# Frames of a few rows: threads cost them more than they give.
os.environ.setdefault("POLARS_MAX_THREADS", "1")
