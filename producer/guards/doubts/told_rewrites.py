"""New files of tables whose rows are as they were, as rows about DDL tell. Pure.

In: rewrites that cannot change a value, with the file that each replaced and the one that was there in the end. Out:
whether such rewrites alone lead from one file to another. What is not told, as TRUNCATE and VACUUM FULL, breaks the
chain; so does a column that was added on the way, whose value is in the new file.

Casts of numbers to wider ones keep every value where a command does nothing else. What they are cast from is known of
the version that was told last: only ``int4`` may be called otherwise without a rewrite (``oid``), and is told then.
"""

from collections.abc import Iterable

from walbridge.producer.postgres.facts import TableFile
from walbridge.schemas.told_ddl import Types

_INT2, _INT4, _INT8, _FLOAT4, _FLOAT8 = 21, 23, 20, 700, 701
_WIDER = frozenset({(_INT2, _INT4), (_INT2, _INT8), (_INT4, _INT8), (_FLOAT4, _FLOAT8)})


def keeps_values(before: Types, now: Types) -> bool:
    """Whether each column that is in both has its type still, or one that has all its values and casts them as they
    are."""
    was = {number: (of, typmod) for number, of, typmod in before}
    return bool(now) and all(
        number not in was or was[number] == (of, typmod) or (was[number][0], of) in _WIDER for number, of, typmod in now
    )


def reads_otherwise(before: Types, now: Types) -> bool:
    """Whether integers have a type now in which they may print another number."""
    was = {number: of for number, of, _ in before}
    return any(was.get(number) == _INT4 and of not in (_INT4, _INT8) for number, of, _ in now)


class ToldRewrites:
    """Those of one session."""

    def __init__(self) -> None:
        self._begun: dict[int, int] = {}
        self._became: dict[int, dict[int, int]] = {}

    def begin(self, relation_id: int, file: int) -> None:
        """This file of the table is about to be replaced."""
        self._begun[relation_id] = file

    def end(self, relation_id: int, file: int) -> bool:
        """The command ended with this file. Whether that explains one."""
        before = self._begun.pop(relation_id, None)
        if before is None or before == file:
            return False
        self._became.setdefault(relation_id, {})[before] = file
        return True

    def explain(self, before: TableFile, now: TableFile) -> bool:
        """Whether all that happened between the two is told, and changed no row."""
        became, file = dict(self._became.get(now.relation_id, {})), before.file
        while file != now.file and file in became:
            file = became.pop(file)
        return file == now.file != before.file and before.column_count == now.column_count

    def forget(self, files: Iterable[TableFile]) -> None:
        """These are remembered as they are now; unless the catalogue does not show a command yet."""
        for now in files:
            if now.file not in self._became.get(now.relation_id, ()):
                self._became.pop(now.relation_id, None)
