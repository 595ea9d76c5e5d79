"""The strategies pass the standard tests: what each promises holds, whatever happens to its calls."""

from __future__ import annotations

from mainstem_testkit import DeliverySuite


class TestIdempotent(DeliverySuite):
    use = "idempotent"


class TestNumbered(DeliverySuite):
    use = "numbered"


class TestTransactional(DeliverySuite):
    use = "transactional"


class TestStaged(DeliverySuite):
    use = "staged"
