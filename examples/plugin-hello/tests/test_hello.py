from mainstem_testkit import SourceSuite


class TestHello(SourceSuite):
    use = "hello"
    wrong_options = {"rows_per_second": {"rows_per_second": 0}}

    def options(self):
        return {"rows_per_second": 20}

    def number(self, row):
        return row["n"]
