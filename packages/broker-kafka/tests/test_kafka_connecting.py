"""Reaching Kafka: options and their two renderings, passwords, certificates and tokens, what errors say."""

from __future__ import annotations

import pickle

import pytest
from kafka_reading import document, values
from kafka_secured import CLIENT, CLIENT_SECRET, PASSWORD, USER, SecuredKafka
from kafka_topics import JARS, Topics
from mainstem import DocumentError, MachineError, OptionError, PermanentError, PipelineError
from mainstem.contracts.secrets import secrets_in
from mainstem_broker_kafka import jars
from mainstem_broker_kafka.client import unless_given
from mainstem_broker_kafka.connection import Properties, SparkOptions, java, librdkafka
from mainstem_testkit.conformance.receiver import taken
from mainstem_testkit.plugin import serve

SECRETS = (PASSWORD, CLIENT_SECRET, "open sesame", "PRIVATE KEY")


@pytest.fixture(scope="module")
def secured(request, tmp_path_factory):
    yield from serve(SecuredKafka, request, tmp_path_factory)


def options(**given):
    return SparkOptions.model_validate({"servers": "kafka.test:9092", **given})


# -- options ------------------------------------------------------------------------------------


def test_settings_are_not_printed_and_only_credentials_are_looked_for():
    """Pass: no setting stands in the options' text; of all settings, those with credentials are secrets."""
    kafka = {
        "check.crcs": True,
        "group.id": "group-7",
        "sasl.jaas.config": "login-1",
        "sasl.oauthbearer.assertion.private.key.passphrase": "phrase-2",
    }
    librdkafka = {
        "ssl.key.pem": "pem-3",
        "sasl.oauthbearer.client.secret": "word-4",
        "debug": "all",
    }
    found = options(kafka=kafka, librdkafka=librdkafka)
    secrets = ["login-1", "pem-3", "phrase-2", "word-4"]
    assert sorted(secrets_in(found)) == secrets
    assert not any(each in repr(found) for each in ("group-7", *secrets))


def test_settings_are_rendered_for_both_clients():
    """Pass: Java gets a login in its syntax with quotes escaped, librdkafka user and password; what `kafka`
    says comes on top in both, `librdkafka` in one."""
    found = options(
        sasl={"mechanism": "SCRAM-SHA-512", "user": "u", "password": 'a"b\\c'},
        client_id="me",
        kafka={"receive.buffer.bytes": 65536, "check.crcs": False},
        librdkafka={"receive.buffer.bytes": 1},
    )
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required "
    assert java(found) == {
        "bootstrap.servers": "kafka.test:9092",
        "client.id": "me",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": login + r'username="u" password="a\"b\\c";',
        "receive.buffer.bytes": "65536",
        "check.crcs": "false",
    }
    assert librdkafka(found) == {
        "bootstrap.servers": "kafka.test:9092",
        "client.id": "me",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": 'a"b\\c',
        "receive.buffer.bytes": "1",
        "check.crcs": "false",
    }


@pytest.mark.in_turn
def test_a_login_in_javas_words_alone_is_not_tried_by_the_second_client(topics):
    """Pass: what `kafka` says of a mechanism that librdkafka has not keeps nobody from reading, and using
    the second client says what to write."""
    from mainstem_broker_kafka import client

    given = {"sasl.mechanism": "AWS_MSK_IAM", "security.protocol": "SASL_SSL"}
    assert not options(kafka=given).known_to_both
    assert options(kafka=given, librdkafka={"sasl.mechanism": "PLAIN"}).known_to_both
    with pytest.raises(OptionError, match="does not take a setting") as failed:
        client.admin(librdkafka(options(kafka=given)))
    assert "librdkafka" in failed.value.hint


