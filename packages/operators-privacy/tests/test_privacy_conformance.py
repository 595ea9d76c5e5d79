"""Both operators pass the standard tests."""

from __future__ import annotations

import base64

import pytest
from mainstem_testkit import OperatorSuite

MASTER = base64.b64encode(bytes(range(32))).decode()


class Keys:
    @pytest.fixture(autouse=True)
    def store(self, tmp_path_factory):
        file = tmp_path_factory.mktemp("keys") / "keys.db"
        self.keys = {"url": f"sqlite:///{file}", "master": MASTER}


class TestEncrypt(Keys, OperatorSuite):
    use = "encrypt"
    inputs = {"input": "k STRING, at TIMESTAMP, v INT"}

    def options(self):
        return {"subject": "k", "columns": ["v"], "keys": self.keys}


class TestEncryptOfAChangelog(Keys, OperatorSuite):
    use = "encrypt"
    inputs = {
        "input": {
            "columns": "k STRING, v INT, n BIGINT",
            "key": ["k"],
            "sequence": "n",
            "delete": "v = 2",
        }
    }

    def options(self):
        return {"subject": "k", "columns": ["v"], "keys": self.keys}


class TestDecrypt(Keys, OperatorSuite):
    use = "decrypt"
    inputs = {"input": "k STRING, at TIMESTAMP, v STRING"}

    def options(self):
        return {"subject": "k", "columns": "v STRING", "keys": self.keys}
