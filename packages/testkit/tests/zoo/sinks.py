"""What can be wrong with a sink: one class, and one word, for each fault, beside the sound `Table`."""

from __future__ import annotations

import json
import pickle
import time
from contextlib import suppress
from dataclasses import replace

from mainstem import (
    MESSAGES,
    Accepts,
    Changelog,
    FencedError,
    Prepared,
    Sink,
    SinkCapabilities,
    Typed,
)
from mainstem.contracts.shapes import CHANGE_TYPE

from zoo.table import Table


class Changes(Table):
    """Takes changes alone, each with its `_id`."""

    accepts = Accepts((Changelog,))
    capabilities = SinkCapabilities(replaces_batch=True, needs_id=True)

    def packed(self, row):
        assert len(row["_id"]) == 16
        assert row[CHANGE_TYPE]
        return super().packed(row)


class MessageTable(Table):
    """Takes messages alone."""

    accepts = MESSAGES


class Prepares(Table, Prepared):
    """Writes no columns but those that it was made ready for."""

    def prepare(self, columns, shape):
        self.ready = [(column.name, column.type) for column in columns], shape

    def checked(self, frame, batch):
        found = [(field.name, field.dataType.simpleString()) for field in frame.schema]
        assert self.ready == (found, batch.shape)

    def write(self, frame, batch):
        self.checked(frame, batch)
        return super().write(frame, batch)

    def write_once(self, frame, batch):
        self.checked(frame, batch)
        return super().write_once(frame, batch)

    def stage(self, frame, batch):
        self.checked(frame, batch)
        return super().stage(frame, batch)

    def write_new(self, frame, batch):
        self.checked(frame, batch)
        return super().write_new(frame, batch)

    def write_keyed(self, frame, batch):
        self.checked(frame, batch)
        return super().write_keyed(frame, batch)


class Doubling(Table):
    """Writes a retried batch beside the first."""

    def replace(self, db, table, batch):
        pass


class Remembering(Doubling):
    """Knows by the memory of its process alone which batches are in."""

    known = set()

    def write(self, frame, batch):
        return None if self.name(batch) in self.known else super().write(frame, batch)

    def enter(self, db, batch, refused):
        super().enter(db, batch, refused)
        self.known.add(self.name(batch))


class TidyingUp(Doubling):
    """Takes back what a failed batch has written, as long as its process lives."""

    def write(self, frame, batch):
        try:
            return super().write(frame, batch)
        except BaseException:
            with self.connect() as db:
                Table.replace(self, db, "written", batch)
            raise


class Half(Table):
    """Enters a batch into its ledger first, so that the tail of a cut one never comes."""

    def write(self, frame, batch):
        if self.committed(batch):
            return
        with self.connect() as db:
            self.enter(db, batch, [])
        for row in frame.toLocalIterator():
            with self.connect() as db:
                self.fill(db, [row], batch)


class Deaf(Table):
    """Goes on when the external system fails."""

    def write(self, frame, batch):
        try:
            return super().write(frame, batch)
        except ConnectionError:
            return None


class DeafToTasks(Table):
    """Goes on when a task fails."""

    def sorted_out(self, frame):
        try:
            return super().sorted_out(frame)
        except Exception:
            return [], []


class Coarse(Table):
    """Cuts times to the second."""

    def packed(self, row):
        times = {n: v.replace(microsecond=0) for n, v in row.asDict().items() if hasattr(v, "hour")}
        return pickle.dumps({**row.asDict(recursive=True), **times})


class Blank(Table):
    """Knows no null text."""

    def packed(self, row):
        values = {n: "" if v is None else v for n, v in row.asDict(recursive=True).items()}
        return pickle.dumps(values)


class Late(Table):
    """Finds out with the first batch that it can't hold a type."""

    def packed(self, row):
        if any(isinstance(value, list) for value in row):
            raise TypeError("no lists, please")
        return super().packed(row)


class Mumbling(Table, Typed):
    """Refuses a type without saying where."""

    def check_types(self, columns, shape):
        from mainstem import OptionError

        if any(column.type == "binary" for column in columns):
            raise OptionError("no bytes, please")


class Backwards(Table):
    """Lets older rows overwrite newer ones."""

    newer = ""


class Undying(Table):
    """Forgets what was deleted, so that an older row comes back."""

    def set(self, db, key, sequence, row, when):
        super().set(db, key, sequence, row, when)
        db.execute("DELETE FROM keyed WHERE row IS NULL")


class Boaster(Table):
    """Says that every batch is in."""

    def committed(self, batch):
        return True


class Forgetter(Table):
    """Says that no batch is in."""

    def committed(self, batch):
        return False


class OpenStage(Table):
    """Stages where everybody reads."""

    def stage(self, frame, batch):
        with self.connect() as db:
            self.fill(db, frame.collect(), batch)


class Litter(Table):
    """Leaves what an earlier try has staged."""

    def discard(self, batch):
        pass


class Nameless(Table):
    """Takes the batches of all checkpoints for one."""

    def name(self, batch):
        return "", batch.id


class Sinkless(Table):
    """Takes the batches of all sinks of a query for one."""

    def name(self, batch):
        return batch.query_id, batch.id


class Swallower(Table):
    """Drops rows that it does not want."""

    def told(self, refused, batch):
        return None


class Counting(Table):
    """Counts the rows before it writes them."""

    def write(self, frame, batch):
        frame.count()
        return super().write(frame, batch)


class Glancing(Table):
    """Looks at the first rows of a batch alone, and nobody can read them."""

    capabilities = SinkCapabilities()

    def write(self, frame, batch):
        frame.take(21)


