"""Any events at all: decoded column by column they give the rows that they give one by one, or they are left to
others."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.contract_writer import Event
from tests.in_soak import in_soak
from tests.spark_consumer.events import Log, column, relation
from tests.spark_consumer.fold.folded_events import VALUES
from tests.spark_consumer.fold.test_columns import both
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.position import COPIED_ORDINAL, Lsn, Position
from walbridge.spark_consumer.fold.columns.avro_bytes import NotPlain
from walbridge.spark_consumer.kafka.many import spooled_records
from walbridge.spark_consumer.plan.plan import Segment

ROWS = 60
KINDS = (
    "texts",
    "left out",
    "tombstones",
    "truncates",
    "copied rows",
    "other versions",
    "any partition",
    "any order",
    "segments",
)
"""What a log may have beside plain changes."""
NOT_A_NUMBER: dict[str, list[Any]] = {"float4": [float("nan")], "float8": [float("nan")]}


@dataclass
class Drawn:
    """A log of one table, as drawn from a seed."""

    chooser: random.Random
    kinds: Collection[str]
    types: list[tuple[str, int]]
    of: RelationRecord
    log: Log = field(default_factory=Log)
    segment: Segment = field(init=False)

    @classmethod
    def of_seed(cls, seed: int) -> Drawn:
        chooser = random.Random(seed)
        kinds = {kind for kind in KINDS if chooser.random() < 0.25}
        types = chooser.sample(list(VALUES), chooser.randint(0, 6))
        key = [column("id", "int8", is_key=True), column("on", "date", is_key=True)][: chooser.randint(1, 2)]
        columns = [*key, *[column(f"c{at}", name, typmod=typmod) for at, (name, typmod) in enumerate(types)]]
        chooser.shuffle(columns)
        drawn = cls(chooser, kinds, types, relation(columns, identity=chooser.choice("df")))
        drawn.write()
        return drawn

    def write(self) -> None:
        keys = self.chooser.choice([5, ROWS * 10])
        for number in range(ROWS):
            self.change(self.chooser.randrange(keys), 0x1000 + 8 * (number // 5), number % 5)
        if "any order" in self.kinds:
            self.chooser.shuffle(self.log.rows)
        self.segment = self.drawn_segment()

    def change(self, key: int, lsn: int, ordinal: int) -> None:
        partition = self.chooser.randrange(3) if "any partition" in self.kinds else key % 3
        of = self.of
        if "other versions" in self.kinds and self.chooser.random() < 0.2:
            of = relation([column("id", "int8", is_key=True), column("other")])
        row = {"id": key} | ({"on": None} if of is self.of and "on" in {each.name for each in of.table.columns} else {})
        if "truncates" in self.kinds and self.chooser.random() < 0.05:
            self.log.add(Event(of, self.chooser.choice("tm"), lsn, ordinal), partition=partition)
        elif self.chooser.random() < 0.2:
            before = row | (self.values()[0] if of is self.of and of.table.replica_identity == "f" else {})
            gone = Event(of, "d", lsn, ordinal, before=before, before_image="key")
            self.log.add(gone, partition=partition)
            if "tombstones" in self.kinds:
                self.log.add_bytes(of.topic, None, b"any key", partition=partition)
        else:
            values, texts = self.values() if of is self.of else ({"other": "x"}, {})
            is_copied = "copied rows" in self.kinds and self.chooser.random() < 0.2
            op, ordinal = ("r", COPIED_ORDINAL) if is_copied else (self.chooser.choice("cu"), ordinal)
            left_out = [name for name in self.toastable() if self.chooser.random() < 0.3] if op == "u" else []
            left_out = left_out if "left out" in self.kinds and of is self.of else []
            after = row | {name: value for name, value in values.items() if name not in left_out}
            texts = {name: text for name, text in texts.items() if name not in left_out}
            self.log.add(
                Event(of, op, lsn, ordinal, after=after, unchanged=left_out, exceptional=texts), partition=partition
            )

    def values(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Values of some columns, and the texts of others."""
        found, texts = {}, {}
        for at, of in enumerate(self.types):
            value = self.chooser.choice([*VALUES[of], *NOT_A_NUMBER.get(of[0], [])])
            is_text = isinstance(value, str) and of[0] not in ("text", "point")
            if is_text and "texts" in self.kinds:
                texts[f"c{at}"] = value
            elif not is_text and not (isinstance(value, list | dict) and "texts" not in self.kinds):
                found[f"c{at}"] = value
        return found, texts

    def toastable(self) -> list[str]:
        return [each.name for each in self.of.table.columns if each.column_type.may_be_toasted and not each.is_key]

    def drawn_segment(self) -> Segment:
        whole = Segment(0, self.of.schema_id, None, None, ignores_copied_rows=self.chooser.random() < 0.5)
        if "segments" not in self.kinds:
            return whole
        first, last = sorted(self.chooser.sample(range(ROWS // 5), 2))
        bounds = [Position(Lsn(0x1000 + 8 * each), self.chooser.randint(-1, 5)) for each in (first, last)]
        start, end = self.chooser.choice([(bounds[0], bounds[1]), (None, bounds[1]), (bounds[0], None)])
        return replace(whole, start=start, end=end)


@pytest.mark.parametrize("seeds", [range(100), in_soak(range(100, 3_000))], ids=["some", "many"])
def test_any_events_fold_alike_or_are_left_to_others(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """I5, I6"""
    monkeypatch.setattr(spooled_records, "CHUNK_ROWS", 17)
    is_by_columns: Counter[bool] = Counter()
    for seed in seeds:
        drawn = Drawn.of_seed(seed)
        for folded in (True, False):
            try:
                found, one_by_one = both(drawn.log, drawn.of, drawn.segment, folded=folded)
            except NotPlain:
                is_by_columns[False] += 1
            else:
                is_by_columns[True] += 1
                assert found == one_by_one, (seed, folded)
    assert min(is_by_columns[True], is_by_columns[False]) > len(seeds) // 4
