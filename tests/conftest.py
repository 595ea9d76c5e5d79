"""The fixture `pipeline` of the core's tests, for tests across packages."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_FILE = Path(__file__).parent.parent / "packages" / "core" / "tests" / "spark" / "conftest.py"
_SPEC = importlib.util.spec_from_file_location("core_conftest", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
_MODULE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_MODULE)
Pipeline = _MODULE.Pipeline
pipeline = _MODULE.pipeline
