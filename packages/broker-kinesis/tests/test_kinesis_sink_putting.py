"""Putting records under what AWS does now and then: each is there, each key's in order, limits are kept."""

from __future__ import annotations

import base64
import hashlib
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from kinesis_proxy import THROTTLED
from ksisink_putting import Bench, identity, made, number, value
from mainstem import PermanentError
from mainstem_broker_kinesis.aggregation import is_aggregated, unpacked
from mainstem_broker_kinesis.sink.putting import MOST_BYTES, MOST_RECORDS

FORMATS = pytest.mark.parametrize("format_", ["raw", "kpl"])
KEYED = [(f"key {n % 7}", n) for n in range(300)]


@pytest.fixture
def bench(kinesalite: Any) -> Iterator[Bench]:
    with Bench(kinesalite) as bench:
        yield bench


def values(record: dict[str, Any]) -> list[int]:
    """Return the numbers of a record's messages, as the proxy sees it."""
    data = base64.b64decode(record["Data"])
    parts = [m.data for m in unpacked(data)] if is_aggregated(data) else [data]
    return [number(part) for part in parts]


# -- what can fail ----------------------------------------------------------------------------


@FORMATS
@pytest.mark.parametrize("code", [THROTTLED, "InternalFailure"])
@pytest.mark.in_turn
def test_only_records_that_failed_are_put_again_and_no_key_is_overtaken(bench, format_, code):
    """Pass: a third of all records fail at their first try, in the middle of calls that go through: each message is there
    once, for what was taken is not put again, and each key's are in their order."""
    dice = random.Random(7)
    rows = [(f"key {n % 60}", n) for n in range(600)]
    bench.proxy.fail_records(code, times=80, when=lambda _: dice.random() < 0.33)
    bench.put(rows, format=format_, pad=5000 if format_ == "kpl" else 0)
    there = bench.check(rows)
    assert len(there) == len(rows)
    assert bench.proxy.calls[0].records > 1


