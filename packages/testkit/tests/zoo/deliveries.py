"""Delivery strategies with one fault each, beside sound ones: what the suite must catch, and what not."""

from __future__ import annotations

import itertools
from dataclasses import replace

from mainstem import (
    Changelog,
    Delivery,
    DeliveryCapabilities,
    IdentifiedWrites,
    KeyedWrites,
    OptionError,
    Options,
    PipelineError,
    Promise,
    Sink,
    Staged,
    Transactional,
    option,
)


class ZooOptions(Options):
    """What a plan has to give, so that it takes none of these by itself."""

    on_purpose: bool = option(description="Whether the strategy is meant.")


class Once(Delivery):
    """Sound: writes a batch and its ledger entry in one transaction."""

    options: ZooOptions
    needs: type = Transactional

    def promise(self, sink, shape):
        if not isinstance(sink, self.needs):
            raise OptionError(f"the sink can't do what is needed: {self.needs.__name__}")
        return Promise(assumptions=sink.capabilities.assumptions)

    def write(self, sink, frame, batch):
        return sink.write_once(frame, batch)


class Patient(Once):
    """Sound: asks the ledger before each try, and tries again by itself, as often as it may in its life."""

    def __init__(self, options):
        super().__init__(options)
        self.left = 3

    def write(self, sink, frame, batch):
        while True:
            try:
                sink.committed(batch)
                return super().write(sink, frame, batch)
            except ConnectionError:
                self.left -= 1
                if self.left < 0:
                    raise


class Keyed(Once):
    """Sound: compares and sets by key; takes no events."""

    needs = KeyedWrites

    def promise(self, sink, shape):
        if not isinstance(shape, Changelog):
            raise OptionError("takes changes alone")
        return super().promise(sink, shape)

    def write(self, sink, frame, batch):
        return sink.write_keyed(frame, batch)


class Stages(Once):
    """Sound: stages a batch, then publishes it."""

    needs = Staged

    def write(self, sink, frame, batch):
        sink.discard(batch)
        return sink.publish(sink.stage(frame, batch), batch)


class ById(Once):
    """Sound: lets the sink skip the rows that it has."""

    capabilities = DeliveryCapabilities(needs_id=True, knows_rows=True)
    needs = IdentifiedWrites

    def promise(self, sink, shape):
        if isinstance(shape, Changelog):
            raise OptionError("takes events alone")
        return super().promise(sink, shape)

    def write(self, sink, frame, batch):
        return sink.write_new(frame, batch)


class Boasts(Once):
    """Promises more than a sink gives that appends."""

    needs = Sink

    def write(self, sink, frame, batch):
        return sink.write(frame, batch)


class AsksThenWrites(Once):
    """Asks the ledger, and then writes past it."""

    def write(self, sink, frame, batch):
        return None if sink.committed(batch) else sink.write(frame, batch)


class WritesThenAsks(Once):
    """Asks the ledger when all is too late."""

    def write(self, sink, frame, batch):
        refused = sink.write(frame, batch)
        if not sink.committed(batch):
            raise PipelineError("the ledger does not have the batch")
        return refused


class NeverDiscards(Stages):
    """Leaves what earlier tries have staged."""

    def write(self, sink, frame, batch):
        return sink.publish(sink.stage(frame, batch), batch)


class TidiesUpAfterErrors(Stages):
    """Discards what it has staged if it is told of a failure; a run that was killed tells nobody."""

    def write(self, sink, frame, batch):
        try:
            return sink.publish(sink.stage(frame, batch), batch)
        except ConnectionError:
            sink.discard(batch)
            raise


class SwallowsErrors(Once):
    """Goes on when the external system does not answer."""

    def write(self, sink, frame, batch):
        try:
            return super().write(sink, frame, batch)
        except ConnectionError:
            return None


class SwallowsRefused(Once):
    """Keeps what the sink refused to itself."""

    def write(self, sink, frame, batch):
        super().write(sink, frame, batch)


class SkipsWhatIsIn(Once):
    """Asks the ledger first, and so can't tell what an earlier try had refused."""

    def write(self, sink, frame, batch):
        return None if sink.committed(batch) else super().write(sink, frame, batch)


