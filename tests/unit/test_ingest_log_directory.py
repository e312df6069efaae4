"""Names of logs and of what rotation made of them, over real folders."""

from ingest.log_directory import find_names, folder_times
from ingest.settings import ShipSource


def names(folder, *patterns: str, services: tuple[str, ...] = ("web",)) -> list[tuple]:
    sources = [
        ShipSource(paths=[str(folder / pattern) for pattern in patterns], service=service)
        for service in services
    ]
    return [
        (name.path.removeprefix(f"{folder}/"), name.is_current, name.is_rotated_name)
        for name in find_names(sources)
    ]


def test_current_names_come_first_and_rotated_ones_are_recognised(tmp_path):
    for name in ("access.log", "access.log.1", "access.log-20260131", "access.log.bak", "b.log"):
        (tmp_path / name).touch()

    found = names(tmp_path, "access.log")

    assert found[0] == ("access.log", True, False)
    assert sorted(found[1:]) == [
        ("access.log-20260131", False, True),
        ("access.log.1", False, True),
        ("access.log.bak", False, False),
    ]


def test_rotated_name_that_the_pattern_matches_is_current_too(tmp_path):
    for name in ("access.log", "access.log.1"):
        (tmp_path / name).touch()

    assert sorted(names(tmp_path, "access.log*")) == [
        ("access.log", True, False),
        ("access.log.1", True, True),
    ]


def test_first_source_that_names_a_file_has_it(tmp_path):
    (tmp_path / "a.log").touch()
    sources = [
        ShipSource(paths=[str(tmp_path / "a.log")], service="shop"),
        ShipSource(paths=[str(tmp_path / "*.log")], service="rest"),
    ]

    assert [name.source.service for name in find_names(sources)] == ["shop"]


def test_current_name_of_one_source_wins_over_rotated_name_of_another(tmp_path):
    for name in ("a.log", "a.log.1"):
        (tmp_path / name).touch()
    sources = [
        ShipSource(paths=[str(tmp_path / "a.log")], service="shop"),
        ShipSource(paths=[str(tmp_path / "a.log.1")], service="old"),
    ]

    found = {name.path: name for name in find_names(sources)}

    assert found[str(tmp_path / "a.log.1")].source.service == "old"


def test_folders_are_not_taken_for_logs(tmp_path):
    (tmp_path / "access.log").mkdir()

    assert names(tmp_path, "access.log") == []


def test_path_with_glob_characters_is_found_as_it_is_written(tmp_path):
    (tmp_path / "[shop].log").touch()

    assert ("[shop].log", True, False) in names(tmp_path, "[shop].log")


def test_missing_folder_has_no_time_and_globbed_folders_are_not_asked(tmp_path):
    sources = [ShipSource(paths=[str(tmp_path / "gone/a.log"), str(tmp_path / "*/a.log")])]

    assert folder_times(sources) == {str(tmp_path / "gone"): 0}
