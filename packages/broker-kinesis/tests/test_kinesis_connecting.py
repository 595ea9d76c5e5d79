"""Options of a connection, and what failures mean: in words, and without secrets."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, SSLError
from mainstem_aws.client import (
    Calls,
    connect,
    open_session,
    permanent,
    throttled,
    words,
)
from mainstem_broker_kinesis.connection import ConnectionOptions
from pydantic import ValidationError

ARN = "arn:aws:kinesis:eu-central-1:123456789012:stream/clicks"
SECRETS = {"access_key": "AKIDEXAMPLE", "secret_key": "s3cr3t", "session_token": "t0ken"}


def options(**given):
    return ConnectionOptions.model_validate({"stream": "clicks", **given})


def failure(code, message=""):
    return ClientError({"Error": {"Code": code, "Message": message}}, "GetRecords")


def test_a_stream_is_named_or_has_an_arn():
    """Pass: both name the stream in calls; an ARN says the region too."""
    assert options().target() == {"StreamName": "clicks"}
    assert (options().name, options().where) == ("clicks", None)
    by_arn = options(stream=ARN)
    assert by_arn.target() == {"StreamARN": ARN}
    assert (by_arn.name, by_arn.where) == ("clicks", "eu-central-1")


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"stream": "no stream"}, "a stream's name, or an ARN"),
        ({"stream": ARN, "region": "us-east-1"}, "the stream's ARN says eu-central-1"),
        ({"endpoint": "localhost:4567"}, "begins with http"),
        ({"endpoint": "http://me:s3cr3t@host/"}, "credentials are the options"),
        ({"access_key": "AKIDEXAMPLE"}, "go together"),
        ({"session_token": "t0ken"}, "goes with access_key"),
        ({**SECRETS, "profile": "p"}, "two ways to say the same"),
        ({"external_id": "s3cr3t"}, "are for role_arn"),
        ({"role_arn": "me"}, "pattern"),
        ({"connect_timeout": "0 s"}, "more than 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(given, word):
    """Pass: in words that say what was expected."""
    with pytest.raises(ValidationError, match=word):
        options(**given)


def test_secrets_are_nowhere():
    """Pass: not in the repr, the text, nor the place."""
    made = options(**SECRETS)
    for text in (repr(made), str(made), made.place(), made.model_dump_json()):
        assert not any(secret in text for secret in SECRETS.values())
    assert set(made.secrets()) == set(SECRETS.values())


def test_credentials_come_from_where_every_tool_looks(tmp_path, monkeypatch):
    """Pass: the options before the environment, a profile by its name, the region of each."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    file = tmp_path / "config"
    file.write_text(
        "[profile p]\nregion = eu-west-1\naws_access_key_id = of-profile\naws_secret_access_key = x\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    found = [
        (session.get_credentials().access_key, session.region_name)
        for session in (
            open_session(options()),
            open_session(options(profile="p")),
            open_session(options(**SECRETS, region="us-east-2")),
            open_session(options(stream=ARN)),
        )
    ]
    assert found == [
        ("of-environment", "us-west-2"),
        ("of-profile", "us-west-2"),  # the environment comes first, as with every tool
        ("AKIDEXAMPLE", "us-east-2"),
        ("of-environment", "eu-central-1"),
    ]


def test_a_role_is_assumed_with_the_credentials_that_are_there(monkeypatch):
    """Pass: STS is asked once for the role, with external id and session name, signed by the first key;
    the client signs by what it gave."""
    import botocore.client

    asked = []

    def answer(self, operation, request):
        if operation != "AssumeRole":
            raise AssertionError(operation)
        asked.append((self._request_signer._credentials.access_key, request))
        return {
            "Credentials": {
                "AccessKeyId": "of-role",
                "SecretAccessKey": "x",
                "SessionToken": "y",
                "Expiration": "2099-01-01T00:00:00Z",
            }
        }

    monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", answer)
    role = "arn:aws:iam::123456789012:role/reader"
    session = open_session(
        options(**SECRETS, region="us-east-1", role_arn=role, external_id="e1", session_name="me")
    )
    assert session.get_credentials().get_frozen_credentials().access_key == "of-role"
    ((key, request),) = asked
    assert key == "AKIDEXAMPLE"
    assert request == {"RoleArn": role, "RoleSessionName": "me", "ExternalId": "e1"}


@pytest.mark.in_turn
def test_requests_are_counted_with_their_retries(kinesalite):
    """Pass: a call that fails for good counts once; one of three attempts counts three times."""
    from kinesis_proxy import KinesisProxy

    stream = kinesalite.create("counted", 1)
    with KinesisProxy(kinesalite.port) as proxy:
        calls = Calls()
        made = options(stream=stream, endpoint=proxy.url, region="us-east-1", **SECRETS)
        client = connect("kinesis", made, calls)
        proxy.fail("ListShards", "InternalFailure", times=2)
        client.list_shards(StreamName=stream)
        with pytest.raises(ClientError):
            client.list_shards(StreamName="nowhere")
        assert calls.counts == {"ListShards": 4}
        assert calls.counts.total() == proxy.count("ListShards") == 4


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (failure("AccessDeniedException", "no"), "may not do this"),
        (failure("ResourceNotFoundException"), "is not there"),
        (failure("KMSNotFoundException"), "KMS key is not there"),
        (failure("InvalidSignatureException", "does not match"), "the signature is wrong"),
        (NoCredentialsError(), "no credentials were found"),
        (
            SSLError(
                endpoint_url="x", error="CERTIFICATE_VERIFY_FAILED: certificate verify failed"
            ),
            "is not trusted",
        ),
    ],
)
def test_what_no_retry_mends(error, word):
    """Pass: in words."""
    assert word in permanent(error)


@pytest.mark.parametrize(
    "error",
    [
        failure("ExpiredTokenException"),
        failure("InternalFailure"),
        failure("ProvisionedThroughputExceededException"),
        failure("KMSThrottlingException"),
        failure("InvalidSignatureException", "Signature expired: 2026... is now earlier"),
        EndpointConnectionError(endpoint_url="http://x"),
        SSLError(endpoint_url="https://x", error="UNEXPECTED_EOF_WHILE_READING"),
        OSError("away"),
    ],
)
def test_what_may_pass(error):
    """Pass: credentials that ran out, a wrong clock, failures at AWS, the network, a cut handshake."""
    assert permanent(error) is None


def test_what_is_too_fast():
    """Pass: throttling is told from other failures."""
    assert throttled(failure("ProvisionedThroughputExceededException"))
    assert throttled(failure("LimitExceededException"))
    assert not throttled(failure("InternalFailure"))


def test_errors_in_words_hold_no_secrets_and_no_request():
    """Pass: AWS repeats the request, with its token, in the message of a wrong signature: cut off."""
    message = "The signature does not match. (t0ken)\n\nThe Canonical String for this request: t0ken s3cr3t"
    text = words(failure("InvalidSignatureException", message), options(**SECRETS))
    assert text == "InvalidSignatureException: The signature does not match. (***)"
    skewed = words(failure("RequestTimeTooSkewed", "too large"), options())
    assert "clock" in skewed
    ran_out = words(failure("ExpiredTokenException", "expired"), options())
    assert "goes on when they are renewed" in ran_out


def test_a_json_schema_hides_secrets():
    """Pass: fields of secrets are write-only passwords."""
    fields = ConnectionOptions.model_json_schema()["properties"]
    assert "password" in json.dumps(fields["secret_key"])
