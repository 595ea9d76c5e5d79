"""What a document says of AWS, clients of its services, and what failures mean; `kinesis` and `sqs` show the rest."""

from __future__ import annotations

import subprocess
import sys

import pytest
from botocore import exceptions
from mainstem_aws.client import Calls, code_of, connect, passing, permanent, throttled, words
from mainstem_aws.options import AWSOptions
from pydantic import ValidationError

KEYS = {"access_key": "AKID", "secret_key": "S3CRET", "region": "eu-west-1"}


def failed(code, message="no"):
    return exceptions.ClientError({"Error": {"Code": code, "Message": message}}, "Call")


def test_a_client_of_any_service_is_made_without_a_call():
    """Pass: with the region, the endpoint and the keys of the options; what is sent then is counted."""
    calls = Calls()
    made = connect(
        "sqs",
        AWSOptions.model_validate({**KEYS, "endpoint": "http://127.0.0.1:9", "attempts": 1}),
        calls,
    )
    assert made.meta.region_name == "eu-west-1"
    assert not calls.counts
    with pytest.raises(exceptions.EndpointConnectionError) as told:
        made.list_queues()
    assert dict(calls.counts) == {"ListQueues": 1}
    assert permanent(told.value) is None
    made.close()


def test_failures_are_told_apart():
    """Pass: what comes too fast, what passes, what nobody mends; of what has no code, the library's own."""
    assert throttled(failed("ThrottlingException"))
    assert passing(failed("ServiceUnavailable"))
    assert "may not do this" in permanent(failed("AccessDeniedException"))
    assert permanent(failed("ExpiredTokenException")) is None
    assert "signature is wrong" in permanent(failed("InvalidSignatureException"))
    assert permanent(failed("InvalidSignatureException", "Signature expired: now")) is None
    assert "no region" in permanent(exceptions.NoRegionError())
    assert code_of(ValueError("x")) == ""


def test_words_have_no_secret():
    """Pass: what AWS repeats of a request is left out, and what is secret is starred."""
    options = AWSOptions.model_validate(KEYS)
    said = words(failed("X", "bad S3CRET\nThe Canonical String for this is S3CRET"), options)
    assert said == "X: bad ***"
    assert "clock" in words(failed("RequestTimeTooSkewed"), options)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"access_key": "a"}, "go together"),
        ({"session_token": "a"}, "session_token goes with"),
        ({**KEYS, "profile": "p"}, "two ways"),
        ({"external_id": "x"}, "role_arn"),
        ({"endpoint": "localhost"}, "expected a URL"),
        ({"endpoint": "http://u:S3CRET@h"}, "the URL has a user"),
    ],
)
def test_what_can_t_be_is_told(given, told):
    """Pass: before anything is reached."""
    with pytest.raises(ValidationError, match=told):
        AWSOptions.model_validate(given)


def test_options_need_no_library_of_aws():
    """Pass: a plan is made without importing it."""
    code = "import sys, mainstem_aws.options; assert 'boto3' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
