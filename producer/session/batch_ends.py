"""Where batches end: between transactions, or inside of one that is too large, or open for longer than Kafka waits.

In: the open batch and the open transaction. Out: a batch that is closed, or split with the progress of its transaction.
"""

from collections.abc import Callable

from walbridge.producer.batch.batch_limits import age_s
from walbridge.producer.batch.cut_maker import CutMaker
from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.session.transactions.transaction import TransactionTracker
from walbridge.producer.session.transactions.transaction_boundaries import TransactionBoundaries
from walbridge.schemas.position import Position


class BatchEnds:
    """Ends the batches of one session.

    Args:
        on_splitting: called with the position at which a batch is about to end inside a transaction.
    """

    def __init__(
        self,
        out: OpenBatch,
        cuts: CutMaker,
        transactions: TransactionTracker,
        boundaries: TransactionBoundaries,
        on_splitting: Callable[[Position], None] = lambda position: None,
    ) -> None:
        self._on_splitting = on_splitting
        self._out, self._cuts, self._transactions, self._boundaries = out, cuts, transactions, boundaries

    def close(self) -> None:
        """Between transactions, when nothing more has come: close the batch, unless a doubt may still be explained."""
        self._cuts.close(may_wait=True)

    def close_if_full(self) -> None:
        """Between transactions: close the batch if it is full. The stream may go on without a pause for longer than
        Kafka waits."""
        if self._out.is_full:
            self._cuts.close(may_wait=True)

    def end_if_stalled(self, age_max_s: float) -> None:
        """Inside a transaction that brings no rows to publish: end the batch, since Kafka would abort one that waits
        for the transaction's end."""
        out, limits = self._out, self._out.limits
        if not out.is_open or not (out.is_full or age_s(out.batch) >= age_max_s):
            return
        if (
            not limits.is_in_transaction(out.batch) or not self._transactions.has_changes
        ):  # what it holds may be messages of no transaction
            # Else a complete cut would make progress forget how far the split transaction went.
            if out.tracker.progress.split is None:
                self._cuts.close(may_wait=True)
                out.begin_transaction()
        elif self._transactions.publishes and age_s(out.batch) >= min(age_max_s, limits.age_max_s):
            self.split()

    def split_if_due(self) -> None:
        """Inside a transaction, after one of its changes: split it if it is too large for the batch."""
        if self._out.limits.is_split_due(self._out.batch):
            self.split()

    def split(self) -> None:
        """Commit what there is of the transaction; its rest goes into other batches."""
        transaction = self._transactions.inside()
        self._on_splitting(transaction.position)
        self._boundaries.begin(transaction, self._out.batch)
        self._cuts.split(transaction.begin, self._transactions.split())
