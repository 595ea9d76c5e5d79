#!/usr/bin/env bash
# Fetches OpenSearch's node, with its HTTP and its percolator, which a program of the tests starts. Into
# .tools/opensearch.
set -euo pipefail

version=2.19.6
exec "$(dirname "$0")/jars.sh" .tools/opensearch $version \
  org.opensearch:opensearch:$version \
  org.opensearch.plugin:{transport-netty4-client,percolator-client}:$version \
  org.apache.logging.log4j:log4j-core:2.25.4
