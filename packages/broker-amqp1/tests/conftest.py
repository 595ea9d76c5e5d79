"""Lets the tests share their helper modules; without the library, which needs a C compiler, there are none."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

if importlib.util.find_spec("proton") is None:
    missing = (
        "python-qpid-proton is not installed (services/compiler.sh): tests of AMQP 1.0 are SKIPPED"
    )
    if os.environ.get("MAINSTEM_REQUIRE_SERVICES"):
        raise RuntimeError(missing)
    warnings.warn(missing, stacklevel=1)
    collect_ignore_glob = ["test_*.py"]