class Amnesiac(Table):
    """Takes back what others wrote, too."""

    def forget(self, query_id, after):
        with self.connect() as db:
            db.execute("DELETE FROM written WHERE batch > ?", (after,))


class Fenceless(Table):
    """Lets a run write that has been replaced."""

    def fence(self, db, batch):
        pass


class FencedByBatch(Table):
    """Knows a run that has been replaced by the batches that both have written, and no others."""

    def run(self, batch):
        return f"{batch.query_id} {batch.id}"


class FencesLedgersAlone(Table):
    """Fences off a run that has been replaced where there is a ledger, and where it is compared not."""

    def write_new(self, frame, batch):
        return super().write_new(frame, replace(batch, epoch=99))

    def write_keyed(self, frame, batch):
        return super().write_keyed(frame, replace(batch, epoch=99))


class FencesAllButKeys(Table):
    """Fences off a run that has been replaced, but not where it writes by key."""

    def write_keyed(self, frame, batch):
        return super().write_keyed(frame, replace(batch, epoch=99))


class Trampling(Table):
    """Lets a run that has been replaced remove what the next one has staged."""

    def discard(self, batch):
        with suppress(FencedError), self.connect() as db:
            self.fence(db, batch)
        with self.connect() as db:
            db.execute("DELETE FROM staged WHERE checkpoint = ?", self.name(batch)[:1])


class Hollow(Table):
    """Publishes a batch of which nothing is staged any more, and so leaves no place for its rows."""

    def discard(self, batch):
        with self.connect() as db:
            wanted = "checkpoint = ? AND epoch <= ?"
            db.execute(f"DELETE FROM staged WHERE {wanted}", (self.name(batch)[0], batch.epoch))


class KnowsNobody(Table):
    """Writes rows again that it has."""

    def write_new(self, frame, batch):
        good, refused = self.sorted_out(frame)
        with self.connect() as db:
            self.fence(db, batch)
            self.fill(db, good, batch)
        return self.told(refused, batch)


class ForgetsRefusals(Table):
    """Tells what a batch has refused once, and never again."""

    def enter(self, db, batch, refused):
        super().enter(db, batch, [])


class ComparesBatches(Table):
    """Takes the ids of batches for a sequence, across checkpoints too."""

    def when(self, batch):
        return self.newer


class Incurious(Table):
    """Leaves a batch that is in unread."""

    def write(self, frame, batch):
        return None if self.committed(batch) else super().write(frame, batch)


class Careless(Table):
    """May lose what it has taken, and loses it when nothing has happened."""

    capabilities = SinkCapabilities(lossy=True, why="it is careless")

    def fill(self, db, rows, batch):
        super().fill(db, rows[1:], batch)


class Trusting(Table):
    """Takes every batch up to the last for one that is in."""

    def entered(self, db, batch):
        found = "SELECT refused FROM ledger WHERE checkpoint = ? AND batch >= ?"
        row = db.execute(found, self.name(batch)).fetchone()
        return json.loads(row[0]) if row else None


class InPlace(Table):
    """Builds in the place that readers see."""

    def beside(self, suffix):
        return type(self)(self.options)

    def clear(self):
        pass

    def swap(self, built):
        pass


class Adding(Table):
    """Leaves what was there before a swap."""

    def empty(self, db, table):
        pass


class Blinking(Table):
    """Shows nothing for a moment while it swaps."""

    def empty(self, db, table):
        super().empty(db, table)
        db.commit()
        time.sleep(0.2)


class Braggart(Table):
    """Says that tests have shown more than its strategy promises."""

    capabilities = SinkCapabilities(shown=Table.shown)


SINKS: dict[str, type[Sink]] = {
    "zoo_table": Table,
    "zoo_changes": Changes,
    "zoo_message_table": MessageTable,
    "zoo_prepares": Prepares,
    "zoo_doubling": Doubling,
    "zoo_remembering": Remembering,
    "zoo_tidying_up": TidyingUp,
    "zoo_half": Half,
    "zoo_deaf": Deaf,
    "zoo_deaf_to_tasks": DeafToTasks,
    "zoo_coarse": Coarse,
    "zoo_blank": Blank,
    "zoo_late": Late,
    "zoo_mumbling": Mumbling,
    "zoo_backwards": Backwards,
    "zoo_undying": Undying,
    "zoo_boaster": Boaster,
    "zoo_forgetter": Forgetter,
    "zoo_open_stage": OpenStage,
    "zoo_litter": Litter,
    "zoo_nameless": Nameless,
    "zoo_sinkless": Sinkless,
    "zoo_swallower": Swallower,
    "zoo_counting": Counting,
    "zoo_glancing": Glancing,
    "zoo_amnesiac": Amnesiac,
    "zoo_fenceless": Fenceless,
    "zoo_fenced_by_batch": FencedByBatch,
    "zoo_fences_ledgers_alone": FencesLedgersAlone,
    "zoo_fences_all_but_keys": FencesAllButKeys,
    "zoo_trampling": Trampling,
    "zoo_hollow": Hollow,
    "zoo_knows_nobody": KnowsNobody,
    "zoo_forgets_refusals": ForgetsRefusals,
    "zoo_compares_batches": ComparesBatches,
    "zoo_incurious": Incurious,
    "zoo_careless": Careless,
    "zoo_trusting": Trusting,
    "zoo_in_place": InPlace,
    "zoo_adding": Adding,
    "zoo_blinking": Blinking,
    "zoo_braggart": Braggart,
}
