"""An operator's mistake in the settings is refused by name; a secret never prints (I10)."""

import os
from pathlib import Path

import pytest

from walbridge.schemas.errors import OperatorError
from walbridge.schemas.properties import flatten
from walbridge.schemas.settings import Settings, effective
from walbridge.schemas.settings_file import load_settings, refuse_unknown_variables

SECRETS = """
[postgres]
dsn = "postgresql://u:hunter2@h/d"
[kafka.client]
sasl = {mechanism = "PLAIN", password = "hunter2"}
[kafka.spark]
sasl.jaas.config = "hunter2"
[lake.storage_options]
AWS_SECRET_ACCESS_KEY = "hunter2"
[spark.conf.spark.hadoop.fs.s3a]
secret.key = "hunter2"
access.key = "hunter2"
endpoint = "http://store:9000"
"""


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in os.environ:
        if variable.startswith("WALBRIDGE_"):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)


def load(text: str) -> Settings:
    path = Path("some.toml")
    path.write_text(text)
    return load_settings(path)


def refusal(text: str) -> str:
    with pytest.raises(OperatorError) as refused:
        load(text)
    return refused.value.what


def test_without_a_file_the_defaults_hold() -> None:
    assert load_settings() == Settings()


def test_walbridge_toml_of_the_current_folder_is_read() -> None:
    Path("walbridge.toml").write_text('name = "here"')

    assert load_settings().name == "here"


def test_settings_from_a_command_that_failed_are_not_taken_for_the_defaults() -> None:
    """``--config <(sops -d walbridge.toml)``."""
    read_end, write_end = os.pipe()
    os.close(write_end)
    with (
        os.fdopen(read_end, "rb") as pipe,
        pytest.raises(OperatorError, match="nothing came from the pipe") as refused,
    ):
        load_settings(f"/dev/fd/{pipe.fileno()}")
    assert "why the command that writes to it has failed" in refused.value.remedy
    assert load_settings("/dev/null") == Settings()


def test_file_named_by_the_variable_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("other.toml").write_text('name = "other"')
    monkeypatch.setenv("WALBRIDGE_CONFIG", "other.toml")

    assert load_settings().name == "other"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("nmae = 'x'", "nmae: unknown setting"),
        ("[kafka]\nbootstrap = 'h:1'", "kafka.bootstrap: unknown setting"),
        ("[producer]\nbatch_rows_max = 0", "producer.batch_rows_max"),
        ("[producer]\nbatch_ms_max = 'soon'", "producer.batch_ms_max"),
        ("[postgres]\nslot = 'Not-A-Slot'", "postgres.slot"),
        ("[topics]\npartitions = 1001", "topics.partitions"),
        ("[topics]\nreplication_factor = 0", "topics.replication_factor: a topic has 1 replica at least"),
        ("[topics]\nreplication_factor = 32768", "topics.replication_factor"),
        ("[topics]\nretention_ms = 4611686018427387904", "topics.retention_ms"),
        ("[producer]\nrow_bytes_max = 499000001", "producer.row_bytes_max"),
        ("postgres = 'host=h'", "postgres: it is a section, which begins with a line [postgres]"),
        ("name = 'a.b'", "name: letters, digits"),
        ("name = 5", "name: it is a text, which stands in quotes"),
        ("[postgres]\npublication_tables = 'public.t'", 'publication_tables: it is a list: ["one", "two"]'),
        ("[kafka]\nclient = 'PLAINTEXT'", 'kafka.client: it is a table: { "name" = "value" }'),
        ("[postgres]\nbinary = 'sometimes'", "postgres.binary: it is true or false"),
        ("[metrics]\njob_port = 'some'", "metrics.job_port: it is a whole number"),
        ("[producer]\nbatch_rows_max = true", "producer.batch_rows_max: it is a whole number"),
        ("[producer]\ncopy_workers = false", "producer.copy_workers: it is a whole number"),
        ("[lake]\nall_cuts_hours = 25", "all_cuts_hours (25) is longer than minute_cuts_hours (24): set both"),
        ("[lake]\npath = ''", "lake.path: it is empty"),
        ("[lake]\npath = '~/lake'", "lake.path: nobody puts a home folder in place of its '~'"),
    ],
)
def test_mistaken_setting_is_refused_by_its_name(text: str, named: str) -> None:
    assert named in refusal(text)


def test_every_mistake_is_told_at_once() -> None:
    what = refusal("nmae = 'x'\n[topics]\npartitions = 0")

    assert "nmae" in what
    assert "topics.partitions" in what


def test_file_that_is_not_toml_is_refused_with_the_place() -> None:
    assert "some.toml is not TOML: Invalid statement (at line 2, column 1)" in refusal("name = 'x'\n= 1")


def test_file_that_nests_too_deep_is_refused() -> None:
    assert "some.toml nests lists or tables too deep" in refusal(f"x = {'[' * 5000}{']' * 5000}")


