"""What readers get: all tables at one published cut, or a clear refusal."""

import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from tests.in_soak import in_variants
from walbridge import lake as lake_reader
from walbridge.schemas.errors import OperatorError
from walbridge.spark_consumer.delta.manifest.writer import Manifest
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry
from walbridge.spark_consumer.read import published, tables_at

EPOCH = "7-1-s-0/10"


def entry(name: str, version: int, state: str = "current") -> TableEntry:
    return TableEntry(ord(name), "public", name, f"p.public.{name}", f"public/{name}", version, "0" * 16, state)


def publish(manifest: Manifest, sequence: int, end_lsn: int, *entries: TableEntry) -> None:
    cuts = (sequence, sequence)
    manifest.append(
        CutRow(sequence, "published", "p", EPOCH, *cuts, 2 * sequence, end_lsn, None, datetime.now(UTC), entries)
    )


@pytest.fixture
def manifest(lake: Path) -> Manifest:
    """Two tables in step: version n of each holds n + 1 rows, published at LSN 100 (n + 1)."""
    manifest = Manifest(str(lake), "p", {})
    for n in range(3):
        for name in ("a", "b"):
            write_deltalake(str(lake / "public" / name), pa.table({"n": [n]}), mode="append")
        publish(manifest, n + 1, 100 * (n + 1), entry("a", n), entry("b", n))
    return manifest


class Asked:
    """Stands for Spark: a frame is what it was asked for."""

    def __init__(self, **told: str) -> None:
        self.told = told

    @property
    def read(self) -> "Asked":
        return self

    def format(self, name: str) -> "Asked":
        return Asked(**self.told, format=name)

    def option(self, name: str, value: str) -> "Asked":
        return Asked(**self.told, **{name: value})

    def load(self, path: str) -> Any:
        return {**self.told, "path": path}


def asked(lake: Path, *args: Any, **options: Any) -> dict[str, Any]:
    found = cast(dict[str, Any], tables_at(cast(SparkSession, Asked()), str(lake), *args, **options))
    return {name: (told["path"].rsplit("/", 1)[-1], told["versionAsOf"]) for name, told in found.items()}


@pytest.mark.usefixtures("manifest")
def test_each_table_is_asked_for_at_the_version_that_the_row_names(lake: Path) -> None:
    """I8: one LSN for all tables, whatever was written since."""
    assert asked(lake) == {"public.a": ("a", "2"), "public.b": ("b", "2")}
    assert asked(lake, 299) == {"public.a": ("a", "1"), "public.b": ("b", "1")}
    assert asked(lake, "0/64", tables=["public.b"]) == {"public.b": ("b", "0")}
    assert asked(lake, at=299) == asked(lake, lsn=299) == {"public.a": ("a", "1"), "public.b": ("b", "1")}
    with pytest.raises(OperatorError, match="at or before 0/63"):
        asked(lake, 99)


@pytest.mark.usefixtures("manifest")
def test_table_of_which_a_commit_is_empty_is_refused(lake: Path) -> None:
    """I8: Spark, too, takes it for a commit that changed nothing."""
    (lake / "public" / "a" / "_delta_log" / f"{1:020}.json").write_bytes(b"")

    with pytest.raises(OperatorError, match=r"public/a cannot be read: .* commit 1 is empty") as refused:
        asked(lake)
    assert "walbridge copy public.a" in refused.value.remedy
    assert asked(lake, 100) == {"public.a": ("a", "0"), "public.b": ("b", "0")}


@pytest.mark.usefixtures("manifest")
def test_table_whose_log_cannot_be_listed_is_refused_until_it_is_there(lake: Path) -> None:
    (lake / "public" / "a").rename(lake / "away")
    with pytest.raises(OperatorError, match="see that the path names this lake"):
        asked(lake)
    (lake / "away").rename(lake / "public" / "a")
    assert asked(lake, tables=["public.a"]) == {"public.a": ("a", "2")}


@pytest.mark.usefixtures("manifest")
def test_readers_with_spark_and_without_it_are_asked_for_a_state_in_the_same_words(lake: Path) -> None:
    """An LSN or a time, which a reader without Spark takes as ``at`` as well; ``lsn`` is what it was called before."""
    moments: tuple[Any, ...] = (
        299,
        "0/64",
        datetime.now(UTC),
        datetime(2026, 7, 1, 12, tzinfo=UTC),
        "2026-07-01T12:00:00+02:00",
        "noon",
        date(2026, 7, 1),
    )
    for at in moments:
        try:
            without = dict.fromkeys(lake_reader.tables_at(str(lake), at=at))
        except OperatorError as refused:
            with pytest.raises(OperatorError, match=re.escape(refused.what)):
                asked(lake, at=at)
        else:
            assert asked(lake, at=at).keys() == without.keys()
    with pytest.raises(TypeError, match="both"):
        asked(lake, at=299, lsn=299)


def test_table_that_does_not_equal_the_source_is_given_only_when_asked_for(manifest: Manifest, lake: Path) -> None:
    """I8."""
    publish(manifest, 4, 400, entry("a", 2), entry("b", 1, "stale"))

    with pytest.raises(OperatorError, match=r"public\.b is stale at 0/190"):
        asked(lake)
    assert asked(lake, tables=["public.a"]) == {"public.a": ("a", "2")}
    assert asked(lake, states=("current", "stale")) == {"public.a": ("a", "2"), "public.b": ("b", "1")}


