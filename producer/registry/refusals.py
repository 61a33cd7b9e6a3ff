"""What a schema registry refuses, or what keeps a schema out of it: each with its remedy.

A registry's own words are left out: they may repeat what it was sent (I10).
"""

from walbridge.producer.errors.remedies import copied_again
from walbridge.producer.errors.tables import UnfitTable
from walbridge.schemas.errors import OperatorError

_SINGLE_OBJECT = 'set [topics] format = "single-object", which copies each table into a topic that needs no registry'
_OTHER_REGISTRY = (
    "point [topics] registry_url at the registry that this pipeline began with, or restore what that one held (the "
    f"topic in which it keeps its schemas); or {_SINGLE_OBJECT}"
)


class UnfitSchema(UnfitTable):
    """A table of which no new event can be written, until a person has changed the registry's rule."""


def registry_not_set(pipeline: str) -> OperatorError:
    """Ids that the metadata topic knows are used without it; a new schema needs it."""
    return OperatorError(
        f"topics of pipeline {pipeline} are in format confluent, and no schema registry is set to ask for an id",
        remedy=f"set [topics] registry_url; or {_SINGLE_OBJECT}",
    )


def registry_id_differs(url: str, subject: str, found: int | None, known: int) -> OperatorError:
    """Readers would find another schema, or none, under the id that is in the records (I7)."""
    answer = "does not know it" if found is None else f"answers {found}"
    return OperatorError(
        f"schema registry {url} is not the one that this pipeline began with: of a schema of subject {subject} the "
        f"metadata topic says that its id is {known}, and the registry {answer}",
        remedy=_OTHER_REGISTRY,
    )


def registry_id_taken(url: str, subject: str, found: int) -> OperatorError:
    """One id would mean two schemas."""
    return OperatorError(
        f"schema registry {url} gives a schema of subject {subject} the id {found}, under which the metadata topic "
        "knows another schema: it is not the one that this pipeline began with",
        remedy=_OTHER_REGISTRY,
    )


def schema_incompatible(url: str, subject: str, table: str | None) -> OperatorError:
    """What it is of was altered in a way that the registry's rule for the subject does not allow.

    Args:
        table: None where it is of no table.
    """
    what = (
        f"schema registry {url} refuses the new schema of subject {subject}: it is not compatible with the one before "
        "under the rule that the registry has for this subject; nothing of it was published"
    )
    allow = (
        "let the registry take it: curl -X PUT -H 'Content-Type: application/json' -d '{\"compatibility\": \"NONE\"}' "
        f"{url}/config/{subject}"
    )
    if table is None:
        return OperatorError(what, f"{allow}; then start walbridge produce again")
    return UnfitSchema(f"table {table}: {what}", f"{allow}; then {copied_again(table)}")


def registry_refuses(url: str, subject: str, status: int, code: object) -> OperatorError:
    """Another address than that of the API, or a schema that it does not take."""
    answer = f"{status}" if not isinstance(code, int) else f"{status} (error code {code})"
    return OperatorError(
        f"schema registry {url} answers {answer} where it is asked for the id of a schema of subject {subject}",
        remedy="see the registry's log; [topics] registry_url must be that of Confluent's API: with Apicurio it ends "
        "in /apis/ccompat/v7",
    )


def no_registry(url: str, status: int) -> OperatorError:
    """Somebody else answers."""
    return OperatorError(
        f"what answers at {url} is no schema registry with Confluent's API (status {status})",
        remedy="correct [topics] registry_url: with Apicurio it ends in /apis/ccompat/v7",
    )


def registry_denies(url: str, status: int) -> OperatorError:
    """A user, a password or a right is missing or wrong."""
    return OperatorError(
        f"schema registry {url} does not let us in ({status})",
        remedy="correct [topics] registry_user and registry_password_file, and let that user read and write the "
        "subjects of this pipeline's topics",
    )


def registry_not_trusted(url: str, reason: str) -> OperatorError:
    """Its certificate."""
    return OperatorError(
        f"the certificate of schema registry {url} is not to be trusted: {reason}",
        remedy="name the certificate of its authority in [topics] registry_ca_file",
    )
