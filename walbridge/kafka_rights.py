"""``walbridge init --acls``: the rights that a pipeline needs in Kafka, as commands for an administrator.

In: settings. Out: rights as values, and a shell script of ``kafka-acls.sh``, Kafka's own tool. Nothing is asked and
nothing is granted: walbridge has no right to grant any. Read, Write and Delete imply Describe, so it is never named.
Source: Kafka documentation, "Authorization and ACLs".
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import progress_topic

PRODUCER, JOB, DROP, CHECK = "producer", "job", "drop", "check"
_PRODUCER_MAY = ("Create", "DescribeConfigs", "Read", "Write")
_SCRIPT = """\
# The rights that pipeline {name} needs in Kafka, and no more. Correct both principals, which may be one, and run it as
#   sh acls.sh --bootstrap-server {servers} --command-config admin.properties
set -e
PRODUCER=${{PRODUCER:-User:{user}}}
JOB=${{JOB:-User:{user}}}
{commands}
# For walbridge drop, which removes the pipeline's topics; take it away again afterwards:
{drop}
# If walbridge check is to look at the brokers too:
{check}"""


@dataclass(frozen=True, slots=True)
class Right:
    """What one principal may. ``kind``: an option of ``kafka-acls.sh``; the cluster has no name."""

    who: str
    operations: tuple[str, ...]
    kind: str
    name: str = ""
    is_prefix: bool = False

    @property
    def command(self) -> str:
        """Of ``kafka-acls.sh``, with its arguments to reach the broker."""
        principal = "$JOB" if self.who == JOB else "$PRODUCER"
        words = [f"--operation {operation}" for operation in self.operations]
        words.append(f"--{self.kind} {shlex.quote(self.name)}" if self.name else f"--{self.kind}")
        words += ["--resource-pattern-type prefixed"] if self.is_prefix else []
        return f'kafka-acls.sh "$@" --add --allow-principal "{principal}" {" ".join(words)}'


def rights(settings: Settings) -> Iterator[Right]:
    """All of them; those of drop and check are the producer's, and not needed to run."""
    name = settings.name
    yield Right(PRODUCER, _PRODUCER_MAY, "topic", f"{name}.", is_prefix=True)
    yield Right(PRODUCER, ("Write",), "transactional-id", f"{name}/", is_prefix=True)
    yield Right(PRODUCER, ("Read",), "group", f"walbridge-{name}-look")
    yield Right(JOB, ("Read",), "topic", f"{name}.", is_prefix=True)
    yield Right(JOB, ("Read",), "group", f"walbridge-{name}")
    yield Right(JOB, ("Write",), "topic", progress_topic(name))
    yield Right(DROP, ("Delete",), "topic", f"{name}.", is_prefix=True)
    yield Right(CHECK, ("DescribeConfigs",), "cluster")
    for topic in sorted(set(settings.topics.names.values())):
        if not topic.startswith(f"{name}."):
            for who, operations in ((PRODUCER, _PRODUCER_MAY), (JOB, ("Read",)), (DROP, ("Delete",))):
                yield Right(who, operations, "topic", topic)


def acl_script(settings: Settings) -> str:
    """The commands that grant them."""
    commands = {who: [each.command for each in rights(settings) if each.who == who] for who in (DROP, CHECK)}
    user = settings.kafka.client.get("sasl.username")
    return _SCRIPT.format(
        name=settings.name,
        servers=settings.kafka.bootstrap_servers,
        user=user.get_secret_value() if user is not None else "walbridge",
        commands="\n".join(each.command for each in rights(settings) if each.who not in commands),
        **{who: "\n".join(f"# {command}" for command in of) for who, of in commands.items()},
    )