def test_what_only_java_knows_is_kept_from_the_second_client():
    """Pass: logins, key stores and trust stores in Java's words come to Java alone; what `librdkafka` says, and
    a key store of the kind that both read, come to the second client."""
    login = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": "Login required;"}
    handler = {"sasl.login.callback.handler.class": "a.Handler"}
    trust = {"ssl.truststore.location": "/ca.jks", "ssl.truststore.password": "p"}
    keys = {"ssl.keystore.location": "/k.jks", "ssl.keystore.password": "p"}
    found = options(kafka={**login, **handler, **trust, **keys, "check.crcs": True})
    assert java(found).keys() >= {*login, *handler, *trust, *keys}
    second = librdkafka(found)
    assert second.keys() == {"bootstrap.servers", "sasl.mechanism", "check.crcs"}
    assert second.left_out == {"sasl.jaas.config", *handler, *trust, *keys}
    shared = librdkafka(options(kafka={**keys, "ssl.keystore.type": "pkcs12"}))
    assert shared.keys() >= keys.keys()
    own = {"sasl.username": "u", "sasl.password": "p"}
    for given, more, known in (
        (login, {}, False),
        (login, own, True),
        (trust, {}, False),
        (trust, own, False),
        (trust, {"ssl.ca.location": "/ca.pem"}, True),
        ({**login, **trust}, own, False),
        ({"security.protocol": "SSL"}, {}, True),
    ):
        assert options(kafka=given, librdkafka=more).known_to_both == known, given


@pytest.mark.slow
def test_a_missing_login_of_the_second_client_is_told(secured):
    """Pass: who is trusted is said in Java's words alone: looking at topics fails with the settings that this
    client knows nothing of, and where to say them."""
    from mainstem_broker_kafka.source.offsets import Brokers
    from mainstem_broker_kafka.source.options import KafkaSourceOptions

    trust = {"security.protocol": "SSL", "ssl.truststore.location": "/ca.jks"}
    given = {
        "servers": secured.servers("ssl"),
        "topics": ["t"],
        "answer_timeout": "5 s",
        "kafka": trust,
    }
    with pytest.raises(PipelineError, match=r"ssl\.truststore\.location.*under `librdkafka`"):
        Brokers(KafkaSourceOptions.model_validate(given)).partitions()


def test_secrets_are_not_shown():
    """Pass: neither options nor settings show a password or a value of `kafka`, pickled or not; a value of the
    wrong type is not quoted by its error."""
    found = options(
        sasl={"mechanism": "PLAIN", "user": "u", "password": PASSWORD},
        kafka={"some.password": PASSWORD},
    )
    for settings in (java(found), librdkafka(found)):
        again = pickle.loads(pickle.dumps(settings))
        assert again == settings
        for shown in (repr(settings), str(again), f"{settings}", repr(found)):
            assert PASSWORD not in shown
    assert pickle.loads(pickle.dumps(librdkafka(found))).optional == {"some.password"}
    with pytest.raises(ValueError, match="sasl.password") as failed:
        options(sasl={"mechanism": "PLAIN", "user": "u", "password": ["hush"]})
    assert "hush" not in str(failed.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"servers": []}, "at least one server"),
        ({"servers": "kafka.test"}, "expected host:port"),
        ({"servers": ["a:1", "b:99999"]}, "expected host:port, not 'b:99999'"),
        ({"kafka": {"bootstrap.servers": "x:1"}}, "write `servers`"),
        ({"kafka": {"client.id": "x"}}, "write `client_id`"),
        ({"kafka": {"kafka.client.id": "x"}}, "leave `kafka.` out"),
        ({"tls": {}, "kafka": {"security.protocol": "SSL"}}, "follows from `sasl` and `tls`"),
        ({"tls": {}, "kafka": {"ssl.protocol": "x"}}, "`tls` is there"),
        (
            {"tls": {}, "librdkafka": {"enable.ssl.certificate.verification": "false"}},
            "`tls` is there",
        ),
        ({"sasl": {"mechanism": "PLAIN", "user": "u"}}, "PLAIN needs password"),
        (
            {"sasl": {"mechanism": "OAUTHBEARER", "client_id": "c"}},
            "needs token_endpoint and client_secret",
        ),
        (
            {"sasl": {"mechanism": "PLAIN", "user": "u", "password": "p", "scope": "s"}},
            "takes no scope",
        ),
        ({"sasl": {"mechanism": "GSSAPI"}}, "PLAIN"),
        ({"tls": {"key": "x"}}, "key is there without certificate"),
        ({"tls": {"key_password": "x"}}, "key_password is there without certificate"),
        ({"answer_timeout": "0 seconds"}, "more than 0"),
        ({"packages": ["a:b"]}, "group:artifact:version"),
    ],
)
def test_wrong_options_are_refused(given, expected):
    """Pass: the error says what is wrong."""
    with pytest.raises(ValueError, match=expected):
        options(**given)


