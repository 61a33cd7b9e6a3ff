"""The operator's command: verbs, exit codes, and errors that say what to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import walbridge
from tests.forked_command import run_command
from tests.in_soak import in_variants
from walbridge import init
from walbridge.__main__ import main
from walbridge.schemas.errors import RetryableError

HEAVY = (
    "pyspark",
    "deltalake",
    "delta",
    "psycopg",
    "confluent_kafka",
    "pyarrow",
    "pydantic",
    "producer",
    "spark_consumer",
)
PROGRAM = f"""
import sys
from walbridge.__main__ import main
code = main(["--help"])
print(*sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)
sys.exit(code)
"""


REPOSITORY = Path(walbridge.__file__).parents[1]
KEPT = ("WALBRIDGE_HOME", "WALBRIDGE_JAVA")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in os.environ:
        if variable.startswith("WALBRIDGE_") and variable not in KEPT:
            monkeypatch.delenv(variable)
    # A pipeline may run on this machine, on the ports of the defaults.
    for port in ("PRODUCER_PORT", "JOB_PORT", "VERIFY_PORT"):
        monkeypatch.setenv(f"WALBRIDGE_METRICS__{port}", "0")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python of its own, which has imported nothing yet."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)


def test_help_imports_nothing_that_is_slow() -> None:
    done = run("-c", PROGRAM)

    assert (done.returncode, done.stderr.split()) == (0, [])


@pytest.mark.parametrize(
    ("started", "imported"),
    [("walbridge", "typer"), ("walbridge.producer", "structlog"), ("walbridge.spark_consumer", "pyspark")],
)
def test_ctrl_c_while_a_program_still_imports_ends_it_without_a_word(started: str, imported: str) -> None:
    """That takes seconds on a busy machine."""
    Path(f"{imported}.py").write_text(
        "import os, signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job would ignore it\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "time.sleep(60)\n"
    )
    done = run("-m", started)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("verb", ["config", "produce", "materialize", "verify", "init"])
def test_operators_mistake_ends_with_2_and_the_remedy_on_stderr(verb: str) -> None:
    done = run_command(verb, "--config", "missing.toml")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: settings file missing.toml cannot be read: No such file or directory\nremedy: name one with --config\n"
    )


@pytest.mark.parametrize("verb", ["produce", "init"])
def test_without_a_database_the_remedy_names_the_setting(verb: str) -> None:
    done = run_command(verb)

    assert done.returncode == 2
    assert "[postgres] dsn" in done.stderr


@pytest.mark.parametrize("arguments", [["conjure"], ["verify", "--timeout", "soon"], ["demo", "--seconds", "0"]])
def test_mistyped_command_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_config_prints_the_settings_in_force_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    Path("walbridge.toml").write_text('name = "shop"\n[postgres]\ndsn = "host=h password=hunter2"')

    assert main(["config"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["postgres"]["dsn"]) == ("shop", "host=h password=***")


def test_config_takes_a_file_by_option(capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.toml").write_text('name = "other"')

    assert main(["config", "--config", "other.toml"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "other"


@pytest.mark.servers  # needs the jars, which such tests have fetched
def test_settings_that_come_through_a_pipe_are_read_once() -> None:
    settings = """
name = "piped"
kafka = { bootstrap_servers = "127.0.0.1:1" }
lake = { path = "lake", start_timeout_s = 1 }
"""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as pipe:
        with os.fdopen(write_end, "w") as writer:
            writer.write(settings)
        command = [sys.executable, "-m", "walbridge", "materialize", "--config", f"/dev/fd/{pipe.fileno()}"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=180, pass_fds=[pipe.fileno()]
        )
    assert done.returncode == 2, done.stderr
    assert "(127.0.0.1:1: " in done.stderr, done.stderr


@pytest.mark.servers
def test_jars_prints_their_folder_or_a_list_for_spark_submit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jars"]) == 0
    folder = Path(capsys.readouterr().out.strip())
    assert main(["jars", "--print"]) == 0
    listed = capsys.readouterr().out.strip().split(",")

    assert listed == sorted(map(str, folder.glob("*.jar")))
    assert any("spark-sql-kafka" in jar for jar in listed)


def test_sql_for_an_administrator_needs_no_server_and_no_password(capsys: pytest.CaptureFixture[str]) -> None:
    """Who makes the role has no password of it yet."""
    dsn = "host=nowhere.invalid dbname=shop user=cdc"
    Path("walbridge.toml").write_text(
        f'[postgres]\ndsn = "{dsn}"\npassword_file = "missing"\npublication_tables = ["orders"]'
    )

    assert main(["init", "--sql"]) == 0
    printed = capsys.readouterr().out
    assert 'CREATE ROLE "cdc" LOGIN REPLICATION;' in printed
    assert 'CREATE PUBLICATION "walbridge" FOR TABLE "public"."orders"' in printed


@pytest.mark.parametrize(
    ("package", "verb", "extra"), [("deltalake", "verify", "spark"), ("psycopg", "init", "producer")]
)
def test_verb_whose_packages_are_not_installed_names_the_extra(package: str, verb: str, extra: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None; from walbridge.__main__ import main; sys.exit(main([{verb!r}]))"
    )
    done = run("-c", program)

    assert done.returncode == 2
    assert f"needs the package {package}" in done.stderr
    assert f"in a checkout of walbridge: pip install '.[{extra}]'" in done.stderr


NOBODY = """
[postgres]
dsn = "host=127.0.0.1 port=1 dbname=d"
[kafka]
bootstrap_servers = "127.0.0.1:1"
"""


@pytest.mark.servers  # needs none, but waits for each that is away
@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("check", "lake: not checked: deltalake is not installed here"),
        in_variants("status", "in the lake  not looked at: deltalake is not installed here"),
    ],
)
def test_verb_of_the_producers_machine_does_all_but_look_at_the_lake(verb: str, words: str) -> None:
    """An install with the extra producer alone has nothing that reads a lake."""
    Path("walbridge.toml").write_text(NOBODY)
    program = (
        "import sys; sys.modules.update(dict.fromkeys(['deltalake', 'pyarrow', 'pyspark', 'numpy'])); "
        f"from walbridge.__main__ import main; sys.exit(main([{verb!r}]))"
    )
    done = run("-c", program)

    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.count(words) == 1
    assert "pip install '.[spark]'" in done.stdout
    assert "Postgres cannot be reached" in done.stdout
    assert "walbridge jars" not in done.stdout


def test_server_that_leaves_during_a_command_is_the_operators(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program tries again by itself; a command has ended and is run again."""
    words = "Postgres (53300): number of requested standby connections exceeds max_wal_senders"

    def fails(*arguments: object, **named: object) -> None:
        raise RetryableError(words)

    monkeypatch.setattr(init, "initialise", fails)

    assert main(["init"]) == 2
    error, remedy = capsys.readouterr().err.splitlines()
    assert error == f"error: {words}"
    assert "run the command again" in remedy
