"""The offset store against a real ZooKeeper."""

import re
import threading
from dataclasses import replace

import pytest
from support.waiting import wait_until

from offsets.commands import plan_reset, read_pipeline, reset, reset_rows
from offsets.errors import LeadershipLost, OffsetConflict, StoredStateInvalid, StoreUnavailable
from offsets.leader_lock import LeaderLock
from offsets.offset_range import OffsetRange, TopicPartition
from offsets.reconcile import Available
from offsets.settings import ZookeeperSettings
from offsets.store import Commit, EpochStart, Pending, Reset, decode_commit
from offsets.znode_paths import ZnodePaths
from offsets.zookeeper_session import ZookeeperSession
from offsets.zookeeper_store import ZookeeperStore

pytestmark = pytest.mark.integration

FIRST = TopicPartition("access-log", 0)
SECOND = TopicPartition("access-log", 1)


@pytest.fixture
def settings(zookeeper_hosts, znode_root):
    return ZookeeperSettings(hosts=zookeeper_hosts, root=znode_root, session_timeout_seconds=4)


@pytest.fixture
def paths(znode_root):
    return ZnodePaths(znode_root, "job", f"{znode_root}/consumers")


@pytest.fixture
def session(settings):
    with ZookeeperSession(settings).connected() as session:
        yield session


def lead(session, paths):
    leadership = LeaderLock(session, paths).acquire(lambda: False)
    store = ZookeeperStore(session, paths, leadership)
    store.load()
    return leadership, store


def a_pending(batch=1, epoch=1):
    return Pending(batch, epoch, (OffsetRange(FIRST, 0, 10),), {"access-log": "id"})


def a_commit(batch=1, epoch=1, offset=10):
    return Commit(batch, epoch, {FIRST: offset}, {"access-log": "id"}, (EpochStart(epoch, 1),), 1.0)


def test_new_pipeline_holds_nothing(session, paths):
    _, store = lead(session, paths)

    assert store.load() == (Commit.nothing_yet(), None)


def test_commit_moves_offsets_and_clears_pending_in_one_step(session, paths):
    _, store = lead(session, paths)
    store.set_pending(a_pending())
    assert store.load() == (Commit.nothing_yet(), a_pending())

    store.commit(a_commit())

    assert store.load() == (a_commit(), None)


def test_start_is_fixed_before_the_first_batch(session, paths):
    _, store = lead(session, paths)
    start = a_commit(batch=0, offset=7)

    store.initialise(start)
    store.set_pending(a_pending())
    store.commit(a_commit())

    assert store.load() == (a_commit(), None)


def test_later_leader_has_the_greater_epoch(settings, paths):
    epochs = []
    for _ in range(2):
        with ZookeeperSession(settings).connected() as session:
            epochs.append(lead(session, paths)[0].epoch)

    assert epochs[0] < epochs[1]


def test_standby_leads_once_the_leader_leaves(settings, paths):
    with (
        ZookeeperSession(settings).connected() as first,
        ZookeeperSession(settings).connected() as second,
    ):
        lock = LeaderLock(first, paths)
        lock.acquire(lambda: False)
        led = []
        standby = threading.Thread(
            target=lambda: led.append(LeaderLock(second, paths).acquire(lambda: False))
        )
        standby.start()
        wait_until(lambda: len(first.client.get_children(paths.lock)) == 2, within=10)
        assert led == []

        lock.release()

        standby.join(timeout=10)
        assert led[0].epoch > 0


def test_fenced_leader_can_neither_start_nor_commit_a_batch(settings, paths):
    with (
        ZookeeperSession(settings).connected() as old_session,
        ZookeeperSession(settings).connected() as new,
    ):
        old_lock = LeaderLock(old_session, paths)
        old = ZookeeperStore(old_session, paths, old_lock.acquire(lambda: False))
        old.load()
        old.set_pending(a_pending())
        old_lock.release()
        _, store = lead(new, paths)
        store.commit(a_commit(epoch=2))

        with pytest.raises(LeadershipLost, match="Another driver took over"):
            old.commit(a_commit(epoch=1, offset=99))
        with pytest.raises(LeadershipLost):
            old.set_pending(a_pending(batch=2))

        assert store.load() == (a_commit(epoch=2), None)


