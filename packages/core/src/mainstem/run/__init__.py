"""Running a plan on Spark."""
