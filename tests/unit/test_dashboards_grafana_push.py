"""What a push says when it cannot: settings and secrets. The rest needs a real Grafana."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.grafana_push import GrafanaPushError, credential, push
from dashboards.settings import GrafanaSettings


def test_push_without_an_address_says_which_key_to_set():
    with pytest.raises(GrafanaPushError, match=r"set url in \[grafana\]"):
        push(GrafanaSettings(), dry_run=False)


def test_token_goes_before_user_and_password(tmp_path: Path):
    (tmp_path / "token").write_text("glsa_x\n", encoding="utf-8")

    settings = GrafanaSettings(token_file=str(tmp_path / "token"), user="admin")

    assert credential(settings) == "glsa_x"


def test_user_and_password_are_a_pair(tmp_path: Path):
    (tmp_path / "password").write_text("secret\n", encoding="utf-8")

    settings = GrafanaSettings(user="admin", password_file=str(tmp_path / "password"))

    assert credential(settings) == ("admin", "secret")


def test_no_credentials_are_none():
    assert credential(GrafanaSettings()) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"user": "admin"}, "no password_file", id="user without a password"),
        pytest.param({"token_file": "/nowhere/token"}, "cannot be read", id="missing file"),
        pytest.param({"token_file": "/dev/null"}, "is empty", id="empty file"),
    ],
)
def test_secret_that_cannot_be_had_is_one_sentence_with_the_key(
    settings: dict[str, str], message: str
):
    with pytest.raises(GrafanaPushError, match=message):
        credential(GrafanaSettings(**settings))
