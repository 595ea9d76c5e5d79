"""What every connector that speaks TLS refuses, whatever it is."""

from __future__ import annotations

import typing
from collections.abc import Iterator

import pytest
from mainstem import HostTLSOptions, Options, TLSOptions
from mainstem.plan.build import make_plan
from mainstem.registry import Registry
from pydantic import ValidationError


def connectors() -> Iterator[tuple[str, str]]:
    """Yield kind and word of each source and sink that has options of TLS."""
    registry = Registry()
    for kind in ("source", "sink"):
        for word in registry.named(kind):
            if tls_of(registry.component(kind, word).options_model()) is not None:
                yield kind, word


def tls_of(model: type[Options]) -> type[TLSOptions] | None:
    """Return the options of `tls` among some options."""
    field = model.model_fields.get("tls")
    kinds = typing.get_args(field.annotation) if field else ()
    found = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, TLSOptions)]
    return found[0] if found else None


def test_there_are_connectors_with_tls():
    """Pass: those of the workspace are found, or the other tests here would show nothing."""
    words = {word for _, word in connectors()}
    assert {"amqp", "kafka", "sql", "webhook", "jetstream"} <= words


@pytest.mark.parametrize(("kind", "word"), list(connectors()))
def test_no_certificate_of_anybody_opens_the_door(kind, word):
    """Pass: without the name to check, the authorities must be given: no option of `tls` undoes both."""
    model = tls_of(Registry().component(kind, word).options_model())
    assert model is not None
    if issubclass(model, HostTLSOptions):
        with pytest.raises(ValidationError, match="`verify_host: false` needs `ca`"):
            model.model_validate({"verify_host": False})
        assert not model.model_validate({"verify_host": False, "ca": "ca.pem"}).verify_host
    assert not {"verify", "insecure", "verify_peer", "check_certificate"} & {*model.model_fields}
    context = TLSOptions().context()
    assert context.check_hostname


@pytest.mark.parametrize(
    ("url", "options", "warned"),
    [
        ("postgresql://u:secret@db.example.org/shop", {}, True),
        ("mysql://u:secret@10.0.0.5/shop", {}, True),
        ("postgresql://u:secret@db.example.org/shop", {"tls": {}}, False),
        ("postgresql://u:secret@localhost/shop", {}, False),
        ("mysql://u:secret@127.0.0.1:3306/shop", {}, False),
        ("sqlite:///shop.db", {}, False),
    ],
)
def test_a_connection_that_anybody_can_read_is_a_warning_of_the_plan(url, options, warned):
    """Pass: for source and sink, on another host, without `tls`; the password is not in it."""
    given = {"url": url, "table": "orders", **options}
    plan = make_plan(
        {
            "pipeline": "test",
            "trigger": {"available_now": True},
            "sources": {"rows": {"use": "sql", "with": {**given, "schema": "id BIGINT"}}},
            "sinks": {
                "out": {"use": "sql", "from": "rows", "with": given, "deliver": "microbatch"}
            },
        }
    )
    found = [warning for warning in plan.warnings if "is not encrypted" in warning]
    assert [warning.partition(":")[0] for warning in found] == (["rows", "out"] if warned else [])
    assert "secret" not in "".join(plan.warnings)
