"""What a crash point costs when nothing arms it. Goal: < 50 ns."""

from __future__ import annotations

import timeit

from mainstem import failpoint

NUMBER = 2_000_000
GOAL = 50


def main() -> None:
    """Time a pass against an empty call."""
    empty = min(timeit.repeat("f('x')", "f = lambda name: False", number=NUMBER, repeat=5))
    armed = min(timeit.repeat("f('x')", globals={"f": failpoint}, number=NUMBER, repeat=5))
    one, other = (1e9 * seconds / NUMBER for seconds in (armed, empty))
    print(f"an unarmed crash point {one:.0f} ns; an empty call {other:.0f} ns; goal: < {GOAL} ns")


if __name__ == "__main__":
    main()
