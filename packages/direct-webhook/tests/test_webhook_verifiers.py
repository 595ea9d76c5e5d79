"""Verifiers let in what vendors' own examples and other libraries have signed, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime

import pytest
import standardwebhooks
import svix
from mainstem_direct_webhook.source.answers import Refused
from mainstem_direct_webhook.source.options import PathOptions
from mainstem_direct_webhook.source.verifiers import make_verifier

NOW = 1_700_000_000
SECRET = "whsec_" + base64.b64encode(b"thirty-two bytes of a secret ...").decode()
OTHER = "whsec_" + base64.b64encode(b"thirty-two bytes of another one.").decode()
BODY = b'{"type": "order.paid",  "n": 1.0}\n'


def verifier(**options):
    return make_verifier(PathOptions.model_validate({"verify": options}).verify)


def check(made, headers, body=BODY, now=NOW, peer=None):
    """Return the status of the refusal; 0 if the request is let in."""
    pairs = {name.lower().encode(): value.encode("latin-1") for name, value in headers.items()}
    try:
        made.check(pairs, body, peer or {}, now)
    except Refused as error:
        refused = error
    else:
        return 0
    told = json.loads(refused.answer().body)
    assert told["status"] == refused.status
    if refused.status == 401:
        assert told["detail"] == "The request could not be verified."
    return refused.status


def changed(text):
    """Return a text with its last letter or digit but three changed."""
    at = len(text) - 4
    return text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]


# -- Standard Webhooks --------------------------------------------------------------------------


def by_standardwebhooks(secret=SECRET, at=NOW, message_id="msg_1"):
    signer = standardwebhooks.Webhook(secret)
    signed = signer.sign(message_id, datetime.fromtimestamp(at, UTC), BODY.decode())
    return {"webhook-id": message_id, "webhook-timestamp": str(at), "webhook-signature": signed}


def by_svix(secret=SECRET, at=NOW, message_id="msg_1"):
    signed = svix.Webhook(secret).sign(message_id, datetime.fromtimestamp(at, UTC), BODY.decode())
    return {"webhook-id": message_id, "webhook-timestamp": str(at), "webhook-signature": signed}


@pytest.mark.parametrize("sign", [by_standardwebhooks, by_svix])
def test_signatures_of_independent_libraries_are_let_in(sign):
    """Pass: what `standardwebhooks` and `svix` sign is let in; with anything changed, 401."""
    made = verifier(use="standard", secret=SECRET)
    headers = sign()
    assert check(made, headers) == 0
    assert check(made, headers, BODY + b" ") == 401
    assert check(made, {**headers, "webhook-id": "msg_2"}) == 401
    assert check(made, {**headers, "webhook-timestamp": str(NOW + 1)}) == 401
    assert (
        check(made, {**headers, "webhook-signature": changed(headers["webhook-signature"])}) == 401
    )
    assert check(made, sign(secret=OTHER)) == 401
    for name in headers:
        assert check(made, {n: v for n, v in headers.items() if n != name}) == 401


@pytest.mark.parametrize("sign", [by_standardwebhooks, by_svix])
def test_an_id_may_have_dots(sign):
    """Pass: as other libraries sign it; the parts can't be moved to where the id ends otherwise."""
    made = verifier(use="standard", secret=SECRET)
    headers = sign(message_id="evt.1.x.")
    assert check(made, headers) == 0
    for moved, time in (
        ("evt", "1"),
        ("evt.1", "x"),
        ("evt.1.x.", f"{NOW}0"),
        (f"evt.1.x..{NOW}", "1"),
    ):
        wrong = {**headers, "webhook-id": moved, "webhook-timestamp": time}
        assert check(made, wrong, b"x..%d.%s" % (NOW, BODY)) == 401
    assert check(made, sign(message_id=f"evt.{NOW}")) == 401


