from mainstem import Events, Options, Source, hookimpl, option

class HelloOptions(Options):
    rows_per_second: int = option(10, gt=0, description="Rows made each second.")

class Hello(Source):
    """Makes greetings at a steady rate."""
    options: HelloOptions

    def shape(self):
        return Events("greeting STRING, n BIGINT, at TIMESTAMP", identity=["n"])

    def load(self, ctx):
        rate = ctx.read_stream("rate", rowsPerSecond=self.options.rows_per_second)
        return rate.selectExpr("concat('hello ', value) AS greeting", "value AS n", "timestamp AS at")

@hookimpl
def mainstem_sources():
    return {"hello": Hello}
