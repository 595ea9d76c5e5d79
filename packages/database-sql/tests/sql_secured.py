"""Servers that speak TLS and ask for passwords or certificates; see `conftest`."""

from __future__ import annotations

import shutil

from mainstem_database_sql.testing.mariadb import MariaDB
from mainstem_database_sql.testing.postgres import Postgres
from mainstem_testkit.certificates import make_certificates

#: The user who needs a password, and whose it is.
USER, PASSWORD = "alice", "S3CRET@/#?:%"
ENCODED = "S3CRET%40%2F%23%3F%3A%25"
#: The user who is let in by a certificate that carries the name.
CERTIFIED = "carol"


def certificates(folder):
    """Make two authorities; of the first a server's certificate, for `localhost`, and a client's."""
    whom = {"server": "DNS:localhost", "client": "DNS:localhost"}
    make_certificates(folder, whom, client=CERTIFIED)
    for file in folder.glob("*.key"):
        file.chmod(0o600)


class SecuredPostgres(Postgres):
    """Trusts its superuser; others need TLS, and a password or a certificate."""

    name = "postgres_tls"

    @property
    def certificates(self):
        return self.folder / "certificates"

    def prepare(self):
        super().prepare()
        certificates(self.certificates)
        for name in ("server.pem", "server.key", "ca.pem"):
            copied = shutil.copy(self.certificates / name, self._data / name)
            shutil.chown(copied, self._data.owner(), self._data.group())
        (self._data / "server.key").chmod(0o600)
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write("ssl = on\nssl_cert_file = 'server.pem'\nssl_key_file = 'server.key'\n")
            settings.write("ssl_ca_file = 'ca.pem'\n")
        (self._data / "pg_hba.conf").write_text(
            "host all postgres 127.0.0.1/32 trust\n"
            f"hostssl all {CERTIFIED} 127.0.0.1/32 cert\n"
            "hostssl all all 127.0.0.1/32 scram-sha-256\n"
        )

    def users(self):
        self.sql(f"CREATE ROLE {USER} LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
        self.sql(f"CREATE ROLE {CERTIFIED} LOGIN SUPERUSER")

    def url_of(self, user=f"{USER}:{ENCODED}", host="localhost", port=None, database="postgres"):
        return f"postgresql://{user}@{host}:{port or self.port}/{database}"


class SecuredMariaDB(MariaDB):
    """Offers TLS, and asks one user for a password, another for a certificate."""

    name = "mariadb_tls"

    @property
    def certificates(self):
        return self.folder / "certificates"

    def prepare(self):
        super().prepare()
        certificates(self.certificates)
        if (self.folder.stat().st_mode & 0o077) == 0:
            (self.certificates / "server.key").chmod(0o644)

    def command(self):
        argv, env = super().command()
        made = self.certificates
        tls = (f"--ssl-ca={made}/ca.pem", f"--ssl-cert={made}/server.pem")
        return [*argv, *tls, f"--ssl-key={made}/server.key"], env

    def users(self):
        for user, how in (
            (USER, f"IDENTIFIED BY '{PASSWORD}' REQUIRE SSL"),
            (CERTIFIED, "REQUIRE X509"),
        ):
            self.sql(f"CREATE USER {user} {how}; GRANT ALL ON *.* TO {user};")

    def url_of(self, user=f"{USER}:{ENCODED}", host="localhost", port=None, database="test"):
        return f"mysql://{user}@{host}:{port or self.port}/{database}"
