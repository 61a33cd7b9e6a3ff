"""What can be told of the compose file and the images without a Docker daemon."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from walbridge.embedded.jars import read_lock
from walbridge.schemas.version import VERSION
from walbridge.spark_consumer.jvm import spark_session as session
from walbridge.spark_consumer.jvm.jvm_end import EXIT_ON_OUT_OF_MEMORY

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILES = sorted((ROOT / "docker").glob("*/Dockerfile"))
IMAGES = {"postgres:18", "apache/kafka:4.3.1", "apicurio/apicurio-registry:3.3.3"}
SIDE_SERVICES = {"load"}
"""Nothing waits for these, so nothing asks whether they are healthy."""
LOCKED = re.compile(r"(?m)^([\w.-]+)(?:\[[^]]*])?==(\S+)((?: \\\n    --hash=\S+)+)$")
VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)}")


def locked(name: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Package → version and hashes of a lock."""
    found = LOCKED.findall((ROOT / name).read_text())
    return {package: (version, frozenset(hashes.split())) for package, version, hashes in found}


@pytest.mark.parametrize("name", SERVICES)
def test_service_is_hardened(name: str) -> None:
    service = SERVICES[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == "unless-stopped"
    assert "mem_limit" in service
    assert service.get("user", "") != "root"
    assert not {"privileged", "cap_add", "network_mode", "pid"} & service.keys()


@pytest.mark.parametrize("name", SERVICES)
def test_service_tells_whether_it_is_healthy(name: str) -> None:
    assert ("healthcheck" in SERVICES[name]) == (name not in SIDE_SERVICES)


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_bound_to_loopback_and_can_be_chosen(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\$\{[A-Z_]+_PORT:-\d+}:\d+", port)


@pytest.mark.parametrize("name", SERVICES)
def test_service_waits_for_healthy_peers_only(name: str) -> None:
    waits = SERVICES[name].get("depends_on", {})

    assert all(wait == {"condition": "service_healthy"} for wait in waits.values())
    assert not waits.keys() & SIDE_SERVICES


def test_executors_write_to_the_lake_where_the_job_does() -> None:
    assert SERVICES["spark-worker"]["volumes"] == SERVICES["job"]["volumes"]
    assert SERVICES["job"]["volumes"] == ["${LAKE:-lake}:/lake"], "neither read-only nor another folder"


def test_images_are_pinned_or_built_here() -> None:
    assert {service["image"] for service in SERVICES.values() if "build" not in service} == IMAGES
    for service in SERVICES.values():
        if "build" in service:
            assert (ROOT / service["build"]["dockerfile"]).is_file()


def test_passwords_come_from_files_only() -> None:
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            assert "password=" not in str(value).lower()
            assert "PASSWORD" not in name or str(value).startswith("/run/secrets/"), name


def test_registry_is_the_one_that_tests_use_and_started_where_it_is_asked_for_alone() -> None:
    (archive,) = (jar.coordinate for jar in read_lock() if jar.set_name == "registry")

    assert SERVICES["registry"]["image"] == f"apicurio/apicurio-registry:{archive.version}"
    assert SERVICES["registry"]["profiles"] == ["registry"]
    assert SERVICES["producer"]["environment"]["WALBRIDGE_TOPICS__REGISTRY_URL"] is None


def test_example_environment_lists_every_variable_with_its_default() -> None:
    used = dict(VARIABLE.findall((ROOT / "docker-compose.yml").read_text()))
    lines = re.findall(r"(?m)^#([A-Z_]+)=(.*?)(?:\s{2,}#.*)?$", (ROOT / ".env.example").read_text())

    assert dict(lines) == used
    assert len(lines) == len(used)


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
def test_image_is_built_in_stages_and_runs_as_a_numbered_user(dockerfile: Path) -> None:
    text = dockerfile.read_text()
    final = text[text.rindex("\nFROM ") :]

    assert text.count("\nFROM ") >= 2
    assert re.search(r"(?m)^USER 10001:10001$", final)
    assert re.search(r"(?m)^HEALTHCHECK ", final)
    assert re.search(r"(?m)^STOPSIGNAL SIGTERM$", final)
    assert not re.search(r"\b(pip|apt-get|curl|wget)\b", final), "something is fetched into the final stage"


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
def test_packages_of_an_image_are_installed_by_hash(dockerfile: Path) -> None:
    installs = [line for line in re.split(r"\n|&&", dockerfile.read_text()) if "install " in line and "pip" in line]

    for line in installs:
        assert "--require-hashes" in line or "--no-index" in line or "uninstall" in line, line


@pytest.mark.parametrize("lock", ["requirements-producer.lock", "requirements-spark.lock"])
def test_lock_of_an_image_is_a_part_of_the_lock_that_tests_use(lock: str) -> None:
    image, everything = locked(lock), locked("requirements.lock")

    assert len(image) > 10
    assert {name: everything.get(name) for name in image} == image


def test_producer_image_has_no_spark_and_no_reader_of_the_lake() -> None:
    assert (
        not {"pyspark", "pyarrow", "pandas", "deltalake", "delta-spark"} & locked("requirements-producer.lock").keys()
    )


def test_spark_of_the_image_is_set_up_as_the_job_sets_up_its_own() -> None:
    lines = (ROOT / "docker" / "spark" / "conf" / "spark-defaults.conf").read_text().splitlines()
    given = dict(line.split(" ", 1) for line in lines if line.startswith("spark."))
    wanted = session._PREFERRED | session._REQUIRED
    wanted |= {"spark.driver.extraJavaOptions": f"{EXIT_ON_OUT_OF_MEMORY} {session.LATE_SECOND_COMPILER}"}

    assert {name: given.get(name) for name in wanted} == wanted


def test_images_bear_the_version_of_the_project() -> None:
    labels = [re.findall(r'image\.version="(.+)"', path.read_text()) for path in DOCKERFILES]
    tags = re.findall(r"\$\{WALBRIDGE_VERSION:-(.+?)}", (ROOT / "docker-compose.yml").read_text())
    documented = re.findall(r"walbridge-(?:producer|spark):([\w.]+)", (ROOT / "docs" / "containers.md").read_text())

    assert labels == [[VERSION]] * len(DOCKERFILES)
    assert tags == [VERSION] * len(DOCKERFILES)
    assert set(documented) == {VERSION}


def test_connectors_are_those_of_the_lock() -> None:
    """The image takes the set that the job's own preflight looks for."""
    names = [jar.coordinate.name for jar in read_lock() if jar.set_name == "spark"]

    assert any(name.startswith(session.CONNECTOR) for name in names)


def test_override_for_servers_of_ones_own_takes_out_what_the_sample_brings() -> None:
    text = (ROOT / "docker" / "external.yml").read_text()

    assert re.findall(r"(?m)^  (\w+): !reset null$", text) == ["postgres", "load", "kafka", "postgres_password"]


def test_stage_that_fetches_the_jars_has_all_that_it_imports(tmp_path: Path) -> None:
    """It is built of few files, so that other changes fetch nothing anew: they must be enough."""
    copies = re.findall(r"(?m)^COPY (.+) (fetch/\S+)$", (ROOT / "docker/spark/Dockerfile").read_text())
    for sources, target in copies:
        for source in map(ROOT.joinpath, sources.split()):
            if source.is_dir():
                shutil.copytree(source, tmp_path / target)
            else:
                (tmp_path / target).mkdir(parents=True, exist_ok=True)
                shutil.copy(source, tmp_path / target)
    program = (
        "import sys; sys.meta_path[:] = [each for each in sys.meta_path if '__editable__' not in str(each)]; "
        "import walbridge.embedded.jars; print(walbridge.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path / "fetch", capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == tmp_path / "fetch" / "walbridge" / "__init__.py"