def test_change_by_somebody_else_is_a_conflict(session, paths):
    _, store = lead(session, paths)
    store.set_pending(a_pending())
    session.client.set(paths.commit, b"")

    with pytest.raises(OffsetConflict, match="another job uses the same"):
        store.commit(a_commit())


def test_damaged_node_stops_the_job_and_names_it(session, paths):
    _, store = lead(session, paths)
    session.client.set(paths.commit, b"garbage")

    with pytest.raises(StoredStateInvalid, match=re.escape(f"{paths.commit} cannot be read")):
        store.load()


def test_epoch_from_replaced_zookeeper_data_is_refused(session, paths):
    session.client.create(paths.epoch, str(2**62).encode(), makepath=True)

    with pytest.raises(OffsetConflict, match="data was replaced"):
        LeaderLock(session, paths).acquire(lambda: False)


def reset_to(session, paths, offset):
    stored = read_pipeline(session, paths)
    rows = reset_rows(stored.commit, {FIRST: Available(0, 100)}, {FIRST: offset})
    return plan_reset(stored, rows, {"access-log": "id"}, lambda _: True)


@pytest.fixture
def stopped(settings, paths):
    """A session beside a job that committed offset 10 and stopped."""
    with ZookeeperSession(settings).connected() as session:
        _, store = lead(session, paths)
        store.set_pending(a_pending())
        store.commit(a_commit())
    with ZookeeperSession(settings).connected() as session:
        wait_until(lambda: read_pipeline(session, paths).leader is None, within=10)
        yield session


def test_reset_is_refused_while_a_job_leads(session, paths):
    planned = reset_to(session, paths, 0)
    lead(session, paths)

    with pytest.raises(OffsetConflict, match="The job is running"):
        reset(session, paths, planned, now=2.0)


def test_reset_keeps_the_old_offsets_and_notes_itself(stopped, paths):
    kept = reset(stopped, paths, reset_to(stopped, paths, 3), now=2.0)

    stored = read_pipeline(stopped, paths)
    assert stored.commit == a_commit(offset=3)
    assert decode_commit(stopped.client.get(kept)[0], kept) == a_commit()
    assert stored.resets == (Reset(1, 2.0, {FIRST: 10}, {FIRST: 3}),)
    assert stopped.client.get(paths.classic_offset(FIRST))[0] == b"3"


def test_reset_drops_the_pending_batch(settings, paths):
    with ZookeeperSession(settings).connected() as session:
        lead(session, paths)[1].set_pending(a_pending())
    with ZookeeperSession(settings).connected() as session:
        wait_until(lambda: read_pipeline(session, paths).leader is None, within=10)

        reset(session, paths, reset_to(session, paths, 3), now=2.0)

        stored = read_pipeline(session, paths)
        assert stored.pending is None
        assert stored.resets[0].dropped_batch == 1


def test_reset_of_something_else_than_was_shown_is_refused(settings, stopped, paths):
    planned = reset_to(stopped, paths, 3)
    with ZookeeperSession(settings).connected() as session:
        _, store = lead(session, paths)
        store.set_pending(a_pending(batch=2))
        store.commit(a_commit(batch=2, offset=20))
    wait_until(lambda: read_pipeline(stopped, paths).leader is None, within=10)

    with pytest.raises(OffsetConflict, match="changed meanwhile: nothing was written"):
        reset(stopped, paths, planned, now=2.0)


def classic(session, paths):
    parent = paths.classic_topic("access-log")
    nodes = session.client.get_children(parent)
    return {int(node): session.client.get(f"{parent}/{node}")[0] for node in nodes}


