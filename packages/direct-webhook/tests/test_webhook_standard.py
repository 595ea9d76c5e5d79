"""Standard Webhooks: secrets, signatures both ways with other implementations, and forgeries."""

from __future__ import annotations

import base64
import pickle
import re
import subprocess
import sys
from datetime import UTC, datetime

import pytest
import standardwebhooks
import svix.webhooks
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given, settings
from hypothesis import strategies as st
from mainstem_direct_webhook.standard import (
    MOST_SIGNATURES,
    HMACKey,
    PrivateKey,
    PublicKey,
    SecretError,
    read_secret,
    sign,
    verify,
)

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(bytes(range(32))).decode()
NOW = 1_700_000_000


def encoded(raw):
    return base64.b64encode(raw).decode()


def pair(seed=bytes(range(32))):
    """Return both texts of an ed25519 key."""
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return f"whsk_{encoded(seed)}", f"whpk_{encoded(public)}", public


bodies = st.text(max_size=200).map(str.encode)
#: All that may be in a header, with many dots and digits; but for what could be the time.
ids = (
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)
    | st.text(st.sampled_from(".19a"), min_size=1)
).filter(lambda text: not re.search(r"\.[1-9][0-9]{9}(\.|$)", text))
times = st.integers(10**9, 10**10 - 1)
raw_secrets = st.binary(min_size=24, max_size=80)


def test_the_published_examples():
    """Pass: the signatures that the reference implementation tests itself with, of both versions."""
    message = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert sign(read_secret(SECRET), *message) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    key = "6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
    assert sign(read_secret(f"whsk_{key}"), *message) == (
        "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/"
        "enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
    )


@given(raw_secrets, ids, bodies)
@pytest.mark.in_turn
def test_what_is_signed_here_verifies_there(raw, message_id, body):
    """Pass: `standardwebhooks` and `svix` take our signature, also after another one."""
    secret, now = f"whsec_{encoded(raw)}", int(datetime.now(UTC).timestamp())
    mine = sign(read_secret(secret), message_id, now, body)
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": str(now),
        "webhook-signature": f"{sign(read_secret(OTHER), message_id, now, body)} {mine}",
    }
    standardwebhooks.Webhook(secret).verify(body, headers, json_parse=False)
    svix.webhooks.Webhook(secret).verify(body, headers)


@given(raw_secrets, ids, times, bodies)
@pytest.mark.in_turn
def test_what_is_signed_there_verifies_here(raw, message_id, seconds, body):
    """Pass: signatures of `standardwebhooks` and `svix` are ours, byte for byte, and verify."""
    secret, at = f"whsec_{encoded(raw)}", datetime.fromtimestamp(seconds, UTC)
    key = read_secret(secret)
    for library in (standardwebhooks.Webhook(secret), svix.webhooks.Webhook(secret)):
        theirs = library.sign(message_id, at, body.decode())
        assert theirs == sign(key, message_id, seconds, body)
        assert verify([key], message_id, str(seconds), body, theirs)


def test_ed25519_against_openssl(tmp_path):
    """Pass: openssl verifies our signature, and makes the very same one, over `id.timestamp.body`."""
    secret, public, _ = pair()
    body = b"\x00raw \xff body\n"
    (tmp_path / "content").write_bytes(b"msg_1.1700000000." + body)
    (tmp_path / "key.pem").write_bytes(
        Ed25519PrivateKey.from_private_bytes(bytes(range(32))).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
    )
    mine = sign(read_secret(secret), "msg_1", 1_700_000_000, body)
    made = "openssl pkeyutl -sign -rawin -inkey key.pem -in content -out signature"
    subprocess.run(made.split(), cwd=tmp_path, check=True, capture_output=True)
    assert mine == "v1a," + encoded((tmp_path / "signature").read_bytes())
    assert verify([read_secret(public)], "msg_1", "1700000000", body, mine)
    assert verify([read_secret(secret)], "msg_1", "1700000000", body, mine)


