"""Doubts: the followed tables that may not equal the source any more, each with the reason.

In: reasons, from whoever finds one (``storage_comparison.py``, ``memberships.py``, ``topic_watch.py``). Out: the tables
that the next cut has to call stale, each returned once (``session/table_trouble.py``). Progress remembers nothing new
of a table in doubt before its next copy begins: if no cut says so before a restart, the doubt is found again (I7, I8).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.errors.tables import copied_in_vain, found_unequal, labels_changed
from walbridge.producer.guards.doubts.truncations import Truncations
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


class Doubts:
    """Collects the doubts of one session."""

    def __init__(self, settings: Settings, tables: Tables, tracker: ProgressTracker) -> None:
        self._tracker, self._name = tracker, tables.versions.name
        self._stops = settings.producer.on_table_error == "stop"
        self._doubted: dict[int, OperatorError] = {}
        self._options: dict[str, str] = {}
        """Options that progress is to remember once a cut has told the doubts that they caused."""
        self._mislabelled: set[int] = set()
        """Tables that are doubted for label names in their rows: a start would not find such a doubt again."""
        self.truncations = Truncations()
        """New files that a TRUNCATE may explain which the stream has not brought yet."""

    def __len__(self) -> int:
        return len(self._doubted) + len(self.truncations)

    def __contains__(self, relation_id: int) -> bool:
        return relation_id in self._doubted

    @property
    def reasons(self) -> Mapping[int, OperatorError]:
        """By table, the doubts that nothing in the stream can end any more."""
        return dict(self._doubted)

    def add(self, reasons: Mapping[int, OperatorError], options: Mapping[str, str] = NO_OPTIONS) -> None:
        """These tables may not equal their source.

        Args:
            options: what progress is to remember once a cut has told these doubts.

        Raises:
            OperatorError: settings say that this stops all.
        """
        if reasons and self._stops:
            raise next(iter(reasons.values()))
        self._doubted = {**reasons, **self._doubted}
        self._options |= options

    def add_unequal(self, relation_ids: Iterable[int], options: Mapping[str, str]) -> None:
        """Somebody compared these tables with their source, and rows of them differ in the lake. As ``add``."""
        self.add({each: found_unequal(self._name(each)) for each in relation_ids}, options)

    def add_copied_in_vain(self, relation_ids: Iterable[int], options: Mapping[str, str]) -> None:
        """No copy of these tables helps the lake. As ``add``."""
        self.add({each: copied_in_vain(self._name(each)) for each in relation_ids}, options)

    def add_mislabelled(self, relation_ids: Iterable[int]) -> None:
        """Rows of these tables hold a name that is no label, or that another label had. As ``add``."""
        reasons = {each: labels_changed(self._name(each)) for each in relation_ids}
        self._mislabelled |= reasons.keys()
        self.add(reasons)

    def remembers_later(self, option: str) -> bool:
        """Whether progress is to remember this option once a cut has told the doubts."""
        return option in self._options

    def take(self, end: Lsn) -> dict[int, OperatorError]:
        """All doubts, each returned once. The next cut, which ends at ``end``, has to tell them."""
        doubted, self._doubted = self.truncations.take(end) | self._doubted, {}
        self._mislabelled.clear()
        if self._options:
            self._tracker.remember_options(self._options)
            self._options = {}
        return doubted

    def take_mislabelled(self) -> dict[int, OperatorError]:
        """The doubts of ``add_mislabelled``, each returned once."""
        mislabelled, self._mislabelled = self._mislabelled & self._doubted.keys(), set()
        return {each: self._doubted.pop(each) for each in mislabelled}

    def take_of(self, relation_id: int) -> OperatorError | None:
        """The doubt about this table, returned once; None where there is none."""
        return self._doubted.pop(relation_id, None)
