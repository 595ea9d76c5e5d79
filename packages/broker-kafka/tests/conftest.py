"""Lets the tests of Kafka share their helpers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def topics(kafka):
    """Makes topics of a test's own and looks at them; see `kafka_topics.Topics`."""
    from kafka_topics import Topics

    return Topics(kafka)
