"""Arrow, of which its stubs know a part alone."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow
import pyarrow.compute

pa: Any = pyarrow
pc: Any = pyarrow.compute

Array: TypeAlias = Any
DataType: TypeAlias = Any