@FORMATS
@pytest.mark.in_turn
def test_nothing_of_a_key_is_sent_while_its_record_fails(bench, format_):
    """Pass: of the key whose first record fails five times, calls carry that record alone until it is in; other keys pass
    it by, and no call has a key twice."""
    sent: list[list[int]] = []

    def first(record: dict[str, Any]) -> bool:
        return record["PartitionKey"] == "key 0" and 0 in values(record)

    def note(request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        sent.append(
            [n for r in request["Records"] if r["PartitionKey"] == "key 0" for n in values(r)]
        )
        return answer

    bench.proxy.fail_records("InternalFailure", times=5, when=first)
    bench.proxy.rewrite("PutRecords", note)
    bench.put(KEYED, format=format_, pad=20_000)
    there = bench.check(KEYED)
    of_key = [numbers for numbers in sent if numbers]
    assert [0 in numbers for numbers in of_key[:6]] == [True] * 6
    assert all(numbers == of_key[0] for numbers in of_key[:6])
    assert not any(0 in numbers for numbers in of_key[6:])
    assert all(max(Counter(call.keys).values()) == 1 for call in bench.proxy.calls)
    last_other = max(i for i, m in enumerate(there) if m.key != "key 0")
    assert last_other > 0


@FORMATS
@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.in_turn
def test_a_lost_answer_makes_copies_and_no_disorder(bench, format_, attempts):
    """Pass: of calls whose answer is lost the records are there twice, right after each other within their key, whoever
    makes the call again: we, or AWS's client."""
    bench.proxy.lose_answer("PutRecords", times=3)
    bench.put(KEYED, format=format_, attempts=attempts, pad=5000, requests=1)
    there = bench.check(KEYED)
    assert len(there) > len(KEYED)
    if format_ == "kpl":
        copies = Counter(m.identity for m in there)
        assert set(copies) == {identity(n) for _, n in KEYED}


@FORMATS
@pytest.mark.in_turn
def test_a_service_that_fails_for_a_while_is_waited_for(bench, format_):
    """Pass: five calls in a row fail, each in another way, and all is there, nothing twice."""
    for code in (
        "InternalFailure",
        "ServiceUnavailable",
        "ExpiredTokenException",
        "LimitExceededException",
        THROTTLED,
    ):
        bench.proxy.fail("PutRecords", code)
    bench.put(KEYED, format=format_)
    assert len(bench.check(KEYED)) == len(KEYED)


@pytest.mark.in_turn
def test_a_throttled_shard_alone_is_held_back(bench):
    """Pass: while the first shard takes nothing, all of the other's records get in; the first one's calls are few, for
    they wait longer each time."""
    rows = [(f"key {n}", n) for n in range(2000)]
    _, high = (shard["ShardId"] for shard in bench.server.shards(bench.stream))

    def of_low(record: dict[str, Any]) -> bool:
        return shard_of(record["PartitionKey"]) == 0

    bench.proxy.fail_records(THROTTLED, times=10**9, when=of_low)
    with pytest.raises(PermanentError, match="Rate exceeded") as caught:
        bench.put(rows, give_up="3 seconds")
    assert "give_up" in str(caught.value)
    there = bench.found()
    assert {m.shard for m in there} == {high}
    assert len(there) == sum(shard_of(key) == 1 for key, _ in rows)
    assert bench.proxy.count("ListShards") == 1
    assert bench.proxy.count("PutRecords") < 60


def shard_of(key: str) -> int:
    """Return which of two shards a key belongs to, the whole range being halved."""
    return hashlib.md5(key.encode()).digest()[0] >> 7


@pytest.mark.in_turn
def test_without_the_right_to_list_shards_a_throttled_one_holds_back_all(bench):
    """Pass: the records get in all the same once the shard has room."""
    bench.proxy.fail("ListShards", "AccessDeniedException", times=10**9)
    dice = random.Random(3)
    rows = [(f"key {n}", n) for n in range(1200)]
    bench.proxy.fail_records(THROTTLED, times=400, when=lambda _: dice.random() < 0.5)
    bench.put(rows)
    assert len(bench.check(rows)) == len(rows)


def test_a_record_that_aws_refuses_is_found_and_the_rest_is_put(bench):
    """Pass: of a call that the emulator refuses over one record, that one alone is refused, with the reason."""
    bench.put([(f"key {n}", n) for n in range(5)], pad=10)
    big = [("big", 5)]
    options = {"largest": 4 * 2**20}
    bench.put([("a", 6), ("b", 7)], **options)
    putter = bench.putter(**options)
    try:
        for message in [
            *made([("c", 8)], bench.options()),
            *made(big, bench.options(), pad=2 * 2**20),
            *made([("d", 9)], bench.options()),
        ]:
            putter.put(message)
        putter.flush()
    finally:
        putter.close()
    assert [number(value) for value, _ in bench.refused] == [5]
    assert "ValidationException" in bench.refused[0][1]
    assert {number(m.value) for m in bench.found()} == {0, 1, 2, 3, 4, 6, 7, 8, 9}


@pytest.mark.in_turn
def test_a_message_that_aws_refuses_within_a_pack_is_found(bench):
    """Pass: AWS refuses every record that has message 3; it alone is refused, the others keep their order."""

    def with_three(request: dict[str, Any]) -> bool:
        return any(3 in values(record) for record in request["Records"])

    bench.proxy.fail("PutRecords", "InvalidArgumentException", times=10**9, when=with_three)
    rows = [("one", n) for n in range(6)] + [("two", n) for n in range(6, 9)]
    bench.put(rows, format="kpl")
    bench.check([row for row in rows if row[1] != 3])
    assert [number(value) for value, _ in bench.refused] == [3]


# -- what ends it -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("ResourceNotFoundException", "not there"),
        ("AccessDeniedException", "may not"),
        ("UnrecognizedClientException", "access key"),
        ("KMSDisabledException", "KMS"),
    ],
)
def test_what_no_retry_mends_ends_at_once_and_tells(bench, code, says):
    """Pass: one call, and an error that names the stream and the reason, and has no secret."""
    bench.proxy.fail("PutRecords", code, times=10**9, message="of the key s3cr3t-key")
    with pytest.raises(PermanentError, match=says) as caught:
        bench.put(KEYED, access_key="AKIDEXAMPLE", secret_key="s3cr3t-key", requests=1)
    assert bench.stream in str(caught.value)
    assert "s3cr3t-key" not in str(caught.value)
    assert bench.proxy.count("PutRecords") == 1


@pytest.mark.in_turn
def test_giving_up_tells_how_much_is_left_and_why(bench):
    """Pass: with no progress for the given time, the error has the count of messages and AWS's last words."""
    bench.proxy.fail_records(
        "InternalFailure", times=10**9, when=lambda r: r["PartitionKey"] == "key 0"
    )
    with pytest.raises(PermanentError, match="with no progress for 1 s") as caught:
        bench.put(KEYED, give_up="1 second")
    assert "InternalFailure" in str(caught.value)
    left = sum(key == "key 0" for key, _ in KEYED)
    assert f"{left} messages" in str(caught.value)