def test_any_of_several_secrets_is_enough():
    """Pass: while secrets change, both are let in, and a header with several signatures too."""
    made = verifier(use="standard", secret=[SECRET, OTHER])
    assert check(made, by_standardwebhooks()) == check(made, by_standardwebhooks(OTHER)) == 0
    only = verifier(use="standard", secret=OTHER)
    both = by_standardwebhooks()
    assert check(only, both) == 401
    both["webhook-signature"] += " v2,AAAA " + by_standardwebhooks(OTHER)["webhook-signature"]
    assert check(only, both) == 0


def test_ed25519_signatures_are_let_in():
    """Pass: what a private key signs (by `cryptography` alone) is let in by its public key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    public = "whpk_" + base64.b64encode(private.public_key().public_bytes_raw()).decode()
    signed = base64.b64encode(private.sign(b"msg_1.%d.%s" % (NOW, BODY))).decode()
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(NOW)}
    made = verifier(use="standard", secret=public)
    assert check(made, {**headers, "webhook-signature": f"v1a,{signed}"}) == 0
    assert check(made, {**headers, "webhook-signature": f"v1,{signed}"}) == 401
    assert check(made, {**headers, "webhook-signature": f"v1a,{signed}"}, BODY + b"x") == 401


# -- vendors' own examples ----------------------------------------------------------------------


def test_the_example_of_github_is_let_in():
    """Pass: the values that GitHub's documentation gives for testing are let in, none else.

    https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
    """
    made = verifier(use="github", secret=["another", "It's a Secret to Everybody"])
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    body = b"Hello, World!"
    assert check(made, {"X-Hub-Signature-256": signature}, body) == 0
    wrong = ("", "sha256=", signature[:-1], signature + "0", signature[7:], changed(signature))
    for text in (*wrong, signature.replace("sha256", "sha1"), "sha256=\xe9\xe9"):
        assert check(made, {"X-Hub-Signature-256": text}, body) == 401, text
    assert check(made, {}, body) == 401
    assert (
        check(verifier(use="github", secret="other"), {"X-Hub-Signature-256": signature}, body)
        == 401
    )


def test_the_example_of_slack_is_let_in():
    """Pass: the values of Slack's documentation are let in at their time; later it is 400.

    https://docs.slack.dev/authentication/verifying-requests-from-slack
    """
    made = verifier(use="slack", secret="8f742231b10e8888abcd99yyyzzz85a5")
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
        b"&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"
        b"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands"
        b"%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    at = 1531420618
    headers = {
        "X-Slack-Request-Timestamp": str(at),
        "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    assert check(made, headers, body, at) == check(made, headers, body, at + 299) == 0
    assert check(made, headers, body, at + 301) == check(made, headers, body, at - 301) == 400
    assert check(made, headers, body + b"x", at) == 401
    assert check(made, {**headers, "X-Slack-Request-Timestamp": str(at + 1)}, body, at + 1) == 401
    assert check(made, {"X-Slack-Request-Timestamp": str(at)}, body, at) == 401


def test_the_url_check_of_slack_is_answered_and_nothing_else():
    """Pass: a signed `url_verification` is answered with its challenge; other bodies are messages."""
    made = verifier(use="slack", secret="s")
    answer = made.answer(b'{"type":"url_verification","token":"t","challenge":"3eZbrw1a"}')
    assert (answer.status, answer.body) == (200, b"3eZbrw1a")
    for body in (
        b"{}",
        b'"url_verification"',
        b'{"type":"x","challenge":"url_verification"}',
        b"\xff",
    ):
        assert made.answer(body) is None


def stripe_header(body, at, *secrets, scheme="v1"):
    """Sign as Stripe's documentation describes it: HMAC-SHA256 of `time.body`, in hex."""
    signed = [hmac.new(s.encode(), b"%d.%s" % (at, body), hashlib.sha256) for s in secrets]
    return ",".join([f"t={at}", *(f"{scheme}={each.hexdigest()}" for each in signed)])


