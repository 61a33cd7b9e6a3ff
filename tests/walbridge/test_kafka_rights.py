"""The rights that ``walbridge init --acls`` prints are those of the page, and a script that a shell can read."""

from __future__ import annotations

import re
import subprocess

from tests.documents import table
from walbridge.kafka_rights import CHECK, DROP, JOB, PRODUCER, acl_script, rights
from walbridge.schemas.settings import Settings

WHO = {"Spark job": JOB, "`walbridge drop`": DROP, "`walbridge check`, to look at the brokers too": CHECK}
KINDS = {"topic": "topic", "transactional id": "transactional-id", "group": "group", "the cluster": "cluster"}


def documented() -> set[tuple[str, tuple[str, ...], str, str]]:
    """The rows of the page's table; a row without a first cell is of the one above."""
    found, who = set(), ""
    for named, operations, on in table("docs/settings.md", "who"):
        who = named or who
        kind = re.fullmatch(r"([a-z ]+?)(?: `(.+)`)?", on)
        assert kind is not None, on
        if "walbridge.consumer" not in who:
            name = (kind[2] or "").replace("<name>", "shop")
            found.add((WHO.get(who, PRODUCER), tuple(operations.split(", ")), KINDS[kind[1]], name))
    return found


def test_page_of_settings_lists_exactly_these_rights() -> None:
    printed = {
        (each.who, each.operations, each.kind, each.name + "*" * each.is_prefix)
        for each in rights(Settings(name="shop"))
    }

    assert printed == documented()


def test_topics_of_other_names_get_rights_of_their_own_and_the_shell_reads_every_line() -> None:
    topics = {"names": {"public.a": "other", "public.b": "shop.b"}}
    client = {"sasl.username": "producer"}
    script = acl_script(Settings.model_validate({"name": "shop", "topics": topics, "kafka": {"client": client}}))

    assert [line.count(" --topic other") for line in script.splitlines()].count(1) == 3
    assert "shop.b" not in script
    assert "${PRODUCER:-User:producer}" in script
    told = 'told() { echo "$#" "$1" "$5"; }\n' + script.replace("kafka-acls.sh", "told")
    said = subprocess.run(["sh", "-c", told, "sh", "at"], capture_output=True, text=True, check=True)
    lines = said.stdout.splitlines()
    assert len(lines) == 8
    assert all(line.split()[1:] == ["at", "--operation"] for line in lines), lines
