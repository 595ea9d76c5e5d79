#!/usr/bin/env bash
# Fetches ElasticMQ, an emulator of Amazon SQS that keeps its queues on disk. Into .tools/elasticmq.
set -euo pipefail

version=1.6.14
exec "$(dirname "$0")/jars.sh" .tools/elasticmq $version org.elasticmq:elasticmq-server_2.13:$version
