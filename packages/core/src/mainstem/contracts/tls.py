"""The certificates of a client: one set of options for every connector that speaks TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import model_validator

from mainstem.contracts.options import LocalPath, Options, option

if TYPE_CHECKING:
    import ssl


class TLSOptions(Options):
    """Options of `tls`; a connector that offers more derives from it."""

    ca: LocalPath | None = option(
        None,
        description="Certificates (PEM) that the server's must be signed by; the system's when left out.",
        example="ca.pem",
    )
    certificate: LocalPath | None = option(
        None,
        description="This client's certificate (PEM), for a server that asks for one.",
        example="client.pem",
    )
    key: LocalPath | None = option(
        None,
        description="The key (PEM) of `certificate`, when it is not in the same file.",
        example="client.key",
    )

    @model_validator(mode="after")
    def _key_has_certificate(self) -> TLSOptions:
        if self.key is not None and self.certificate is None:
            raise ValueError("key is there without certificate")
        return self

    def context(self) -> ssl.SSLContext:
        """Return what TLS is spoken with; it checks the server's certificate and its name.

        Raises:
            OSError: a file can't be read, or holds no certificate or key; says which.
        """
        import ssl

        ca, certificate, key = (
            str(file) if file else None for file in (self.ca, self.certificate, self.key)
        )
        try:
            context = ssl.create_default_context(cafile=ca)
        except OSError as error:
            raise OSError(f"tls.ca: can't read certificates from {ca}: {error}") from None
        if certificate is not None:
            try:
                # An encrypted key is not asked for on a terminal.
                context.load_cert_chain(certificate, key, lambda: "")
            except OSError as error:
                what = certificate + (f" and {key}" if key else "")
                raise OSError(
                    f"tls.certificate: can't read certificate and key from {what}: {error}"
                ) from None
        return context


class HostTLSOptions(TLSOptions):
    """Options of `tls`, of a connector that can do without the name in the server's certificate."""

    verify_host: bool = option(
        True,
        description="Whether the server's certificate must carry the name connected to. Without it the "
        "certificate must be signed by those of `ca`.",
    )

    @model_validator(mode="after")
    def _known_by_something(self) -> HostTLSOptions:
        if not self.verify_host and self.ca is None:
            # Anybody has a certificate of some authority that the system trusts.
            raise ValueError("`verify_host: false` needs `ca`")
        return self

    def context(self) -> ssl.SSLContext:
        """Return what TLS is spoken with; see `TLSOptions.context`."""
        context = super().context()
        context.check_hostname = self.verify_host
        return context
