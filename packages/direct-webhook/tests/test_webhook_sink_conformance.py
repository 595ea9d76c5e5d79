"""The sink `webhook` passes the standard tests; an endpoint that drops known ids has each row once."""

from __future__ import annotations

import hashlib

import pytest
from mainstem_testkit import SinkSuite
from mainstem_testkit.plugin import serve
from webhook_far import FarEndpoint


@pytest.fixture(scope="session")
def webhook_sink_far(request, tmp_path_factory):
    yield from serve(FarEndpoint, request, tmp_path_factory)


class WebhookSuite(SinkSuite):
    """Sends to a path of each test's own; what came is read after dropping known ids.

    So a row that comes twice under two ids fails any of the tests, also where at-least-once allows it.
    """

    use = "webhook"
    server_fixture = "webhook_sink_far"
    columns = "value BINARY"
    refused = {"value": b'"refused"'}
    wrong_options = {
        "url": {"url": "ftp://host"},
        "requests": {"requests": 0},
        "answer_timeout": {"answer_timeout": "0 seconds"},
        "sign_with": {"sign_with": "whsec_short"},
        "reject": {"reject": [200]},
    }

    @property
    def far(self):
        return self.server.place(hashlib.sha256(str(self.place).encode()).hexdigest()[:16])

    def prepare(self):
        self.far.tell(refuse="refused")

    def options(self):
        return {
            "url": self.far.url,
            "allow_private": True,
            "give_up": "5 seconds",
            "sign_with": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        }

    def rows(self, schema):
        found = [{"value": value} for row in self.far.taken() for value in self.values(row["body"])]
        assert len({row["value"] for row in found}) == len(found), "a row came under two ids"
        return found

    def values(self, body):
        return [body]


class TestOneMessageARequest(WebhookSuite):
    """Each row is a request."""