def test_servers_may_have_addresses_of_version_6():
    """Pass: an address in brackets, and several servers in one text, are taken."""
    assert options(servers="[::1]:9092, a-b.c:1").servers == ("[::1]:9092", "a-b.c:1")


@pytest.mark.in_turn
def test_files_that_do_not_fit_are_told(secured):
    """Pass: a missing file, one without a certificate and a key that Java does not read are errors with the
    option's name; the last says how to make one."""
    made = secured.certificates
    for changes, option, expected in (
        ({"ca": f"{made}/none.pem"}, "tls.ca", "No such file"),
        ({"ca": f"{made}/client.key"}, "tls.ca", "no certificate"),
        ({"key": f"{made}/client.pem"}, "tls.key", "no private key"),
        ({"key": f"{made}/old.key"}, "tls.key", "does not read"),
    ):
        for render in (java, librdkafka):
            with pytest.raises(OptionError, match=expected) as failed:
                render(options(tls=secured.tls(**changes)))
            assert failed.value.option == option
    assert "openssl pkcs8" in failed.value.hint


# -- jars ---------------------------------------------------------------------------------------


def test_jars_follow_pyspark_unless_given(tmp_path):
    """Pass: the connector of the installed PySpark; `packages` and `jars`, a folder of them too, replace it;
    a jar that is not there is an error with exit code 4 that says which."""
    from importlib.metadata import version

    wanted = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"
    assert jars.needs(options()).packages == (wanted,)
    assert jars.needs(options(packages=["a:b:1"])).packages == ("a:b:1",)
    assert jars.needs(options(packages=[])).packages == ()
    found = jars.needs(options(jars=JARS))
    assert found.packages == ()
    assert any("spark-sql-kafka" in jar for jar in found.jars)
    for jar in (tmp_path / "none.jar", tmp_path):
        with pytest.raises(MachineError, match=str(jar)):
            jars.needs(options(jars=[str(jar)]))


# -- a server that asks who is there ------------------------------------------------------------

_LOGINS = {"user": USER, "password": PASSWORD}


def ways(secured):
    """Return options that the server lets in, by what they show."""
    named = {"ca": f"{secured.certificates}/ca.pem", "verify_host": False}
    locked = {"key": f"{secured.certificates}/locked.key", "key_password": "open sesame"}
    plain = {"mechanism": "PLAIN", **_LOGINS}
    own = {
        "kafka": {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": java(options(sasl=plain))["sasl.jaas.config"],
        },
        "librdkafka": {"sasl.username": USER, "sasl.password": PASSWORD},
    }
    return {
        "Kafka's own words": ("sasl", own),
        "PLAIN": ("sasl", {"sasl": {"mechanism": "PLAIN", **_LOGINS}}),
        "SCRAM-SHA-256": ("sasl", {"sasl": {"mechanism": "SCRAM-SHA-256", **_LOGINS}}),
        "SCRAM over TLS": (
            "sasl_ssl",
            {"sasl": {"mechanism": "SCRAM-SHA-512", **_LOGINS}, "tls": named},
        ),
        "certificate": ("ssl", {"tls": secured.tls()}),
        "one file": (
            "ssl",
            {"tls": secured.tls(certificate=f"{secured.certificates}/client-whole.pem", key=None)},
        ),
        "locked key": ("ssl", {"tls": secured.tls(**locked)}),
    }