def test_lag_tools_see_the_start_and_every_commit_as_plain_numbers(session, paths):
    _, store = lead(session, paths)
    store.initialise(a_commit(batch=0, offset=7))
    assert classic(session, paths) == {0: b"7"}

    store.set_pending(a_pending())
    store.commit(replace(a_commit(), offsets={FIRST: 10, SECOND: 4}))

    assert classic(session, paths) == {0: b"10", 1: b"4"}


def test_partition_that_was_forgotten_is_no_longer_shown_to_lag_tools(session, paths):
    _, store = lead(session, paths)
    store.initialise(replace(a_commit(batch=0), offsets={FIRST: 10, SECOND: 4}))
    store.set_pending(a_pending())
    store.commit(a_commit())

    assert classic(session, paths) == {0: b"10"}


def test_later_leader_goes_on_with_the_nodes_of_the_one_before(settings, stopped, paths):
    with ZookeeperSession(settings).connected() as session:
        _, store = lead(session, paths)
        store.set_pending(a_pending(batch=2))
        store.commit(a_commit(batch=2, offset=20))

    assert classic(stopped, paths) == {0: b"20"}


def test_commit_does_not_fail_because_somebody_removed_the_nodes_of_lag_tools(session, paths):
    _, store = lead(session, paths)
    store.set_pending(a_pending())
    store.commit(a_commit())
    session.client.delete(paths.consumers_root, recursive=True)

    for batch in (2, 3):
        store.set_pending(a_pending(batch=batch))
        store.commit(a_commit(batch=batch, offset=10 * batch))

    assert store.load() == (a_commit(batch=3, offset=30), None)
    assert classic(session, paths) == {0: b"30"}


def test_refused_commit_leaves_the_nodes_of_lag_tools_alone(session, paths):
    _, store = lead(session, paths)
    store.set_pending(a_pending())
    store.commit(a_commit())
    store.set_pending(a_pending(batch=2))
    session.client.set(paths.commit, b"")

    with pytest.raises(OffsetConflict, match="another job uses the same"):
        store.commit(a_commit(batch=2, offset=20))

    assert classic(session, paths) == {0: b"10"}


def test_nodes_of_lag_tools_can_be_switched_off(session, znode_root):
    paths = ZnodePaths(znode_root, "job", "")
    _, store = lead(session, paths)
    store.set_pending(a_pending())
    store.commit(a_commit())

    assert session.client.exists(f"{znode_root}/consumers") is None


def test_more_partitions_than_one_transaction_can_carry_are_all_shown(session, paths):
    many = {TopicPartition("access-log", number): number for number in range(2_500)}
    _, store = lead(session, paths)
    store.initialise(replace(a_commit(batch=0), offsets=many))
    store.set_pending(a_pending())
    store.commit(replace(a_commit(), offsets={one: at + 1 for one, at in many.items()}))

    parent = paths.classic_topic("access-log")
    assert len(session.client.get_children(parent)) == 2_500
    assert session.client.get(f"{parent}/2499")[0] == b"2500"


def test_unreachable_zookeeper_is_one_sentence_with_the_remedy():
    nowhere = ZookeeperSettings(hosts="127.0.0.1:1", connect_timeout_seconds=0.5)

    with (
        pytest.raises(StoreUnavailable, match=r"127.0.0.1:1 did not answer.*set zookeeper.hosts"),
        ZookeeperSession(nowhere).connected(),
    ):
        pass


def test_silent_zookeeper_ends_the_trust_before_the_session_expires():
    """SUSPENDED may last for ever: our own clock decides."""
    now = [100.0]
    session = ZookeeperSession(
        ZookeeperSettings(session_timeout_seconds=9), monotonic=lambda: now[0]
    )
    session._note_state("SUSPENDED")
    now[0] = 105.9
    session.ensure_trusted()

    now[0] = 106.0

    with pytest.raises(LeadershipLost, match=r"silent for 6\.0 s"):
        session.ensure_trusted()
