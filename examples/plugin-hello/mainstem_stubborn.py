import time

from mainstem import Delivery, FencedError, OptionError, Options, Promise, hookimpl, option

class StubbornOptions(Options):
    tries: int = option(3, gt=0, description="How often a batch is tried before the run fails.")
    pause: float = option(1.0, ge=0, description="Seconds between tries.")

class Stubborn(Delivery):
    """Tries a batch again before it fails the run; for sinks where a batch replaces itself."""
    options: StubbornOptions

    def promise(self, sink, shape):
        if not sink.capabilities.replaces_batch:
            raise OptionError("the sink would double a batch that is retried (replaces_batch)")
        return Promise(
            grounds=("a batch that is retried replaces what its first try wrote",),
            assumptions=sink.capabilities.assumptions,
        )

    def write(self, sink, frame, batch):
        for left in reversed(range(self.options.tries)):
            try:
                return sink.write(frame, batch)
            except FencedError:
                raise  # another run has taken over
            except Exception:
                if not left:
                    raise
                time.sleep(self.options.pause)

@hookimpl
def mainstem_delivery():
    return {"stubborn": Stubborn}