def test_signatures_of_stripe_are_let_in():
    """Pass: one of several `v1` is enough; `v0`, a second `t`, a stale time are refused.

    https://docs.stripe.com/webhooks#verify-manually
    """
    made = verifier(use="stripe", secret="whsec_test_secret")
    # Made once by `openssl dgst -sha256 -hmac whsec_test_secret` over `1700000000.{"id": "evt_1"}`.
    body = b'{"id": "evt_1"}'
    fixed = "t=1700000000,v1=33aa1568c6627d0d2d42556693c208077ca8f8b437ac8d9d6ebb6c2c650033eb,v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39"
    assert check(made, {"Stripe-Signature": fixed}, body) == 0
    assert (
        check(
            made, {"Stripe-Signature": stripe_header(body, NOW, "old", "whsec_test_secret")}, body
        )
        == 0
    )
    assert check(made, {"Stripe-Signature": stripe_header(body, NOW, "old")}, body) == 401
    v0 = stripe_header(body, NOW, "whsec_test_secret", scheme="v0")
    assert check(made, {"Stripe-Signature": v0}, body) == 401
    assert check(made, {"Stripe-Signature": f"t={NOW},{fixed}"}, body) == 401
    assert check(made, {"Stripe-Signature": fixed.replace("t=17", "t=18")}, body) == 401
    assert check(made, {"Stripe-Signature": fixed}, body, NOW + 301) == 400
    for text in ("", ",", "t", "t=,v1=", "v1=", f"t={NOW}", "=" * 99, ",".join(["v1=00"] * 999)):
        assert check(made, {"Stripe-Signature": text}, body) == 401, text


# -- the others ---------------------------------------------------------------------------------


@pytest.mark.parametrize("digest", ["sha1", "sha256", "sha384", "sha512"])
@pytest.mark.parametrize("encoding", ["hex", "base64"])
def test_any_hmac_in_a_header_is_let_in(digest, encoding):
    """Pass: by its digest, encoding and prefix; what lacks one of them is 401."""
    made = verifier(
        use="hmac", secret="s", header="X-Sign", digest=digest, encoding=encoding, prefix="h="
    )
    raw = hmac.new(b"s", BODY, digest).digest()
    text = raw.hex() if encoding == "hex" else base64.b64encode(raw).decode()
    assert check(made, {"x-sign": f"h={text}"}) == 0
    for wrong in (text, f"h={text[:-4]}", f"h={text} ", f"H={text}", "h=", "", "h=\xff"):
        assert check(made, {"X-Sign": wrong}) == 401, wrong
    assert check(made, {"x-sign": f"h={text}"}, b"") == 401


def test_an_hmac_over_a_time_is_let_in_while_it_is_fresh():
    """Pass: the template says what is signed; an old time is 400, a changed one 401."""
    made = verifier(
        use="hmac",
        secret="s",
        header="X-Sign",
        timestamp="X-Time",
        signed="v0:{timestamp}:{body}",
        tolerance="10 s",
    )
    signed = hmac.new(b"s", b"v0:%d:%s" % (NOW, BODY), "sha256").hexdigest()
    headers = {"X-Sign": signed, "X-Time": str(NOW)}
    assert check(made, headers) == check(made, headers, now=NOW + 10) == 0
    assert check(made, headers, now=NOW + 11) == 400
    assert check(made, {**headers, "X-Time": str(NOW + 1)}) == 401
    assert check(made, {"X-Sign": signed}) == 401


def test_tokens_and_passwords():
    """Pass: one of several is let in; all else is 401 and says by which scheme to come."""
    bearer = verifier(use="bearer", token=["one", "two"])
    assert (
        check(bearer, {"Authorization": "Bearer two"})
        == check(bearer, {"Authorization": "bearer one"})
        == 0
    )
    for wrong in ("Bearer three", "Bearer", "two", "Basic two", "", "Bearer on", "Bearer one two"):
        assert check(bearer, {"Authorization": wrong}) == 401, wrong
    with pytest.raises(Refused) as refused:
        bearer.check({}, b"", {}, NOW)
    assert (b"www-authenticate", b"Bearer") in refused.value.answer().headers
    basic = verifier(use="basic", user="u", password=["p:q", "é"])
    for right in (b"u:p:q", "u:é".encode()):
        assert check(basic, {"Authorization": "Basic " + base64.b64encode(right).decode()}) == 0
    for wrong in (b"u:p", b"v:p:q", b"u", b"", b"u:"):
        assert check(basic, {"Authorization": "Basic " + base64.b64encode(wrong).decode()}) == 401
    for wrong in ("Basic u:p:q", "Basic ****", "Bearer dTpwOnE=", ""):
        assert check(basic, {"Authorization": wrong}) == 401