@pytest.mark.in_turn
def test_rows_that_come_slowly_do_not_count_as_no_progress(bench):
    """Pass: between two rows passes more time than `give_up`, with a failed call before, and both get in."""
    bench.proxy.fail("PutRecords", "InternalFailure")
    putter = bench.putter(give_up="1 second", format="kpl")
    try:
        for message in made([("a", 1), ("b", 2)], bench.options(format="kpl")):
            putter.put(message)
            time.sleep(1.5)
        putter.flush()
    finally:
        putter.close()
    assert {number(m.value) for m in bench.found()} == {1, 2}


# -- limits and placing -----------------------------------------------------------------------


@FORMATS
@pytest.mark.in_turn
def test_calls_keep_awss_limits(bench, format_):
    """Pass: no call has more than 500 records or 5 MiB, and calls are filled as far as that allows."""
    many = [(f"key {n}", n) for n in range(2500)]
    bench.put(many, format=format_)
    large = [(f"large {n}", n) for n in range(40)]
    bench.put(large, format=format_, pad=600_000, requests=1)
    calls = [call for call in bench.proxy.calls if call.operation == "PutRecords"]
    assert max(call.records for call in calls) == MOST_RECORDS
    assert MOST_BYTES * 0.8 < max(call.bytes for call in calls) <= MOST_BYTES
    assert len(calls) <= 20
    bench.check([*many, *large])


def test_a_record_larger_than_the_stream_takes_is_refused_before_it_is_sent(bench):
    """Pass: by data and key together, to the byte; the one that just fits is there."""
    key = "k" * 100
    room = 1000 - len(key)
    base = len(value(1))
    fitting = made([(key, 1)], bench.options(), pad=room - base)[0]
    over = made([(key, 2)], bench.options(), pad=room - base + 1)[0]
    putter = bench.putter(largest=1000)
    for message in (fitting, over):
        putter.put(message)
    putter.flush()
    putter.close()
    assert [number(m.value) for m in bench.found()] == [1]
    ((refused, why),) = bench.refused
    assert number(refused) == 2
    assert "1,001 bytes" in why


@FORMATS
@pytest.mark.in_turn
def test_messages_without_a_key_are_spread_over_all_shards(bench, format_):
    """Pass: all are there, in both shards; packed ones fill few records."""
    rows = [(None, n) for n in range(1000)]
    bench.put(rows, format=format_, pad=1000)
    there = bench.found()
    assert sorted(number(m.value) for m in there) == [n for _, n in rows]
    assert len({m.shard for m in there}) == 2
    records = sum(map(len, bench.server.records(bench.stream).values()))
    assert records == 1000 if format_ == "raw" else records < 30


def test_packing_makes_few_records_of_few_keys(bench):
    """Pass: 7,000 small messages of 7 keys are some tens of records, none above 50 KiB."""
    rows = [(f"key {n % 7}", n) for n in range(7000)]
    bench.put(rows, format="kpl", pad=100)
    bench.check(rows)
    sizes = [len(r["Data"]) for rs in bench.server.records(bench.stream).values() for r in rs]
    assert len(sizes) < 60
    assert max(sizes) <= 51_200


@pytest.mark.in_turn
def test_without_order_a_call_holds_many_records_of_a_key(bench):
    """Pass: one key's 1,000 records are two calls; with order they would be 1,000."""
    rows = [("one", n) for n in range(1000)]
    bench.put(rows, order="none")
    assert bench.proxy.count("PutRecords") == 2
    assert sorted(number(m.value) for m in bench.found()) == list(range(1000))


def test_shards_that_split_and_merge_meanwhile_lose_nothing(bench):
    """Pass: all is there, and each key's messages are in order along the line of shards that it went through."""
    rows = [(f"key {n % 20}", n) for n in range(2000)]
    putter = bench.putter(format="kpl")
    try:
        for part in range(4):
            for message in made(rows[part * 500 : part * 500 + 500], bench.options(format="kpl")):
                putter.put(message)
            putter.flush()
            shards = [s["ShardId"] for s in bench.server.shards(bench.stream)]
            if part == 0:
                bench.server.split(bench.stream, shards[0])
            if part == 1:
                bench.server.merge(bench.stream, shards[2], shards[3])
    finally:
        putter.close()
    assert len(bench.check(rows)) == len(rows)