def test_number_of_more_digits_than_can_be_read_is_refused() -> None:
    assert "some.toml cannot be read: Exceeds the limit" in refusal(f"[topics]\nretention_ms = {'9' * 5000}")


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_file_that_is_not_utf_8_is_refused_with_the_place(encoding: str) -> None:
    Path("binary.toml").write_bytes("name = 'x'\n# Müller\n".encode(encoding))
    line = {"utf-16": 1, "latin-1": 2}[encoding]

    with pytest.raises(
        OperatorError, match=rf"binary\.toml is not TOML: it is not UTF-8 \(at line {line}\)"
    ) as refused:
        load_settings("binary.toml")
    assert "save it as UTF-8" in refused.value.remedy


def test_file_is_read_as_editors_of_windows_write_it() -> None:
    Path("notepad.toml").write_bytes(
        "\ufeffname = 'x'\r\n[postgres]\r\npassword_file = 'p'\r\ndsn = 'host=h'\r\n".encode()
    )
    Path("p").write_bytes("\ufeffhunter2\r\n".encode())

    settings = load_settings("notepad.toml")
    assert settings.name == "x"
    assert settings.postgres.dsn.get_secret_value() == "host=h password='hunter2'"


def test_file_is_utf_8_in_every_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("other.toml").write_bytes("[topics]\nnames = {'public.straße' = 'street'}\n".encode())
    monkeypatch.setattr("locale.getencoding", lambda: "latin-1")
    monkeypatch.setattr("io.text_encoding", lambda encoding, *_: encoding or "latin-1")

    assert load_settings("other.toml").topics.names == {"public.straße": "street"}


@pytest.mark.parametrize("path", ["missing.toml", "."])
def test_named_file_that_cannot_be_read_is_refused(path: str) -> None:
    with pytest.raises(OperatorError, match="cannot be read") as refused:
        load_settings(path)

    assert "--config" in refused.value.remedy


def test_default_file_that_is_a_link_to_nothing_is_no_wish_for_defaults() -> None:
    Path("walbridge.toml").symlink_to("not-mounted.toml")

    with pytest.raises(OperatorError, match=r"walbridge\.toml cannot be read: No such file"):
        load_settings()


def test_variable_wins_over_the_file_and_leaves_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALBRIDGE_POSTGRES__SLOT", "other")
    settings = load('[postgres]\nslot = "mine"\npublication = "kept"')

    assert (settings.postgres.slot, settings.postgres.publication) == ("other", "kept")


