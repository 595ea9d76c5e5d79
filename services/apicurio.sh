#!/usr/bin/env bash
# Fetches Apicurio Registry, from Maven's registry by the resolver that PySpark brings. Into .tools/apicurio.
set -euo pipefail
cd "$(dirname "$0")/.."

version=3.0.9 # the last one for Java 17 that is there whole
home=.tools/apicurio
if [ "$(cat "$home/fetched" 2>/dev/null)" = "$version" ]; then exit 0; fi

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
ivy=$(.venv/bin/python -c 'import pyspark, pathlib; print(next(pathlib.Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")))')
rm -rf "$home"
mkdir -p "$home/app" "$home/work"
echo "fetching apicurio $version"
{
  echo '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
  echo '<info organisation="mainstem" module="fetched"/><configurations><conf name="default"/></configurations>'
  echo "<dependencies><dependency org=\"io.apicurio\" name=\"apicurio-registry-app\" rev=\"$version\" transitive=\"false\""
  echo ' conf="default->master(default)"><artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/>'
  echo '</dependency></dependencies></ivy-module>'
} >"$home/work/ivy.xml"
# Without its description, whose parent the registry lacks.
echo '<ivysettings><settings defaultResolver="central"/><resolvers><ibiblio name="central" m2compatible="true"' \
  'usepoms="false"/></resolvers></ivysettings>' >"$home/work/settings.xml"
"$java" -XX:TieredStopAtLevel=1 -jar "$ivy" -settings "$home/work/settings.xml" -cache "$home/work/cache" -ivy "$home/work/ivy.xml" -confs default -warn \
  -retrieve "$home/work/[artifact]-[revision].[ext]" >"$home/work/log" 2>&1 || { cat "$home/work/log" >&2; exit 1; }
tar xzf "$home/work/apicurio-registry-app-$version.tar.gz" -C "$home/app"
rm -rf "$home/work"
echo "$version" >"$home/fetched"
