# Needs Python 3.11 or newer, a JDK 17 and a package registry; everything else is installed below.
PYTHON ?= python3
UV := .tools/bin/uv
BIN := .venv/bin
export JAVA_HOME ?=
ifeq ($(JAVA_HOME),)
unexport JAVA_HOME
endif

# What the tests have shown is written here too, for programs.
REPORT := test-report
# As many as cores: with one more, all of them wait for each other, and servers for their turn to start.
TESTS := $(BIN)/pytest -n 2 --dist worksteal --durations 20 \
  --conformance-report $(REPORT)/conformance.json --junitxml $(REPORT)/tests.xml

.PHONY: help install demo services announced checked collected archived test test-all tox crash fuzz cluster bench nexmark wheels release-check site lock clean

help:
	@echo "make demo     install, and run a year of real flights through a pipeline"
	@echo "make test     install, servers too, and run the tests; of the dear ones the share that the commit draws"
	@echo "make test-all run every test: hours; before a release"
	@echo "make tox      every package alone in its own environment, lint, types, docs, examples"
	@echo "make crash    ROUNDS=n: paths from every source to every sink, broken at random, and counted"
	@echo "make fuzz     bad payloads, documents and messages; the joins against plain computations, a"
	@echo "              hundred times as many cases"
	@echo "make cluster  a document on a Spark cluster of two workers, each with its own Python"
	@echo "make bench    the benchmarks"
	@echo "make nexmark  NEXMark's queries: what they give, beside a database, and how fast"
	@echo "make wheels   build every distribution into dist/"
	@echo "make release-check  build them, and use each alone as a stranger would"
	@echo "make site     the documentation as a website, in site/"

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv .tools 2>/dev/null || { \
	  rm -rf .tools; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv && $(PYTHON) -m venv .tools; \
	  else echo "Python's venv is missing: apt-get install python3-venv" >&2; exit 1; fi; }
	.tools/bin/pip install --quiet --disable-pip-version-check 'uv>=0.7'

