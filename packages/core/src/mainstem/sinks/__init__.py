"""For authors of sinks: writing a batch from Spark's tasks, or by its data sources, and ledgers."""

from mainstem.sinks.ledger import Step as Step
from mainstem.sinks.ledger import ledger_step as ledger_step
from mainstem.sinks.ledger import old_copy as old_copy
from mainstem.sinks.spark_writer import write_by_relation as write_by_relation
from mainstem.sinks.tasks import LANE as LANE
from mainstem.sinks.tasks import NUMBER as NUMBER
from mainstem.sinks.tasks import Refused as Refused
from mainstem.sinks.tasks import batch_of as batch_of
from mainstem.sinks.tasks import in_partitions as in_partitions
from mainstem.sinks.tasks import micros_of as micros_of
from mainstem.sinks.tasks import numbered as numbered
from mainstem.sinks.tasks import values_of as values_of
from mainstem.sinks.tasks import write_by_tasks as write_by_tasks
