import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets.errors import OffsetConflict, StoredStateInvalid
from offsets.memory_store import MemoryStore
from offsets.offset_range import LostRange, OffsetRange, TopicPartition
from offsets.reconcile import DELETED_BY_RETENTION, TOPIC_DELETED
from offsets.store import (
    Commit,
    EpochStart,
    Pending,
    Reset,
    decode_commit,
    decode_pending,
    decode_reset,
    encode_commit,
    encode_pending,
    encode_reset,
)

FIRST = TopicPartition("access-log", 0)
offsets = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b-c"]), st.integers(0, 50)),
    st.integers(0, 2**53),
    min_size=1,
)


def a_commit(batch=1, **fields):
    given_fields = {
        "offsets": {FIRST: 10},
        "topic_ids": {"access-log": "x"},
        "epochs": (EpochStart(4, 1),),
    }
    return Commit(batch=batch, epoch=4, committed_at=12.5, **{**given_fields, **fields})


def a_pending(batch=1):
    return Pending(batch, 4, (OffsetRange(FIRST, 0, 10),), {"access-log": "x"})


@given(offsets)
def test_commit_survives_its_stored_form(some_offsets):
    commit = a_commit(offsets=some_offsets)

    assert decode_commit(encode_commit(commit), "node") == commit


def test_pending_survives_its_stored_form():
    assert decode_pending(encode_pending(a_pending()), "node") == a_pending()


def test_pending_keeps_what_was_lost_and_why():
    lost = (
        LostRange(OffsetRange(FIRST, 2, 5), DELETED_BY_RETENTION, 5),
        LostRange(OffsetRange(FIRST, 9, 9), TOPIC_DELETED, None),
    )
    pending = Pending(1, 4, (), {}, lost)

    assert decode_pending(encode_pending(pending), "node") == pending


def test_o3_pending_of_the_time_before_losses_had_reasons_is_still_read():
    body = {
        "batch": 1,
        "epoch": 4,
        "ranges": [],
        "topic_ids": {},
        "lost": [["access-log", 0, 2, 5]],
    }
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    data = json.dumps({"v": 1, "crc": zlib.crc32(text.encode()), "body": body}).encode()

    lost = decode_pending(data, "node").lost

    assert lost == (LostRange(OffsetRange(FIRST, 2, 5), DELETED_BY_RETENTION, 5),)


def test_reset_survives_its_stored_form():
    reset = Reset(3, 12.5, {FIRST: 10}, {FIRST: 2}, 4)

    assert decode_reset(encode_reset(reset), "node") == reset


def test_m12_map_without_any_offset_is_never_stored():
    with pytest.raises(StoredStateInvalid, match="would leave no offset at all"):
        encode_commit(a_commit(offsets={}))


def test_empty_nodes_mean_nothing_yet():
    assert decode_commit(b"", "node") == Commit.nothing_yet()
    assert decode_pending(b"", "node") is None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"{", id="half written"),
        pytest.param(b"null", id="another document"),
        pytest.param(b"\xff\xfe", id="binary"),
        pytest.param(
            encode_commit(a_commit()).replace(b'"batch":1', b'"batch":2'), id="edited by hand"
        ),
    ],
)
def test_damaged_node_is_refused_by_name(data):
    with pytest.raises(StoredStateInvalid, match="/the/node cannot be read"):
        decode_commit(data, "/the/node")


def test_node_of_a_future_version_is_refused_with_both_versions():
    data = encode_commit(a_commit()).replace(b'"v":1', b'"v":7')

    with pytest.raises(StoredStateInvalid, match="format version 7, this program reads version 1"):
        decode_commit(data, "/the/node")


def test_commit_too_large_for_zookeeper_is_refused():
    many = {TopicPartition("access-log", number): 2**50 for number in range(40_000)}

    with pytest.raises(StoredStateInvalid, match="split the topics"):
        encode_commit(a_commit(offsets=many))


def test_memory_store_commits_only_what_is_pending():
    store = MemoryStore()
    with pytest.raises(OffsetConflict):
        store.commit(a_commit())

    store.set_pending(a_pending())
    store.commit(a_commit())

    assert store.load() == (a_commit(), None)
