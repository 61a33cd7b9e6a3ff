"""Empty commits are found whatever the log says of its newest checkpoint, and without a look at all of a long one."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walbridge.spark_consumer.delta import empty_commits
from walbridge.spark_consumer.delta.empty_commits import LOOKED_AT_MAX, refuse_empty_commits
from walbridge.spark_consumer.delta.maintenance.log_files import (
    LAST_CHECKPOINT,
    LOG,
    LogFiles,
    checkpoint_name,
    commit_name,
    files_in,
)
from walbridge.spark_consumer.delta.table_faults import DamagedTable

ACTION = b'{"commitInfo":{"operation":"WRITE"}}\n'
VERSIONS = 12
versions = st.integers(0, VERSIONS - 1)
hints = st.one_of(
    st.none(),
    versions.map(lambda version: json.dumps({"version": version})),
    st.sampled_from(["", "[]", "{}", "7", '{"version":null}']),
)


def log_of(table: Path, commits: dict[int, bytes], checkpoints: set[int], hint: str | None) -> Path:
    log = table / LOG
    log.mkdir(parents=True)
    for version, content in commits.items():
        (log / commit_name(version)).write_bytes(content)
    for version in checkpoints:
        (log / checkpoint_name(version)).touch()
    if hint is not None:
        (log / LAST_CHECKPOINT).write_text(hint)
    return table


@given(st.dictionaries(versions, st.sampled_from([ACTION, ACTION, b"", b" \n"])), st.sets(versions), hints, versions)
def test_commits_are_refused_that_a_listing_shows_to_be_empty(
    commits: dict[int, bytes], checkpoints: set[int], hint: str | None, version: int
) -> None:
    """I8"""
    with tempfile.TemporaryDirectory() as folder:
        table = log_of(Path(folder), commits, checkpoints, hint)
        empty = LogFiles.listed(files_in(table)).empty_of(version)

        if empty:
            with pytest.raises(DamagedTable, match=empty_commits.empty_commits(empty)):
                refuse_empty_commits(str(table), version)
        else:
            refuse_empty_commits(str(table), version)


def test_long_log_is_not_listed_where_its_newest_checkpoint_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = log_of(tmp_path, dict.fromkeys(range(200), ACTION), {80, 180}, '{"version":180}')
    monkeypatch.setattr(empty_commits, "files_in", lambda _folder: pytest.fail("all of it is listed"))

    refuse_empty_commits(str(table), 199)


def test_log_whose_newest_checkpoint_is_long_ago_is_listed(tmp_path: Path) -> None:
    newest = LOOKED_AT_MAX + 1
    commits = dict.fromkeys(range(newest), ACTION) | {newest: b""}

    with pytest.raises(DamagedTable, match=f"commit {newest} is empty"):
        refuse_empty_commits(str(log_of(tmp_path, commits, {0}, '{"version":0}')), newest)
