from mainstem_testkit import DeliverySuite


class TestStubborn(DeliverySuite):
    use = "stubborn"

    def options(self):
        return {"pause": 0.0}
