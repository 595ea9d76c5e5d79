#!/usr/bin/env bash
# Fetches Debezium's engine with its connectors of PostgreSQL and MySQL: tests and benchmarks hold our sources
# beside it. Into .tools/debezium.
set -euo pipefail

version=3.6.1.Final
exec "$(dirname "$0")/jars.sh" .tools/debezium $version \
  io.debezium:debezium-{api,embedded,storage-file,connector-postgres,connector-mysql}:$version