def test_table_that_is_copied_for_the_first_time_is_left_out_and_refused_by_name(
    manifest: Manifest, lake: Path
) -> None:
    """I8: the lake has no state of it, and all others are read."""
    publish(manifest, 4, 400, entry("a", 2), replace(entry("b", 1, "copying"), version=None, path=""))

    assert asked(lake) == {"public.a": ("a", "2")}
    for states in (("current",), ("current", "copying")):
        with pytest.raises(OperatorError, match=r"public\.b is being copied at 0/190: the lake has no state of it"):
            asked(lake, tables=["public.b"], states=states)


@pytest.mark.parametrize("version", [1, None])
def test_table_in_trouble_is_refused_with_its_reason_and_its_remedy(
    manifest: Manifest, lake: Path, version: int | None
) -> None:
    """I8: also one of which the lake has no row yet, which nobody can accept."""
    left = replace(entry("b", 1, "quarantined"), version=version, since=300, why="its log is damaged")
    publish(manifest, 4, 400, entry("a", 2), left)

    for named in (None, ["public.b"]):
        with pytest.raises(
            OperatorError, match=r"public\.b is quarantined since 0/12C, .* its log is damaged"
        ) as refusal:
            asked(lake, tables=named)
        assert "walbridge copy public.b" in refusal.value.remedy
    assert asked(lake, tables=["public.a"]) == {"public.a": ("a", "2")}
    if version is None:
        with pytest.raises(OperatorError, match="is quarantined"):
            asked(lake, states=("current", "quarantined"))
    else:
        assert asked(lake, states=("current", "quarantined"))["public.b"] == ("b", "1")


@pytest.mark.variant(of="test_all_tables_are_read_at_the_newest_cut_up_to_an_lsn")
@pytest.mark.usefixtures("manifest")
def test_all_tables_are_read_at_the_newest_published_cut(spark: SparkSession, lake: Path) -> None:
    write_deltalake(str(lake / "public" / "a"), pa.table({"n": [99]}), mode="append")

    assert {name: frame.count() for name, frame in tables_at(spark, str(lake)).items()} == {
        "public.a": 3,
        "public.b": 3,
    }


@pytest.mark.usefixtures("manifest")
@pytest.mark.parametrize("lsn", [in_variants(200), in_variants(299), "0/C8"])
def test_all_tables_are_read_at_the_newest_cut_up_to_an_lsn(spark: SparkSession, lake: Path, lsn: int | str) -> None:
    """I8: one LSN for all tables."""
    counts = {name: frame.count() for name, frame in tables_at(spark, str(lake), lsn).items()}

    assert counts == {"public.a": 2, "public.b": 2}


@pytest.mark.usefixtures("manifest")
def test_an_lsn_before_everything_kept_is_refused(spark: SparkSession, lake: Path) -> None:
    with pytest.raises(OperatorError, match="at or before 0/63"):
        tables_at(spark, str(lake), 99)


def test_an_empty_lake_is_refused(spark: SparkSession, lake: Path) -> None:
    with pytest.raises(OperatorError, match="nothing is published"):
        tables_at(spark, str(lake))


def test_an_empty_lake_has_no_published_cuts(lake: Path) -> None:
    assert published(str(lake)) == []


@pytest.mark.usefixtures("manifest")
def test_published_cuts_are_listed_oldest_first(lake: Path) -> None:
    assert [row.end_lsn for row in published(str(lake))] == [100, 200, 300]


def test_a_table_that_is_not_current_is_refused(spark: SparkSession, manifest: Manifest, lake: Path) -> None:
    publish(manifest, 4, 400, entry("a", 2), entry("b", 1, "stale"))

    with pytest.raises(OperatorError, match=r"public\.b is stale"):
        tables_at(spark, str(lake))


def test_a_table_in_another_state_is_read_when_asked_for(spark: SparkSession, manifest: Manifest, lake: Path) -> None:
    publish(manifest, 4, 400, entry("a", 2), entry("b", 1, "stale"))

    assert tables_at(spark, str(lake), states=("current", "stale"))["public.b"].count() == 2


def test_other_tables_are_read_beside_one_that_is_not_current(
    spark: SparkSession, manifest: Manifest, lake: Path
) -> None:
    publish(manifest, 4, 400, entry("a", 2), entry("b", 1, "stale"))

    assert list(tables_at(spark, str(lake), tables=["public.a"])) == ["public.a"]


@pytest.mark.usefixtures("manifest")
def test_an_unknown_table_is_refused_with_the_names_there_are(spark: SparkSession, lake: Path) -> None:
    with pytest.raises(OperatorError, match=r"public\.a, public\.b"):
        tables_at(spark, str(lake), tables=["public.c"])


def test_reading_needs_no_kafka_client() -> None:
    code = "import sys, walbridge.spark_consumer.read; print(sorted(m for m in sys.modules if 'kafka' in m))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=180)

    assert found.stdout.strip() == "[]"