def test_several_signatures_and_several_secrets():
    """Pass: one match is enough, wherever it stands; a signature counts for its own version alone."""
    keys = [read_secret(SECRET), read_secret(pair()[0])]
    first, second = (sign(key, "a", NOW, b"x") for key in keys)
    noise = "v1,AAAA v2,zzz nonsense v1, v1a,AAAA , v1,\x7f"
    for header in (first, second, f"{noise} {second}", f"{first} {noise}", f"{first} {second}"):
        assert verify(keys, "a", str(NOW), b"x", header)
    assert not verify([keys[0]], "a", str(NOW), b"x", second)
    assert not verify([keys[1]], "a", str(NOW), b"x", first)
    assert not verify(keys, "a", str(NOW), b"x", noise)
    assert not verify([], "a", str(NOW), b"x", first)
    swapped = f"v1a,{first.partition(',')[2]} v1,{second.partition(',')[2]}"
    assert not verify(keys, "a", str(NOW), b"x", swapped)


def test_no_more_signatures_are_looked_at_than_said():
    """Pass: the 32nd counts, the 33rd does not: a header full of signatures costs little."""
    key = read_secret(SECRET)
    right = sign(key, "a", NOW, b"x")
    wrong = "v1,AAAA "
    assert verify([key], "a", str(NOW), b"x", wrong * (MOST_SIGNATURES - 1) + right)
    assert not verify([key], "a", str(NOW), b"x", wrong * MOST_SIGNATURES + right)


@given(ids, times, bodies, st.data())
@settings(max_examples=300)
@pytest.mark.in_turn
def test_any_change_breaks_a_signature(message_id, seconds, body, data):
    """Pass: another id, time, body, secret or a bit of the signature: false, under v1 and v1a."""
    secret = data.draw(st.sampled_from([SECRET, pair()[0]]))
    key = read_secret(secret)
    header = sign(key, message_id, seconds, body)
    assert verify([key], message_id, str(seconds), body, header)
    version, _, signature = header.partition(",")
    raw = bytearray(base64.b64decode(signature))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert not verify([key], message_id, str(seconds), body, f"{version},{encoded(raw)}")
    assert not verify([key], message_id + "x", str(seconds), body, header)
    assert not verify([key], message_id, str(seconds + 1), body, header)
    assert not verify([key], message_id, f"0{seconds}", body, header)
    assert not verify([key], message_id, str(seconds), body + b" ", header)
    others = [read_secret(OTHER), read_secret(pair(bytes(32))[1])]
    assert not verify(others, message_id, str(seconds), body, header)


@given(st.text(), st.text(), st.binary(), st.text())
def test_any_text_in_headers_is_false_and_no_error(message_id, timestamp, body, header):
    """Pass: false for what nobody signed, whatever characters there are."""
    keys = [read_secret(SECRET), read_secret(pair()[1])]
    assert not verify(keys, message_id, timestamp, body, header)


def test_parts_can_not_be_moved_between_id_timestamp_and_body():
    """Pass: where the parts of what is signed could be others, at most one reading verifies; what could
    be read in two ways is not signed."""
    key = read_secret(SECRET)
    header = sign(key, "a", NOW, b"%d.x" % NOW)
    assert verify([key], "a", str(NOW), b"%d.x" % NOW, header)
    assert not verify([key], f"a.{NOW}", str(NOW), b"x", header)
    assert not verify([key], "a", f"{NOW}.{NOW}", b"x", header)
    header = sign(key, "a.1", NOW, b"2.x")
    assert verify([key], "a.1", str(NOW), b"2.x", header)
    assert not verify([key], "a", "1", b"%d.2.x" % NOW, header)
    assert not verify([key], f"a.1.{NOW}", "2", b"x", header)
    for wrong in (f"a.{NOW}", f"a.{NOW}.b", f".{NOW}", "", "ä", "a b", "a\n"):
        with pytest.raises(ValueError, match="can't sign"):
            sign(key, wrong, NOW, b"")
    for wrong in (-1, 0, 999_999_999, 10_000_000_000):
        with pytest.raises(ValueError, match="can't sign"):
            sign(key, "a", wrong, b"")


