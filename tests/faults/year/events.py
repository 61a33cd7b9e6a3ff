"""What happens to a pipeline within a year, each as a function of the stage: all of them.

Tables are those of ``habits.py`` and of pgbench, published by FOR ALL TABLES. No event mends what it broke; what only
whoever runs the pipeline can know, such as a new password, is told to the attendant, who needs it once a program asks
for it.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.year import of_access, of_database, of_lake, of_programs, of_servers, of_stream, of_topics
from tests.faults.year.year_stage import YearStage

Event = Callable[[YearStage], None]
EVENTS: tuple[Event, ...] = (
    of_servers.broker_away,
    of_servers.broker_away_for_long,
    of_servers.postgres_crashes,
    of_servers.everything_dies,
    of_servers.server_restored,
    of_servers.failed_over,
    of_programs.programs_killed,
    of_programs.rolling_update,
    of_programs.job_stopped_in_a_plan,
    of_programs.job_updated,
    of_programs.asked_to_end,
    of_programs.jvm_killed,
    of_programs.second_producer,
    of_programs.second_job,
    of_programs.settings_contradict,
    of_programs.memory_too_small,
    of_programs.progress_of_format_1,
    of_database.habits,
    of_database.large_transaction,
    of_database.year_is_closed,
    of_database.column_added,
    of_database.values_rewritten,
    of_database.key_dropped_and_made,
    of_database.transaction_left_open,
    of_database.identity_altered,
    of_database.keys_changed,
    of_database.ddl_told_in_the_stream,
    of_database.label_renamed,
    of_database.prepared_and_ended_late,
    of_database.key_widened,
    of_database.unlogged_for_a_while,
    of_stream.operations_left_out,
    of_stream.publication_remade,
    of_stream.publication_renamed,
    of_stream.slot_dropped,
    of_stream.slot_invalidated,
    of_stream.copied_on_request,
    of_stream.all_copied_on_request,
    of_topics.topic_deleted,
    of_topics.topic_grown,
    of_topics.topic_of_runs_deleted,
    of_topics.topic_set_otherwise,
    of_topics.topic_takes_less,
    of_topics.records_expired,
    of_topics.partitions_set,
    of_lake.folder_removed,
    of_lake.folder_restored,
    of_lake.written_by_others,
    of_lake.checkpoint_removed,
    of_lake.disk_full,
    of_lake.power_lost,
    of_lake.lake_linked,
    of_access.password_changed,
    of_access.authority_replaced,
    of_access.connections_limited,
    of_access.role_set_otherwise,
    of_access.right_revoked,
    of_access.spool_too_small,
)
