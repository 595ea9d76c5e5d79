"""The events of a run, as OpenLineage has them: the one module that imports the vendor's library."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from mainstem import Dataset, Plan
from mainstem.columns import Column
from mainstem.lineage import Lineage
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


def transport_of(options: OpenLineageOptions) -> HttpTransport | FileTransport:
    """Return what sends events to where the options say; the library's own settings are not looked at."""
    if options.url is not None:
        token = options.token
        login = ApiKeyTokenProvider({"apiKey": token.get_secret_value()}) if token else None
        config = HttpConfig(
            options.url.get_secret_value(),
            options.endpoint,
            options.answer_timeout.total_seconds(),
            auth=login or TokenProvider({}),
        )
        return HttpTransport(config)
    return FileTransport(FileConfig(str(options.file), append=True))


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
        columns: dict[Dataset, dict[str, Column]] = defaultdict(dict)
        rows: Counter[Dataset] = Counter()
        for read in self._lineage.reads:
            found = counts.get(read.stream.node, {})
            for dataset in read.datasets:
                columns[dataset] |= {each.name: each for each in read.columns}
                if len(read.datasets) == 1:  # else nobody knows of which
                    rows[dataset] += found.get(read.stream.output or "rows", 0)
        told = input_statistics_input_dataset.InputStatisticsInputDatasetFacet
        return [
            InputDataset(
                *_name(dataset),
                facets={"schema": _schema(given.values())},
                inputFacets={"inputStatistics": told(rows[dataset])} if dataset in rows else {},
            )
            for dataset, given in columns.items()
        ]

    def _outputs(self, counts: Counts) -> list[OutputDataset]:
        columns: dict[Dataset, dict[str, Column]] = defaultdict(dict)
        made: dict[Dataset, dict[str, set[tuple[Dataset, str]]]] = defaultdict(dict)
        rows: Counter[Dataset] = Counter()
        for write in self._lineage.writes:
            found = counts.get(write.sink, {})
            for dataset in write.datasets:
                columns[dataset] |= {each.name: each for each in write.columns}
                for name, origins in write.made_of.items():
                    made[dataset].setdefault(name, set()).update(origins)
                if len(write.datasets) == 1:
                    rows[dataset] += found.get("rows", 0) - found.get("rejected", 0)
        told = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
        lineage = column_lineage_dataset
        return [
            OutputDataset(
                *_name(dataset),
                facets={
                    "schema": _schema(given.values()),
                    "columnLineage": lineage.ColumnLineageDatasetFacet(
                        {
                            name: lineage.Fields(
                                [
                                    lineage.InputField(*_name(origin), column)
                                    for origin, column in sorted(made[dataset][name])
                                ]
                            )
                            for name in given
                        }
                    ),
                },
                outputFacets={"outputStatistics": told(rows[dataset])} if dataset in rows else {},
            )
            for dataset, given in columns.items()
        ]

    def _clean(self, text: str) -> str:
        return str(self._plan.scrubber.clean(text))


def _schema(columns: Iterable[Column]) -> schema_dataset.SchemaDatasetFacet:
    fields = [
        schema_dataset.SchemaDatasetFacetFields(column.name, column.type) for column in columns
    ]
    return schema_dataset.SchemaDatasetFacet(fields)


def _name(dataset: Dataset) -> tuple[str, str]:
    """Return the name as it is: it holds no login, and what a reference gave is no secret in it."""
    return dataset.namespace, dataset.name
