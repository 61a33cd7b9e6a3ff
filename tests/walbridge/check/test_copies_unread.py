"""Records of a copy that the lake does not hold yet are looked for from the copy's beginning on (I7)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from walbridge.check.finding import Finding
from walbridge.check.job import unread
from walbridge.schemas.control.cut import Epoch
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.plan.manifest_row import CutRow, TableEntry
from walbridge.spark_consumer.plan.pending_copy import CopyRange, CopyShape, PendingCopy

GOES_ON = PendingCopy("p.public.t", (CopyShape(500, -1, "v1"),), (CopyRange(0, 10, 20, 9),))


def found(monkeypatch: pytest.MonkeyPatch, copy: PendingCopy | None, start: int) -> list[Finding]:
    """Where the topic begins at this offset, and no cut comes next."""
    now = datetime.now(UTC)
    entry = TableEntry(1, "public", "t", "p.public.t", "public/t", None, "v1", "copying", 500, copy)
    row = CutRow(3, "published", "p", str(Epoch("7", 1, "s", 100)), 4, 4, 9, 900, None, now, (entry,))
    monkeypatch.setattr(unread, "newest_two", lambda _settings: [row])
    return list(unread.unread_findings(Settings(name="p"), None, [], lambda _: [], lambda of: dict.fromkeys(of, start)))


@pytest.mark.parametrize("copy", [GOES_ON, GOES_ON.ended()])
def test_records_of_a_copy_that_are_gone_are_told(monkeypatch: pytest.MonkeyPatch, copy: PendingCopy) -> None:
    (finding,) = found(monkeypatch, copy, 11)

    assert "records of p.public.t[0] from offset 10 on are gone" in finding.text
    assert found(monkeypatch, copy, 10) == []


def test_a_table_whose_copy_is_in_the_lake_needs_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, None, 11) == []
