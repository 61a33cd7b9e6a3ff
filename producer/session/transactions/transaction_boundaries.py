"""Records of where transactions begin and end, for ``<p>.transaction`` if that is asked for.

In: transactions at their commit, or where a batch ends inside of one. Out: records for the open batch, which go into
the same Kafka transaction as the events that they count. BEGIN goes with the first part of a transaction and END with
its last, each once: progress knows of a part whether BEGIN is in Kafka, and how many events are (I4). A transaction
without events has neither.
"""

from walbridge.producer.batch.progress import Batch
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.transactions.transaction import OpenTransaction
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.control.transaction_record import encode_begin, encode_end, transaction_id
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import messages_topic


class TransactionBoundaries:
    """Makes the BEGIN and END records of one session. Their topic is made or checked at its start.

    Raises:
        OperatorError: the topic is not what it must be.
    """

    def __init__(self, settings: Settings, tables: Tables) -> None:
        self._tables = tables
        self._messages = messages_topic(settings.name)
        self._tells = settings.topics.transaction_topic
        if self._tells:
            tables.ensure_transaction_topic()

    def begin(self, transaction: OpenTransaction, batch: Batch) -> None:
        """Add the BEGIN record of a transaction that has events in the batch, unless it was added before."""
        if not self._tells or transaction.is_begun or not transaction.published:
            return
        transaction.is_begun = True
        begin = transaction.begin
        batch.add_boundary(encode_begin(transaction_id(begin.xid, begin.final_lsn), begin.commit_time_us))

    def end(self, transaction: OpenTransaction, batch: Batch) -> None:
        """Add the END record of a transaction whose last part is in the batch."""
        if not self._tells or not (published := transaction.published):
            return
        self.begin(transaction, batch)
        begin = transaction.begin
        counts = ((self._name_of(relation_id), count) for relation_id, count in published.items())
        batch.add_boundary(encode_end(transaction_id(begin.xid, begin.final_lsn), begin.commit_time_us, counts))

    def _name_of(self, relation_id: int) -> str:
        """The name in ``source`` of its events; for logical messages, which are of no table, their topic."""
        if relation_id == MESSAGES_RELATION_ID:
            return self._messages
        known = self._tables.writers.current_version(relation_id)
        return str(relation_id) if known is None else known.table.qualified_name
