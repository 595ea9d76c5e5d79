"""For authors of sinks: how a batch is written from Spark's tasks, or by a data source of Spark's."""

from mainstem.sinks.spark_writer import write_by_relation as write_by_relation
from mainstem.sinks.tasks import Refused as Refused
from mainstem.sinks.tasks import in_partitions as in_partitions
from mainstem.sinks.tasks import micros_of as micros_of
from mainstem.sinks.tasks import values_of as values_of
from mainstem.sinks.tasks import write_by_tasks as write_by_tasks
