"""One import name: what an installation puts into site-packages, and what the zip for Spark holds."""

import tomllib
from pathlib import Path
from zipfile import ZipFile

from setuptools import find_packages

from walbridge.spark_archive import write_archive

ROOT = Path(__file__).parents[2]


def test_an_installed_walbridge_takes_one_name() -> None:
    """``schemas`` and ``producer`` are folders here; anybody else's packages may be called so."""
    include = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    packages = find_packages(str(ROOT), include=include)

    assert {package.partition(".")[0] for package in packages} == {"walbridge"}
    assert {"walbridge.producer.pgoutput", "walbridge.spark_consumer.delta", "walbridge.schemas"} <= set(packages)


def test_archive_for_spark_holds_the_job_and_the_contract_alone(tmp_path: Path) -> None:
    write_archive(tmp_path / "new folder" / "walbridge.zip")
    held = ZipFile(tmp_path / "new folder" / "walbridge.zip").namelist()

    assert {"walbridge/spark_consumer/__main__.py", "walbridge/schemas/control/Cut.avsc"} <= set(held)
    assert not [name for name in held if not name.startswith("walbridge/") or "producer/" in name]
