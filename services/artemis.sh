#!/usr/bin/env bash
# Fetches ActiveMQ Artemis, which a program of the tests starts, and a client of it for programs of JMS. Into
# .tools/artemis.
set -euo pipefail

version=2.40.0
exec "$(dirname "$0")/jars.sh" .tools/artemis $version \
  org.apache.activemq:artemis-{server,amqp-protocol}:$version \
  org.apache.qpid:qpid-jms-client:2.6.1