def test_one_publication_or_several_are_followed() -> None:
    assert load("").postgres.publication_names == ("walbridge",)
    assert load('[postgres]\npublication = "mine"').postgres.publication_names == ("mine",)
    assert load('[postgres]\npublications = ["b", "a.x"]').postgres.publication_names == ("b", "a.x")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('publication = "c"', "exclude each other"),
        ('publication = "walbridge"', "exclude each other"),
        ('publication_tables = ["public.t"]', "makes one publication"),
    ],
)
def test_settings_that_do_not_go_with_several_publications_are_refused(more: str, words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        load(f'[postgres]\npublications = ["a", "b"]\n{more}')

    with pytest.raises(OperatorError, match="twice"):
        load('[postgres]\npublications = ["a", "a"]')


@pytest.mark.parametrize(
    ("variable", "choice"),
    [
        ("WALBRIDGE_NMAE", "WALBRIDGE_NAME"),
        ("WALBRIDGE_KAFKA__BOOTSTRAP", "WALBRIDGE_KAFKA__BOOTSTRAP_SERVERS"),
        ("WALBRIDGE_KAFKA", "WALBRIDGE_KAFKA__BOOTSTRAP_SERVERS"),
        ("walbridge_nmae", "WALBRIDGE_NAME"),
    ],
)
def test_unknown_variable_is_refused_with_those_that_exist(variable: str, choice: str) -> None:
    with pytest.raises(OperatorError, match=variable) as refused:
        refuse_unknown_variables({"PATH": "/bin", variable: "x"})

    assert choice in refused.value.remedy.replace(",", "").split()


@pytest.mark.parametrize(
    "variable", ["CONFIG", "HOME", "JAVA", "KILL_POINT", "TEST_SERVERS", "SPARK__JARS_DIR", "NAME"]
)
def test_variable_that_something_reads_is_taken(variable: str) -> None:
    refuse_unknown_variables({f"WALBRIDGE_{variable}": "x"})


def test_unknown_variable_stops_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALBRIDGE_LAKE__PAHT", "x")

    with pytest.raises(OperatorError, match="WALBRIDGE_LAKE__PAHT"):
        load_settings()


def test_variable_of_a_list_that_is_not_json_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALBRIDGE_POSTGRES__PUBLICATION_TABLES", "public.orders")

    with pytest.raises(OperatorError, match="WALBRIDGE_POSTGRES__PUBLICATION_TABLES cannot be read") as refused:
        load_settings()

    assert "JSON" in refused.value.remedy


def test_value_that_a_variable_has_is_told_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALBRIDGE_TOPICS__PARTITIONS", "")

    with pytest.raises(OperatorError, match=r"WALBRIDGE_TOPICS__PARTITIONS \(topics\.partitions\): "):
        load_settings()


def test_variable_of_a_list_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALBRIDGE_POSTGRES__PUBLICATION_TABLES", '["public.orders"]')

    assert load_settings().postgres.publication_tables == ("public.orders",)


def test_nested_client_tables_become_dotted_properties() -> None:
    client = load('[kafka.client]\nsasl = {mechanism = "PLAIN"}\nssl.ca.location = "/ca"\n"a.b" = 1').kafka.client

    assert {name: value.get_secret_value() for name, value in client.items()} == {
        "sasl.mechanism": "PLAIN",
        "ssl.ca.location": "/ca",
        "a.b": "1",
    }


def test_nested_client_variables_become_dotted_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALBRIDGE_KAFKA__CLIENT__SASL__MECHANISM", "PLAIN")

    assert load_settings().kafka.client["sasl.mechanism"].get_secret_value() == "PLAIN"


def test_property_values_are_written_as_the_clients_read_them() -> None:
    assert flatten({"a": True, "b": {"c": 1.5, "d": ["x", "y"]}}) == {"a": "true", "b.c": "1.5", "b.d": "x,y"}


def test_secrets_are_in_no_representation() -> None:
    settings = load(SECRETS)

    assert settings.kafka.client["sasl.password"].get_secret_value() == "hunter2"
    assert "hunter2" not in f"{settings!r} {settings}"


def test_secrets_are_not_in_the_effective_settings() -> None:
    shown = effective(load(SECRETS))

    assert "hunter2" not in repr(shown)
    assert shown["postgres"]["dsn"] == "postgresql://u:***@h/d"
    assert shown["spark"]["conf"]["spark.hadoop.fs.s3a.endpoint"] == "http://store:9000"


@pytest.mark.parametrize(
    "text", ["[postgres]\ndsn = ['hunter2']", "[kafka]\nclient = 'hunter2'", "[topics]\npartitions = 'hunter2'"]
)
def test_refusal_does_not_repeat_the_value(text: str) -> None:
    assert "hunter2" not in refusal(text)


def test_settings_do_not_change_under_a_running_program() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().producer.batch_ms_max = 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[postgres]\nmessage_prefixes = ["app"]', "message_prefixes chooses among messages"),
        ("[topics]\nretention_ms = 0", "retention_ms (0) is shorter than a minute"),
        ('[topics]\nretention_ms = -1\ncleanup = {"public.t" = "compact"}', "cuts are kept for ever then"),
        (
            '[kafka.client]\n"security.protocol" = "SASL_SSL"\n[kafka.spark]\n"security.protocol" = "ssl"',
            "security.protocol is sasl_ssl in client and ssl in spark",
        ),
        (
            '[kafka.client]\n"security.protocol" = "ssl"\n[kafka.spark]\n"max.poll.records" = "1"',
            "security.protocol is ssl in client and plaintext, the default, in spark",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused_together(text: str, words: str) -> None:
    assert words in refusal(text)
    assert "hunter2" not in refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        '[postgres]\nmessages = true\nmessage_prefixes = ["app"]',
        "[topics]\nretention_ms = -1",
        '[kafka.client]\n"security.protocol" = "SSL"\n[kafka.spark]\n"security.protocol" = "ssl"',
        '[kafka.client]\n"security.protocol" = "ssl"',
        '[kafka.spark]\n"security.protocol" = "SSL"',
    ],
)
def test_settings_of_a_machine_with_one_program_contradict_nothing(text: str) -> None:
    load(text)


def test_confluents_format_without_a_registry_is_refused() -> None:
    assert 'format = "confluent" needs registry_url' in refusal('[topics]\nformat = "confluent"')


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("registry:8081", "not an http or https address"),
        ("ftp://registry", "not an http or https address"),
        ("https://ann:hunter2@registry", "use registry_user and registry_password_file"),
    ],
)
def test_address_that_no_registry_has_is_refused_without_its_password(url: str, said: str) -> None:
    told = refusal(f'[topics]\nregistry_url = "{url}"')

    assert said in told
    assert "hunter2" not in told


def test_password_of_the_registry_comes_from_its_file() -> None:
    Path("secret").write_text("hunter2\n")

    settings = load('[topics]\nregistry_url = "https://registry"\nregistry_password_file = "secret"')

    assert settings.topics.registry_password is not None
    assert settings.topics.registry_password.get_secret_value() == "hunter2"
