"""Tables that are followed and may not equal the source any more: which, and why.

In: reasons, from whoever finds one (``storage_comparison.py``, ``memberships.py``, ``topic_watch.py``). Out: what the
next cut has to say of each table, told once (``session/table_trouble.py``). Nothing is remembered of a table in doubt
before its next copy begins, so that a doubt which no cut told is found again after a restart (I7, I8).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.errors.tables import found_unequal, labels_changed
from walbridge.producer.guards.doubts.truncations import Truncations
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


class Doubts:
    """Those of one session."""

    def __init__(self, settings: Settings, tables: Tables, tracker: ProgressTracker) -> None:
        self._tracker, self._name = tracker, tables.versions.name
        self._stops = settings.producer.on_table_error == "stop"
        self._doubted: dict[int, OperatorError] = {}
        self._options: dict[str, str] = {}
        """What is to be remembered with what is doubted for it."""
        self._mislabelled: set[int] = set()
        """Tables that are doubted for what their rows hold: a start would not find it again."""
        self.truncations = Truncations()
        """Doubts that a TRUNCATE which is yet to come may end."""

    def __len__(self) -> int:
        return len(self._doubted) + len(self.truncations)

    def __contains__(self, relation_id: int) -> bool:
        return relation_id in self._doubted

    @property
    def reasons(self) -> Mapping[int, OperatorError]:
        """By table, those that nothing which the stream may still bring explains."""
        return dict(self._doubted)

    def add(self, reasons: Mapping[int, OperatorError], options: Mapping[str, str] = NO_OPTIONS) -> None:
        """These tables are not current.

        Args:
            options: facts that hold for all of them, to be remembered once they are told.

        Raises:
            OperatorError: settings say that this stops all.
        """
        if reasons and self._stops:
            raise next(iter(reasons.values()))
        self._doubted = {**reasons, **self._doubted}
        self._options |= options

    def add_unequal(self, relation_ids: Iterable[int], options: Mapping[str, str]) -> None:
        """Somebody compared these with their source, and rows of them differ in the lake. As ``add``."""
        self.add({each: found_unequal(self._name(each)) for each in relation_ids}, options)

    def add_mislabelled(self, relation_ids: Iterable[int]) -> None:
        """Rows of these hold what is no label, or may be another one. As ``add``."""
        reasons = {each: labels_changed(self._name(each)) for each in relation_ids}
        self._mislabelled |= reasons.keys()
        self.add(reasons)

    def has_untold(self, option: str) -> bool:
        """Whether this is to be remembered with what is doubted, and is not yet."""
        return option in self._options

    def take(self, end: Lsn) -> dict[int, OperatorError]:
        """All of them, each told once, to be said in the cut that is made next, which ends there."""
        doubted, self._doubted = self.truncations.take(end) | self._doubted, {}
        self._mislabelled.clear()
        if self._options:
            self._tracker.remember_options(self._options)
            self._options = {}
        return doubted

    def take_mislabelled(self) -> dict[int, OperatorError]:
        """Tables that hold what is no label, each told once."""
        mislabelled, self._mislabelled = self._mislabelled & self._doubted.keys(), set()
        return {each: self._doubted.pop(each) for each in mislabelled}

    def take_of(self, relation_id: int) -> OperatorError | None:
        """Why this table is not current, told once."""
        return self._doubted.pop(relation_id, None)
