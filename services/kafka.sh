#!/usr/bin/env bash
# Fetches Apache Kafka (broker and its tools) and the connector of Spark that goes with it, as jars from
# Maven's registry, by the resolver that PySpark brings: into .tools/kafka/broker and
# .tools/kafka/connector. Does nothing when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."

broker=4.4.0
# Four that work together with pyspark 4.3, whose own release of the connector the registry lacks.
connector=(
  org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0
  org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0
  org.apache.kafka:kafka-clients:3.9.2
  org.apache.commons:commons-pool2:2.13.1
)
home=.tools/kafka
wanted="$broker with tools, ${connector[*]}"
if [ "$(cat "$home/fetched" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
ivy=$(.venv/bin/python -c 'import pyspark, pathlib; print(next(pathlib.Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")))')
rm -rf "$home"
mkdir -p "$home"

# resolve FOLDER GROUP ARTIFACT VERSION [OPTION]...: the artifact's jar, with all that it needs unless told
# otherwise. What the resolver prints is shown if it fails.
resolve() {
  "$java" -jar "$ivy" -cache "$home/cache" -confs default -warn -retrieve "$home/$1/[artifact]-[revision].[ext]" \
    -dependency "$2" "$3" "$4" "${@:5}" >"$home/log" 2>&1 || { cat "$home/log" >&2; exit 1; }
}
echo "fetching Kafka $broker and Spark's connector"
resolve broker org.apache.kafka kafka_2.13 "$broker"
resolve broker org.apache.kafka kafka-tools "$broker"
resolve broker org.slf4j slf4j-simple 1.7.36
for coordinate in "${connector[@]}"; do
  IFS=: read -r group artifact version <<<"$coordinate"
  resolve connector "$group" "$artifact" "$version" -notransitive
done
rm -rf "$home/cache" "$home/log"
echo "$wanted" >"$home/fetched"
