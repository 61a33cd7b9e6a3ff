"""The schema registry, where one is set: it answers, and knows the schemas that the topics name.

In: settings, and the relation versions that the metadata topic holds. Out: findings. Nothing is registered.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing

from walbridge.check.finding import Finding, ok
from walbridge.producer.registry.client import Registry
from walbridge.producer.relations.registry_ids import RegistryIds
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.settings import Settings

AREA = "registry"


def registry(settings: Settings, relations: Iterable[RelationRecord]) -> Iterator[Finding]:
    """What a start of the producer would ask of it.

    Args:
        relations: those that are known, the newest of a relation last.

    Raises:
        OperatorError: it would be refused.
        RetryableError: it does not answer.
    """
    url = settings.topics.registry_url
    if url is None:
        return
    with closing(Registry(settings)) as asked:
        asked.reach()
    newest = {record.table.relation_id: record for record in relations}
    with closing(RegistryIds(settings, lambda: None)) as ids:
        ids.compare(newest.values())
    yield ok(AREA, f"{url} answers")