@pytest.mark.parametrize(
    "way",
    [
        "PLAIN",
        "SCRAM-SHA-256",
        "SCRAM over TLS",
        "certificate",
        "one file",
        "locked key",
        "Kafka's own words",
    ],
)
@pytest.mark.in_turn
def test_passwords_and_certificates_open_the_door(pipeline, spark, secured, way):
    """Pass: both clients are let in: messages come, progress is published to a group, the lag is told."""
    listener, given = ways(secured)[way]
    topics = Topics(secured)
    topic = topics.make()
    topics.put(topic, ["in"])
    group = f"{topic}-group"
    source = topics.source(topic, servers=secured.servers(listener), group=group, **given)
    document(pipeline, source).run()
    assert values(pipeline) == ["in"]
    assert topics.committed(group, topic) == 1


def queue(topic, **given):
    """Return a receiver of a share group."""
    from mainstem_broker_kafka.queue.options import KafkaQueueOptions
    from mainstem_broker_kafka.queue.receiver import KafkaQueueReceiver

    made = {"topics": topic, "group": f"of-{topic}", "answer_timeout": "5 s", **given}
    return KafkaQueueReceiver(KafkaQueueOptions.model_validate(made), 0, "jobs")


@pytest.mark.parametrize("way", ["SCRAM over TLS", "certificate"])
@pytest.mark.in_turn
def test_share_groups_come_in_by_the_same_doors(secured, way):
    """Pass: messages come, and the next after they are acknowledged."""
    listener, given = ways(secured)[way]
    topics = Topics(secured)
    topic = topics.make()
    receiver = queue(topic, servers=secured.servers(listener), **given)
    receiver.connect(None)
    for value in ("one", "two"):
        topics.put(topic, [value])
        found = taken(receiver, 1)
        assert [message.value for message in found] == [value.encode()]
        receiver.acknowledge(found)
    receiver.close()


@pytest.mark.in_turn
def test_a_share_group_that_is_not_let_in_is_told_why(secured):
    """Pass: a wrong password, and brokers without share groups, end it for good; each says what to do, and
    nothing of the password."""
    topic = Topics(secured).make()
    login = {"mechanism": "PLAIN", "user": USER, "password": "wrong-one"}
    receiver = queue(topic, servers=secured.servers("sasl"), sasl=login)
    with pytest.raises(PermanentError, match="Look at `sasl`") as failed:
        receiver.connect(None)
    assert "wrong-one" not in str(failed.value)
    receiver.close()
    secured.tool("kafka-features", "downgrade", "--feature", "share.version=0")
    try:
        receiver = queue(topic, servers=secured.url)
        receiver.connect(None)
        with pytest.raises(PermanentError, match=r"since Kafka 4\.2"):
            taken(receiver, 1)
        receiver.close()
    finally:
        secured.tool("kafka-features", "upgrade", "--feature", "share.version=1")


@pytest.mark.in_turn
def test_tokens_open_the_door(pipeline, spark, secured):
    """Pass: both clients get a token from the endpoint, with the scope, and are let in."""
    topics = Topics(secured)
    topic = topics.make()
    topics.put(topic, ["in"])
    group = f"{topic}-group"
    with secured.tokens() as (url, asked):
        login = {"client_id": CLIENT, "client_secret": CLIENT_SECRET, "scope": "read"}
        source = topics.source(
            topic,
            servers=secured.servers("sasl"),
            group=group,
            sasl={"mechanism": "OAUTHBEARER", "token_endpoint": url, **login},
        )
        document(pipeline, source).run()
    assert values(pipeline) == ["in"]
    assert topics.committed(group, topic) == 1
    assert asked
    assert all(each == {"known": True, "scope": ["read"]} for each in asked)


