"""Suites of standard tests: what components of each kind must be able to show."""
