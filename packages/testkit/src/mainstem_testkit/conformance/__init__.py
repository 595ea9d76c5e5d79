"""Suites of standard tests: what every source, sink and operator must be able to show."""