class TakesAnything(Once):
    """Promises what it needs an ability for, whether the sink has it or not."""

    def promise(self, sink, shape):
        return Promise()


class AsksToPromise(Once):
    """Looks at the external system before there is a run."""

    needs = Staged

    def promise(self, sink, shape):
        found = super().promise(sink, shape)
        sink.discard(None)
        return found


class TellsNoAbility(Once):
    """Refuses a sink and does not say why."""

    def promise(self, sink, shape):
        if not isinstance(sink, Transactional):
            raise OptionError("not this one")
        return Promise()


class RaisesAnything(Once):
    """Refuses a sink by the error that comes up."""

    def promise(self, sink, shape):
        return Promise(grounds=(sink.write_once.__name__,))


class ChangesItsMind(Once):
    """Promises more each time."""

    asked = itertools.count()

    def promise(self, sink, shape):
        return replace(super().promise(sink, shape), grounds=(f"asked {next(self.asked)} times",))


class CountsRows(Once):
    """Computes the batch once more than the sink does."""

    def write(self, sink, frame, batch):
        frame.count()
        return super().write(sink, frame, batch)


class HidesItsRun(Keyed):
    """Says that each run is the newest."""

    def write(self, sink, frame, batch):
        return super().write(sink, frame, replace(batch, epoch=99))


class DropsTheSequence(Keyed):
    """Sets each change as if it were the newest."""

    def write(self, sink, frame, batch):
        shape = Changelog(batch.shape.columns, batch.shape.key)
        return super().write(sink, frame, replace(batch, shape=shape))


class TriesOnce(Once):
    """Knows the batches that it has tried, and tries none again."""

    def __init__(self, options):
        super().__init__(options)
        self.tried = set()

    def write(self, sink, frame, batch):
        if (batch.query_id, batch.id) in self.tried:
            return None
        self.tried.add((batch.query_id, batch.id))
        return super().write(sink, frame, batch)


class Waits(Once):
    """Waits for a batch to be in before it writes it."""

    def write(self, sink, frame, batch):
        while not sink.committed(batch):
            pass
        return super().write(sink, frame, batch)


class Turns(Once):
    """Does one thing now and another then, by what it keeps outside itself."""

    turns = itertools.count()

    def write(self, sink, frame, batch):
        if next(self.turns) % 3 == 0:
            sink.committed(batch)
        return super().write(sink, frame, batch)


class KnowsRows(Once):
    """Says that rows do no harm when they come again, cut otherwise; the ledger does not know rows."""

    capabilities = DeliveryCapabilities(knows_rows=True)


class NeedsNoId(ById):
    """Has rows told by their `_id`, and does not say that they need one."""

    capabilities = DeliveryCapabilities(knows_rows=True)


DELIVERIES: dict[str, type[Delivery]] = {
    "zoo_once": Once,
    "zoo_patient": Patient,
    "zoo_keyed": Keyed,
    "zoo_stages": Stages,
    "zoo_by_id": ById,
    "zoo_boasts": Boasts,
    "zoo_asks_then_writes": AsksThenWrites,
    "zoo_writes_then_asks": WritesThenAsks,
    "zoo_never_discards": NeverDiscards,
    "zoo_tidies_up_after_errors": TidiesUpAfterErrors,
    "zoo_swallows_errors": SwallowsErrors,
    "zoo_swallows_refused": SwallowsRefused,
    "zoo_skips_what_is_in": SkipsWhatIsIn,
    "zoo_takes_anything": TakesAnything,
    "zoo_asks_to_promise": AsksToPromise,
    "zoo_tells_no_ability": TellsNoAbility,
    "zoo_raises_anything": RaisesAnything,
    "zoo_changes_its_mind": ChangesItsMind,
    "zoo_counts_rows": CountsRows,
    "zoo_hides_its_run": HidesItsRun,
    "zoo_drops_the_sequence": DropsTheSequence,
    "zoo_tries_once": TriesOnce,
    "zoo_waits": Waits,
    "zoo_turns": Turns,
    "zoo_knows_rows": KnowsRows,
    "zoo_needs_no_id": NeedsNoId,
}
