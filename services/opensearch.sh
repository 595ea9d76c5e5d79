#!/usr/bin/env bash
# Fetches OpenSearch's node, with its HTTP and its percolator, from Maven's registry, by the resolver that
# PySpark brings: jars, which a program of the tests starts. Into .tools/opensearch; does nothing when it is
# there.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=2.19.6
home=.tools/opensearch
if [ "$(cat "$home/fetched" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
ivy=$(.venv/bin/python -c 'import pyspark, pathlib; print(next(pathlib.Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")))')
rm -rf "$home"
mkdir -p "$home"
echo "fetching OpenSearch $wanted"
cat >"$home/ivy.xml" <<XML
<ivy-module version="2.0">
  <info organisation="mainstem" module="opensearch"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->default(compile),master(default),runtime()">
    <dependency org="org.opensearch" name="opensearch" rev="$wanted"/>
    <dependency org="org.opensearch.plugin" name="transport-netty4-client" rev="$wanted"/>
    <dependency org="org.opensearch.plugin" name="percolator-client" rev="$wanted"/>
    <dependency org="org.apache.logging.log4j" name="log4j-core" rev="2.25.4"/>
  </dependencies>
</ivy-module>
XML
"$java" -jar "$ivy" -cache "$home/cache" -ivy "$home/ivy.xml" -confs default -warn -types jar bundle \
  -retrieve "$home/libs/[artifact]-[revision].[ext]" >"$home/log" 2>&1 || { cat "$home/log" >&2; exit 1; }
rm -rf "$home/cache" "$home/ivy.xml" "$home/log"
echo "$wanted" >"$home/fetched"