@given(st.lists(st.sampled_from(["a", "1", "", str(NOW)]), min_size=3, max_size=8))
def test_what_is_signed_can_be_read_in_one_way(parts):
    """Pass: wherever a text is cut into id, time and body, the one cut at its first time verifies."""
    key, content = read_secret(SECRET), ".".join(parts)
    header = f"v1,{encoded(key.sign(content.encode()))}"
    cuts = [
        (".".join(parts[:n]), parts[n], ".".join(parts[n + 1 :])) for n in range(1, len(parts) - 1)
    ]
    first = next((cut for cut in cuts if cut[1] == str(NOW)), None)
    right = [cut for cut in cuts if verify([key], *cut[:2], cut[2].encode(), header)]
    assert right == ([first] if first is not None and first[0] else [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "begins with whsec_, whsk_ or whpk_"),
        ("TOPSECRETTOPSECRETTOPSECRETTOPSE", "begins with whsec_, whsk_ or whpk_"),
        ("whsec_", "0 bytes"),
        ("whsec_TOPSECRETTOPSECRET", "13 bytes; whsec_ asks for 24"),
        ("whsec_TOPSECRET!TOPSECRET", "not base64"),
        ("whsec_TOPSECRETä", "not base64"),
        ("whsk_TOPSECRETTOPSECRET", "whsk_ asks for 32 or 64"),
        ("whpk_TOPSECRETTOPSECRET", "whpk_ asks for 32"),
        (
            "whsk_" + "TOPSECRE" * 8 + "TOPSECRETTOPSECRETTOPSECRETTOPSECRETTOPSECRETTOPSEA=",
            "32 or",
        ),
        ("whsk_" + encoded(b"TOPSECRE" * 8), "not the public key"),
    ],
)
def test_no_error_shows_the_secret(text, words):
    """Pass: an error that says what is expected, without a piece of the text."""
    with pytest.raises(SecretError, match=words) as error:
        read_secret(text)
    assert "TOPSECRE" not in str(error.value) + repr(error.value)
    assert error.value.__cause__ is None


def test_secrets_in_every_form():
    """Pass: spaces around it, no padding, the 64 bytes of other libraries; no repr shows a secret."""
    seed = bytes(range(32))
    secret, public, raw = pair(seed)
    whole = read_secret(f"whsk_{encoded(seed + raw)}")
    half = read_secret(f" {secret}\n")
    assert sign(whole, "a", NOW, b"x") == sign(half, "a", NOW, b"x")
    bare = read_secret(OTHER.rstrip("="))
    assert isinstance(bare, HMACKey)
    assert isinstance(half, PrivateKey)
    assert sign(bare, "a", NOW, b"x") == sign(read_secret(OTHER), "a", NOW, b"x")
    assert isinstance(read_secret(public), PublicKey)
    for key in (whole, bare, read_secret(public)):
        assert repr(key).endswith("(**********)")
        again = pickle.loads(pickle.dumps(key))
        assert verify([again], "a", NOW, b"x", sign(bare if key is bare else half, "a", NOW, b"x"))


def test_a_public_key_does_not_sign():
    """Pass: an error that names the kind of secret that does."""
    with pytest.raises(SecretError, match="whsk_"):
        sign(read_secret(pair()[1]), "a", NOW, b"x")


def test_hmac_needs_no_cryptography():
    """Pass: signing and verifying by v1 in a new process does not import `cryptography`."""
    code = (
        "import sys; from mainstem_direct_webhook.standard import *; "
        f"key = read_secret({SECRET!r}); assert verify([key], 'a', {NOW}, b'x', sign(key, 'a', {NOW}, b'x'));"
        "assert not any(name.partition('.')[0] == 'cryptography' for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