install: $(UV)
	leave=$$(services/compiler.sh $(PYTHON)) && $(UV) sync --quiet --frozen --compile-bytecode --group dev --group demo $$leave
	@# What is installed in place is not compiled by that, and where PYTHONDONTWRITEBYTECODE is set, never.
	$(BIN)/python -m compileall -q packages/*/src

demo: install
	$(BIN)/python examples/flights/demo.py

services: install
	@services/install.sh

# All of that at once, for much of it is waiting for registries; and `services` need not install again.
test: announced install
	$(MAKE) --no-print-directory -o install -j4 services checked collected archived
	$(TESTS)

checked:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Two thirds of what it takes to collect the tests is pytest's work on their assertions: done once, and kept
# for the processes that run them.
collected:
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest --collect-only -q >.tools/collected.log || { tail -40 .tools/collected.log; exit 1; }

# Of Java's classes, with which it starts in half the time; else the first test makes it, and the others wait.
archived:
	@$(BIN)/python -c 'from mainstem_testkit.java import start_java_quickly as made; made()'

announced:
	@echo "Installs Python packages into .venv, jars, emulators, MySQL, PostgreSQL 18, OpenSearch, Artemis and Debezium into .tools, and, as root and by apt-get, the servers"
	@echo "of services/apt.txt: 2 GB. Then checks format, lint and types, and runs the tests: about half an hour on"
	@echo "two cores. What is skipped and what is drawn is said at the end, and what was shown is in $(REPORT)."

test-all: install services collected archived
	MAINSTEM_TURN=all MAINSTEM_CRASH=all MAINSTEM_FUZZ=1 $(TESTS) -m 'slow or not slow'

tox: install services
	$(BIN)/tox run
	@for version in 3.12 3.13; do \
	  if python=$$($(UV) python find --no-python-downloads $$version 2>/dev/null); then \
	    $(BIN)/tox run -e core,ingress,broker-amqp,broker-amqp1,broker-kafka,broker-kinesis,broker-mqtt,direct-socket,direct-moldudp64,broker-nats,broker-pubsub,broker-pulsar,broker-sqs,aws,cache-redis,cdc,cdc-mongodb,cdc-mysql,cdc-postgresql,database,database-sql,direct-udp,direct-webhook,direct-zeromq,egress,fault-tolerance,formats-avro,formats-json-schema,formats-msgpack,formats-cbor,formats-protobuf,registry,keyed-state,lake,lake-delta,lake-iceberg,lookup,observer-openlineage,observer-opentelemetry,operators-eventsourcing,operators-joins,operators-patterns,operators-privacy,operators-search,operators-windows,search-opensearch,testkit -x testenv.base_python=$$python --workdir .tox/$$version || exit 1; \
	  else echo "Python $$version is not installed: its tests were SKIPPED"; fi; done

crash: install services
	PYTHONPATH=tests $(BIN)/python -m campaign --rounds $(or $(ROUNDS),10)
	PYTHONPATH=tests $(BIN)/python -m campaign.controls

fuzz: install services
	PYTHONPATH=tests $(BIN)/python -m fuzz
	MAINSTEM_FUZZ=100 $(BIN)/pytest --timeout=0 packages/core/tests/test_formats.py
	MAINSTEM_FUZZ=100 POLARS_MAX_THREADS=1 $(BIN)/pytest -n 2 --timeout=0 -m fuzz packages/operators-joins/tests

cluster: install services
	$(BIN)/pytest -m slow tests/test_cluster.py

bench: install services
	$(BIN)/python benchmarks/formats.py
	$(BIN)/python benchmarks/failpoint.py
	$(BIN)/python benchmarks/cli_startup.py
	$(BIN)/python benchmarks/first_run.py
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/relay.py
	$(BIN)/python benchmarks/windows.py
	$(BIN)/python benchmarks/decode.py
	$(BIN)/python benchmarks/small_batch.py
	$(BIN)/python benchmarks/small_tasks.py
	$(BIN)/python benchmarks/syncing.py
	$(BIN)/python benchmarks/metrics_overhead.py
	$(BIN)/python benchmarks/looking.py
	$(BIN)/python benchmarks/amqp_source.py
	$(BIN)/python benchmarks/amqp_sink.py
	$(BIN)/python benchmarks/ingress_read.py
	$(BIN)/python benchmarks/amqp_latency.py
	$(BIN)/python benchmarks/amqp_backlog.py
	$(BIN)/python benchmarks/kafka_source.py
	$(BIN)/python benchmarks/kafka_sink.py
	$(BIN)/python benchmarks/kafka_queue.py
	$(BIN)/python benchmarks/kinesis_source.py
	$(BIN)/python benchmarks/kinesis_sink.py
	$(BIN)/python benchmarks/jetstream_source.py
	$(BIN)/python benchmarks/jetstream_sink.py
	$(BIN)/python benchmarks/keyed_state.py
	$(BIN)/python benchmarks/table_joins.py
	$(BIN)/python benchmarks/sql_sink.py
	$(BIN)/python benchmarks/webhook_source.py
	$(BIN)/python benchmarks/webhook_latency.py
	$(BIN)/python benchmarks/webhook_sink.py
	$(BIN)/python benchmarks/zeromq_pull.py
	$(BIN)/python benchmarks/mqtt.py
	$(BIN)/python benchmarks/sqs.py
	$(BIN)/python benchmarks/amqp1.py
	$(BIN)/python benchmarks/pubsub.py
	$(BIN)/python benchmarks/pulsar_topics.py
	$(BIN)/python benchmarks/moldudp64.py
	$(BIN)/python benchmarks/statsd.py
	$(BIN)/python benchmarks/two_receivers.py
	$(BIN)/python benchmarks/udp_source.py
	$(BIN)/python benchmarks/egress.py
	$(BIN)/python benchmarks/derived_stores.py
	$(BIN)/python benchmarks/lookups.py
	$(BIN)/python benchmarks/mysql_source.py
	$(BIN)/python benchmarks/patterns.py
	$(BIN)/python benchmarks/postgresql_source.py

nexmark: install
	PYTHONPATH=benchmarks $(BIN)/python -m nexmark check --events 300000
	PYTHONPATH=benchmarks $(BIN)/python -m nexmark check --events 2000000
	PYTHONPATH=benchmarks $(BIN)/python -m nexmark measure

wheels: $(UV)
	$(UV) build --quiet --all-packages --out-dir dist

site: install
	$(BIN)/python contrib/site/build.py

release-check: install
	$(BIN)/python contrib/release/check.py

lock: $(UV)
	$(UV) lock

clean:
	rm -rf .venv .tools .tox dist demo-output $(REPORT)
