"""The offset store against a real ZooKeeper."""

import re
import threading

import pytest
from support.waiting import wait_until

from offsets.commands import read_pipeline, reset
from offsets.errors import LeadershipLost, OffsetConflict, StoredStateInvalid, StoreUnavailable
from offsets.leader_lock import LeaderLock
from offsets.offset_range import OffsetRange, TopicPartition
from offsets.settings import ZookeeperSettings
from offsets.store import Commit, EpochStart, Pending
from offsets.znode_paths import ZnodePaths
from offsets.zookeeper_session import ZookeeperSession
from offsets.zookeeper_store import ZookeeperStore

pytestmark = pytest.mark.integration

FIRST = TopicPartition("access-log", 0)


@pytest.fixture
def settings(zookeeper_hosts, znode_root):
    return ZookeeperSettings(hosts=zookeeper_hosts, root=znode_root, session_timeout_seconds=4)


@pytest.fixture
def paths(znode_root):
    return ZnodePaths(znode_root, "job")


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


def test_reset_is_refused_while_a_job_leads(session, paths):
    lead(session, paths)

    with pytest.raises(OffsetConflict, match="The job is running"):
        reset(session, paths, {FIRST: 0}, {"access-log": "id"})


def test_reset_keeps_the_old_offsets(settings, paths):
    with ZookeeperSession(settings).connected() as session:
        _, store = lead(session, paths)
        store.set_pending(a_pending())
        store.commit(a_commit())
    with ZookeeperSession(settings).connected() as session:
        wait_until(lambda: read_pipeline(session, paths).leader is None, within=10)

        kept = reset(session, paths, {FIRST: 3}, {"access-log": "id"})

        assert read_pipeline(session, paths).commit.offsets == {FIRST: 3}
        assert b'"0":10' in session.client.get(kept)[0]


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
