"""Running a plan on Spark. The only part of the core that imports pyspark."""
