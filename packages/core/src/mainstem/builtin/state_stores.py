"""State stores: `rocksdb` and `memory`, both Spark's own."""

from __future__ import annotations

from collections.abc import Mapping

from mainstem import Options, Size, StateStore, StateStoreCapabilities, option

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_PACKAGE = "org.apache.spark.sql.execution.streaming.state"


class RocksDBOptions(Options):
    """Options of `rocksdb`."""

    memory: Size | None = option(
        None,
        ge=1_000_000,
        description="The most memory that all stores of one executor take together; unbounded when "
        "left out.",
    )


class RocksDB(StateStore):
    """Keeps state in RocksDB on local disk, and its changes in the checkpoint."""

    options: RocksDBOptions
    capabilities = StateStoreCapabilities(keyed=True)

    def conf(self) -> Mapping[str, str]:
        prefix = "spark.sql.streaming.stateStore.rocksdb"
        settings = {
            _PROVIDER: f"{_PACKAGE}.RocksDBStateStoreProvider",
            f"{prefix}.changelogCheckpointing.enabled": "true",
        }
        if self.options.memory is not None:
            settings[f"{prefix}.boundedMemoryUsage"] = "true"
            settings[f"{prefix}.maxMemoryUsageMB"] = str(max(1, self.options.memory // 1_000_000))
        return settings


class MemoryOptions(Options):
    """Options of `memory`: none."""


class Memory(StateStore):
    """Keeps state in the executors' memory, and all of it in the checkpoint from time to time."""

    options: MemoryOptions

    def conf(self) -> Mapping[str, str]:
        return {_PROVIDER: f"{_PACKAGE}.HDFSBackedStateStoreProvider"}
