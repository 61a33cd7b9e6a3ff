"""Tables that a copy is to be made of: noticed, then found in the publication, some of them tried again later.

In: relation ids, the publication as it was listed, what could not be read. Out: what to ask for next.

    noticed ──listed──▶ published ⟲ copied
        ▲                   │
        └──── later ◀───────┘ could not be read, or not be copied
"""

import time
from collections.abc import Iterable

from walbridge.producer.postgres.facts import PublishedTable

AGAIN_S = 1.0
"""Until what may pass by itself is tried again, like a table that is being altered."""
_REFUSED_AGAIN_S, _REFUSED_AGAIN_MAX_S = 10.0, 300.0
"""Until something is tried again that a person has to mend: first, and at most. It doubles each time."""


class TablesToCopy:
    """The tables that one session has to copy."""

    def __init__(self, relation_ids: Iterable[int]) -> None:
        self.published: dict[int, PublishedTable] = {}
        """Those that are in the publication, as they were when it was listed."""
        self._noticed = set(relation_ids)
        self._listed: set[int] = set()
        """Noticed tables that are looked up in the publication now."""
        self._later: dict[int, float] = {}
        """By table that could not be copied: when it is tried again."""
        self._pauses_s: dict[int, float] = {}
        self._list_again_s = 0.0

    @property
    def is_empty(self) -> bool:
        """Nothing is left to be copied."""
        return not (self._noticed or self.published or self._later)

    def notice(self, relation_ids: Iterable[int]) -> None:
        """Tables that are published and not followed; those that are to be tried later are known already."""
        self._noticed.update(each for each in relation_ids if each not in self._later)

    def retry_now(self, relation_id: int) -> None:
        """Copy the table as soon as possible, even if it was put off."""
        self._later.pop(relation_id, None)
        self._pauses_s.pop(relation_id, None)
        self._noticed.add(relation_id)

    def forget(self, relation_id: int) -> None:
        """The table is copied, or is followed no more."""
        self.published.pop(relation_id, None)
        self._later.pop(relation_id, None)
        self._pauses_s.pop(relation_id, None)
        self._noticed.discard(relation_id)
        # A list that was asked for before would bring it back.
        self._listed.discard(relation_id)

    def take_list_due(self) -> bool:
        """Whether to list the publication now."""
        now_s = time.monotonic()
        for relation_id in [each for each, again_s in self._later.items() if again_s <= now_s]:
            del self._later[relation_id]
            self._noticed.add(relation_id)
        if not self._noticed or now_s < self._list_again_s:
            return False
        self._list_again_s = now_s + AGAIN_S
        self._listed, self._noticed = self._noticed, set()
        return True

    def note_publication(self, tables: Iterable[PublishedTable]) -> set[int]:
        """The publication was listed. Returns the tables that are not in it; these are not to be copied any more."""
        found = {table.relation_id: table for table in tables if table.relation_id in self._listed}
        self.published |= found
        return self._listed - found.keys()

    def note_list_failed(self) -> None:
        """The publication could not be listed: look the tables up again later."""
        self._noticed |= self._listed

    def pause_s(self, relation_id: int, *, is_refused: bool) -> float:
        """How long to wait until this table is tried again."""
        if not is_refused:
            return AGAIN_S
        pause_s = max(_REFUSED_AGAIN_S, self._pauses_s.get(relation_id, 0))
        self._pauses_s[relation_id] = min(2 * pause_s, _REFUSED_AGAIN_MAX_S)
        return pause_s

    def put_off(self, relation_id: int, pause_s: float) -> None:
        """Try again later; the table may be another one by then."""
        self.published.pop(relation_id, None)
        self._listed.discard(relation_id)
        self._later[relation_id] = time.monotonic() + pause_s