@pytest.mark.parametrize(
    ("listener", "change", "expected"),
    [
        ("sasl", {"sasl": {"mechanism": "PLAIN", "user": USER, "password": "wrong-one"}}, "Look at `sasl`"),
        ("sasl", {"sasl": {"mechanism": "SCRAM-SHA-256", "user": USER, "password": "wrong-one"}}, "Look at `sasl`"),
        ("ssl", {"tls": {"ca": "other.pem"}}, "Look at `tls`"),
        ("ssl", {"tls": {"ca": "ca.pem"}}, "Look at `tls`"),
        ("sasl_ssl", {"sasl": {"mechanism": "PLAIN", **_LOGINS}, "tls": {"ca": "ca.pem"}}, "Look at `tls`"),
        ("sasl", {}, "failed at 127.0.0.1"),
    ],
    ids=["password", "scram", "other ca", "no certificate", "other name", "no login"],
)  # fmt: skip
@pytest.mark.in_turn
def test_who_is_not_let_in_is_told_why(pipeline, spark, secured, listener, change, expected):
    """Pass: the run fails soon with what was tried, where, and the next step, and without a secret."""
    if "tls" in change:
        change = {**change, "tls": {"ca": f"{secured.certificates}/{change['tls']['ca']}"}}
    source = Topics(secured).source(
        "any", servers=secured.servers(listener), answer_timeout="5 s", **change
    )
    with pytest.raises(PipelineError) as failed:
        document(pipeline, source).run()
    text = str(failed.value)
    assert expected in text
    assert secured.servers(listener) in text
    assert not [secret for secret in (*SECRETS, "wrong-one") if secret in text]


@pytest.mark.in_turn
def test_a_server_that_is_not_there_is_told(pipeline, spark):
    """Pass: the run fails within `answer_timeout`, names the server and asks whether it is up."""
    source = {
        "use": "kafka",
        "with": {"servers": "127.0.0.1:1", "topics": "t", "answer_timeout": "2 s"},
    }
    with pytest.raises(
        PipelineError, match=r"at 127\.0\.0\.1:1: .*Connection refused.*Are the brokers up"
    ):
        document(pipeline, source).run()


@pytest.mark.in_turn
def test_a_topic_that_is_not_there_is_an_error_of_the_document(pipeline, spark, topics):
    """Pass: missing topics and partitions are told with the option, and are not made by asking for them."""
    topic = topics.make(2)
    for given, expected in (
        ({"topics": ["none-such"]}, "with.topics: there is no topic 'none-such'"),
        ({"assignment": {topic: [0, 7]}}, "with.assignment: topic .* has no partition 7, but 2"),
        ({"topics": [topic], "start": {topic: {5: 0}}}, "with.start: there is no partition .*/5"),
    ):
        with pytest.raises(DocumentError, match=expected):
            document(pipeline, topics.source(**given)).run()
    assert "none-such" not in topics.admin.list_topics(timeout=10).topics


@pytest.mark.in_turn
def test_the_plan_of_spark_shows_no_secret(pipeline, spark, secured):
    """Pass: neither an explained plan nor the checkpoint has the password."""
    from mainstem_broker_kafka.source.options import KafkaSourceOptions, reading_options

    topics = Topics(secured)
    topic = topics.make()
    topics.put(topic, ["in"])
    given = {"sasl": {"mechanism": "PLAIN", **_LOGINS}, "servers": secured.servers("sasl")}
    made = KafkaSourceOptions.model_validate({"topics": [topic], **given})
    frame = (
        spark.readStream.name("shown")
        .format("kafka")
        .options(**reading_options(made, "earliest", bounded=True))
        .load()
    )
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(pipeline.folder / "shown"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    plan = query._jsq.explainInternal(True) + frame._jdf.queryExecution().analyzed().toString()
    assert "KafkaScan" in plan
    document(pipeline, topics.source(topic, **given)).run()
    made = [f for f in (pipeline.folder / "checkpoints").rglob("*") if f.is_file()]
    assert made
    texts = [plan, *(file.read_text(errors="replace") for file in made)]
    for secret in ('p"a', "ss=w;ord"):
        assert not [text for text in texts if secret in text]


def test_settings_of_ours_are_those_that_the_user_has_not_given():
    """Pass: of two, only the one that is not among those of the user, which are spelled with dots."""
    given = Properties({"retry.backoff.ms": "300"})
    assert unless_given(given, retry_backoff_ms=10, linger_ms=20) == {"linger_ms": 20}
