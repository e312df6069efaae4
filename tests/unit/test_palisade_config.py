from pathlib import Path

import pytest

from palisade_config import ConfigurationError, environment_name, load_configuration


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "palisade.toml"
    path.write_text(text)
    return path


def test_defaults_work_without_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert load_configuration(None, {}).stream.batch_seconds == 2.0


def test_environment_overrides_the_file(tmp_path):
    path = write(tmp_path, "[stream]\nbatch_seconds = 5\n")

    configuration = load_configuration(path, {"PALISADE_STREAM_BATCH_SECONDS": "7.5"})

    assert configuration.stream.batch_seconds == 7.5


def test_list_in_the_environment_may_be_words_or_toml(tmp_path):
    path = write(tmp_path, "")
    words = load_configuration(path, {"PALISADE_STREAM_VHOSTS": "a.example, b.example"})
    toml = load_configuration(path, {"PALISADE_STREAM_VHOSTS": '["a.example", "b.example"]'})

    assert words.stream.vhosts == toml.stream.vhosts == ["a.example", "b.example"]


def test_sources_are_tables(tmp_path):
    path = write(tmp_path, '[[ship.sources]]\npaths = ["/var/log/a.log"]\nservice = "shop"\n')

    assert load_configuration(path, {}).ship.sources[0].service == "shop"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "[stream]\nbatch_secnds = 1\n",
            "stream.batch_secnds is not a known key",
            id="typo in a key",
        ),
        pytest.param(
            "[strem]\n", "strem is not a known key (sections: kafka", id="typo in a section"
        ),
        pytest.param(
            '[stream]\nbatch_seconds = "ten"\n',
            "stream.batch_seconds = 'ten'",
            id="word for a number",
        ),
        pytest.param("[stream]\nbatch_seconds = 0\n", "greater than 0", id="out of range"),
        pytest.param(
            '[stream]\non_data_loss = "ignore"\n', "'stop' or 'skip'", id="unknown choice"
        ),
        pytest.param("[stream\n", "is not valid TOML", id="not TOML"),
        pytest.param(
            "[stream]\nmax_rate_per_partition = 0\nbackpressure = false\n",
            "the first batch would be unlimited",
            id="unlimited first batch",
        ),
    ],
)
def test_mistake_is_refused_with_key_value_and_what_is_allowed(tmp_path, text, said):
    with pytest.raises(ConfigurationError) as refused:
        load_configuration(write(tmp_path, text), {})

    assert said in str(refused.value)


def test_every_mistake_is_named_at_once(tmp_path):
    path = write(tmp_path, "[stream]\nbatch_seconds = 0\n[kafka]\ntopic_partitions = 0\n")

    with pytest.raises(ConfigurationError, match=r"kafka.topic_partitions.*stream.batch_seconds"):
        load_configuration(path, {})


def test_unknown_environment_variable_is_refused():
    with pytest.raises(ConfigurationError, match="PALISADE_STREAM_BATCH_SECNDS names no setting"):
        load_configuration(None, {"PALISADE_STREAM_BATCH_SECNDS": "1"})


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_configuration(tmp_path / "none.toml", {})


def test_environment_names_follow_section_and_key():
    assert environment_name("stream", "batch_seconds") == "PALISADE_STREAM_BATCH_SECONDS"