def test_a_certificate_is_let_in_by_its_names():
    """Pass: none is 401; any, or one whose common or alternative name is listed, is let in."""
    peer = {
        "subject": ((("organizationName", "Shop"),), (("commonName", "billing"),)),
        "subjectAltName": (("DNS", "billing.example.com"), ("URI", "spiffe://example/billing")),
    }
    anybody = verifier(use="mtls")
    assert check(anybody, {}, peer=peer) == 0
    assert check(anybody, {}) == 401
    for name in ("billing", "billing.example.com", "spiffe://example/billing"):
        assert check(verifier(use="mtls", subjects=["x", name]), {}, peer=peer) == 0
    for name in ("Shop", "Billing", "example.com"):
        assert check(verifier(use="mtls", subjects=[name]), {}, peer=peer) == 401


def test_everybody_is_let_in_only_when_it_is_written():
    """Pass: `none` lets all in; without `verify` the options are refused."""
    assert check(verifier(use="none"), {}) == 0
    with pytest.raises(ValueError, match="verify"):
        PathOptions.model_validate({})


@pytest.mark.parametrize(
    "options",
    [
        {"use": "standard", "secret": "open-sesame"},
        {"use": "standard", "secret": "whsec_open-sesame"},
        {"use": "github", "secret": ["open-sesame", ""]},
        {"use": "github", "secret": {"open-sesame": 1}},
        {"use": "hmac", "secret": "open-sesame", "header": "a b"},
        {"use": "hmac", "secret": "open-sesame", "header": "x", "signed": "{timestamp}.{body}"},
        {"use": "hmac", "secret": "open-sesame", "header": "x", "timestamp": "y"},
        {"use": "stripe", "secret": "open-sesame", "tolerance": "0 s"},
        {"use": "basic", "user": "a:b", "password": "open-sesame"},
        {"use": "bearer", "token": [["open-sesame"]]},
        {"use": "morse", "secret": "open-sesame"},
    ],
)
def test_wrong_options_are_refused_without_their_secrets(options, pipeline):
    """Pass: `validate` says what is wrong, and nothing of the secret is in it."""
    from mainstem import DocumentError

    paths = {"/in": {"verify": options}}
    pipeline.document(
        sources={"rows": {"use": "webhook", "with": {"port": 1, "paths": paths}}},
        sinks={"out": pipeline.sink("out", "rows")},
    )
    with pytest.raises(DocumentError) as error:
        pipeline.plan()
    assert "verify" in str(error.value)
    assert "open-sesame" not in str(error.value)


def test_what_one_kind_of_check_has_is_not_offered_for_another(pipeline):
    """Pass: of `bearer` its own keys are named, and not those of the first kind."""
    from mainstem import DocumentError

    paths = {"/in": {"verify": {"use": "bearer", "secret": "open-sesame"}}}
    pipeline.document(
        sources={"rows": {"use": "webhook", "with": {"port": 1, "paths": paths}}},
        sinks={"out": pipeline.sink("out", "rows")},
    )
    with pytest.raises(DocumentError, match="Known keys: token, use") as error:
        pipeline.plan()
    assert "Did you mean" not in str(error.value)


def test_secrets_are_in_no_repr():
    """Pass: neither of options nor of verifiers."""
    for options in (
        {"use": "standard", "secret": SECRET},
        {"use": "bearer", "token": "open-sesame"},
        {"use": "basic", "user": "u", "password": ["open-sesame"]},
    ):
        made = PathOptions.model_validate({"verify": options})
        shown = f"{made!r} {made} {make_verifier(made.verify)!r} {made.model_dump()}"
        assert "open-sesame" not in shown
        assert SECRET not in shown
