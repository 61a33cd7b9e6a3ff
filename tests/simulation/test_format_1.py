"""A pipeline whose progress earlier code wrote, as one record for the slot and all its tables, goes on (I4, I8)."""

from dataclasses import replace

import pytest

from tests.format_1 import encode_format_1
from tests.in_soak import in_soak
from tests.simulation.broker import COMMITTED
from tests.simulation.cases import case_of, refused, with_fault_at_every_step
from tests.simulation.history import KEYED, OTHER, TABLES, Writer
from tests.simulation.run import Run
from walbridge.schemas.control.progress_record import read_back
from walbridge.schemas.topics import cuts_topic, metadata_topic, progress_topic

pytestmark = [pytest.mark.simulation, pytest.mark.usefixtures("steps_apart")]


def _in_format_1(run: Run) -> None:
    """As earlier code left it: memberships and ids of topics are options."""
    log = run.broker.log(progress_topic(run.settings.name), 0)
    progress = read_back("s", ((entry.key, entry.value) for entry in reversed(log.entries)))
    assert progress is not None
    log.entries.clear()
    tables = {each: replace(table, membership="*") for each, table in progress.tables.items()}
    options = progress.options | {
        "walbridge.publication": "1",
        "walbridge.topics": f"{metadata_topic('p')}:one {cuts_topic('p')}:one",
    }
    value = encode_format_1(replace(progress, tables=tables, options=options))
    log.append(progress.key, value, None, COMMITTED)


def _large(writer: Writer) -> None:
    for n in range(5):
        writer.insert(KEYED if n % 2 else OTHER, n, "large")


@pytest.mark.parametrize(
    "fault", ["crash", *map(in_soak, ("disconnect", "commit done, answer lost", "commit on its way"))]
)
def test_pipeline_of_format_1_goes_on_and_loses_and_repeats_nothing(fault: str) -> None:
    case = replace(case_of(_large, _large), prepare=_in_format_1)

    assert refused(with_fault_at_every_step(case, fault, seeds=2)) == []


def test_pipeline_of_format_1_is_written_in_format_2_with_its_first_cut() -> None:
    runs: list[Run] = []

    def note(run: Run) -> None:
        _in_format_1(run)
        runs.append(run)

    assert refused(with_fault_at_every_step(replace(case_of(_large), prepare=note), "stop", seeds=1)) == []
    for run in runs:
        entries = run.broker.log(progress_topic(run.settings.name), 0).committed()
        progress = read_back("s", [(entry.key, entry.value) for entry in reversed(list(entries))])
        assert progress is not None
        if progress.cut_id:
            assert (progress.format_version, progress.relation_ids) == (2, tuple(sorted(TABLES)))
            assert {table.membership for table in progress.tables.values()} == {"*"}
