"""The events of a run, as OpenLineage has them: the one module that imports the vendor's library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from mainstem import Dataset, Plan
from mainstem.columns import Column
from mainstem.lineage import Lineage
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    documentation_job,
    error_message_run,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
    set_producer,
)
from openlineage.client.transport.file import FileConfig, FileTransport
from openlineage.client.transport.http import (
    ApiKeyTokenProvider,
    HttpConfig,
    HttpTransport,
    TokenProvider,
)
from openlineage.client.uuid import generate_new_uuid

from mainstem_observer_openlineage.options import OpenLineageOptions

Counts = Mapping[str, Mapping[str, int]]


def client_of(options: OpenLineageOptions) -> OpenLineageClient:
    """Return what sends events to where the options say."""
    transport: Any
    if options.url is not None:
        token = options.token
        login = ApiKeyTokenProvider({"apiKey": token.get_secret_value()}) if token else None
        config = HttpConfig(
            options.url.get_secret_value(),
            options.endpoint,
            options.answer_timeout.total_seconds(),
            auth=login or TokenProvider({}),
        )
        transport = HttpTransport(config)
    else:
        transport = FileTransport(FileConfig(str(options.file), append=True))
    return OpenLineageClient(transport=transport)


class Events:
    """Makes the events of one run.

    Args:
        plan: what runs.
        options: how the job is named.
    """

    def __init__(self, plan: Plan, options: OpenLineageOptions) -> None:
        self._producer = f"urn:mainstem:{version('mainstem-observer-openlineage')}"
        set_producer(self._producer)
        self._plan, self._lineage = plan, Lineage(plan)
        self._run_id = str(generate_new_uuid())
        streaming = plan.document.trigger.available_now is None
        facets: dict[str, Any] = {
            "jobType": job_type_job.JobTypeJobFacet(
                "STREAMING" if streaming else "BATCH", "MAINSTEM", "PIPELINE"
            )
        }
        if plan.document.description:
            text = self._clean(plan.document.description)
            facets["documentation"] = documentation_job.DocumentationJobFacet(text)
        self._job = Job(options.namespace, plan.pipeline, facets)

    def start(self) -> RunEvent:
        """Return what tells that the run begins."""
        return self._event(RunState.START, {})

    def running(self, counts: Counts) -> RunEvent:
        """Return what tells that it goes on.

        Args:
            counts: the rows of each node since the run began, by output.
        """
        return self._event(RunState.RUNNING, counts)

    def end(self, counts: Counts, error: BaseException | None) -> RunEvent:
        """Return what tells how it has ended: whole, by an error, or interrupted."""
        if error is None:
            return self._event(RunState.COMPLETE, counts)
        if not isinstance(error, Exception):
            return self._event(RunState.ABORT, counts)
        told = self._clean(str(error)) or type(error).__name__
        failed = error_message_run.ErrorMessageRunFacet(told, "PYTHON")
        return self._event(RunState.FAIL, counts, {"errorMessage": failed})

    def _event(
        self, state: RunState, counts: Counts, facets: Mapping[str, Any] | None = None
    ) -> RunEvent:
        engine = processing_engine_run.ProcessingEngineRunFacet(version("pyspark"), "Spark")
        return RunEvent(
            eventTime=datetime.now(UTC).isoformat(timespec="milliseconds"),
            producer=self._producer,
            eventType=state,
            run=Run(self._run_id, {"processing_engine": engine, **(facets or {})}),
            job=self._job,
            inputs=self._inputs(counts),
            outputs=self._outputs(counts),
        )

    def _inputs(self, counts: Counts) -> list[InputDataset]:
        found: dict[Dataset, InputDataset] = {}
        for read in self._lineage.reads:
            rows = counts.get(read.stream.node, {}).get(read.stream.output or "rows")
            for dataset in read.datasets:
                one = len(read.datasets) == 1  # else nobody knows of which
                told = found.setdefault(dataset, InputDataset(*self._name(dataset)))
                told.facets = {"schema": self._schema(read.columns)}
                if rows is not None and one:
                    statistics = input_statistics_input_dataset.InputStatisticsInputDatasetFacet
                    told.inputFacets = {"inputStatistics": statistics(rows)}
        return list(found.values())

    def _outputs(self, counts: Counts) -> list[OutputDataset]:
        found: dict[Dataset, OutputDataset] = {}
        for write in self._lineage.writes:
            rows = counts.get(write.sink, {}).get("rows")
            for dataset in write.datasets:
                told = found.setdefault(dataset, OutputDataset(*self._name(dataset)))
                fields = {
                    name: column_lineage_dataset.Fields(self._fields(made))
                    for name, made in write.made_of.items()
                }
                told.facets = {
                    "schema": self._schema(write.columns),
                    "columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(fields),
                }
                if rows is not None and len(write.datasets) == 1:
                    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
                    told.outputFacets = {"outputStatistics": statistics(rows)}
        return list(found.values())

    def _fields(
        self, made: Iterable[tuple[Dataset, str]]
    ) -> list[column_lineage_dataset.InputField]:
        return [
            column_lineage_dataset.InputField(*self._name(dataset), name) for dataset, name in made
        ]

    @staticmethod
    def _schema(columns: Sequence[Column]) -> schema_dataset.SchemaDatasetFacet:
        fields = [
            schema_dataset.SchemaDatasetFacetFields(column.name, column.type) for column in columns
        ]
        return schema_dataset.SchemaDatasetFacet(fields)

    def _name(self, dataset: Dataset) -> tuple[str, str]:
        return self._clean(dataset.namespace), self._clean(dataset.name)

    def _clean(self, text: str) -> str:
        return str(self._plan.scrubber.clean(text))
