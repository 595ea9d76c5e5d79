#!/usr/bin/env bash
# Fetches Debezium's engine with its connectors of PostgreSQL and MySQL from Maven's registry, by the resolver
# that PySpark brings: tests and benchmarks hold our sources beside it. Into .tools/debezium; does nothing when
# it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=3.6.1.Final
home=.tools/debezium
if [ "$(cat "$home/fetched" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
ivy=$(.venv/bin/python -c 'import pyspark, pathlib; print(next(pathlib.Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")))')
rm -rf "$home"
mkdir -p "$home"
echo "fetching Debezium"
cat >"$home/ivy.xml" <<XML
<ivy-module version="2.0">
  <info organisation="mainstem" module="debezium"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->default(compile),master(default),runtime()">
    <dependency org="io.debezium" name="debezium-api" rev="$wanted"/>
    <dependency org="io.debezium" name="debezium-embedded" rev="$wanted"/>
    <dependency org="io.debezium" name="debezium-storage-file" rev="$wanted"/>
    <dependency org="io.debezium" name="debezium-connector-postgres" rev="$wanted"/>
    <dependency org="io.debezium" name="debezium-connector-mysql" rev="$wanted"/>
  </dependencies>
</ivy-module>
XML
"$java" -jar "$ivy" -cache "$home/cache" -ivy "$home/ivy.xml" -confs default -warn -types jar bundle \
  -retrieve "$home/libs/[artifact]-[revision].[ext]" >"$home/log" 2>&1 || { cat "$home/log" >&2; exit 1; }
rm -rf "$home/cache" "$home/ivy.xml" "$home/log"
echo "$wanted" >"$home/fetched"
