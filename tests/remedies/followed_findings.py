"""Which test does what a finding of ``walbridge check`` says, and finds that it is said no more: by test.

``UNMENDABLE`` are those that no test can mend as an operator would, each with the reason.
"""

CHECK = "tests/walbridge/check/"
ROLE = CHECK + "test_postgres_states.py::test_what_the_role_lacks_is_an_error_until_its_sql_is_run"
SQL = CHECK + "test_postgres_states.py::test_publication_and_tables_are_mended_by_the_sql_of_the_finding"
SERVER = CHECK + "test_postgres_states.py::test_server_setting_is_mended_by_the_sql_of_the_finding"
SETTINGS = CHECK + "test_postgres_states.py::test_tables_that_settings_name_and_nobody_publishes_are_corrected_there"
PIPELINE = CHECK + "test_pipeline_states.py::"
OFFLINE = "tests/remedies/test_followed_findings.py::"
RIGHTS = "tests/end_to_end/security/test_rights_of_the_producer.py::"

FINDINGS_BY_TEST: dict[str, tuple[str, ...]] = {
    ROLE: (
        "role:replication_finding: … may not replicate",
        "role:_lacking: row security hides rows of … from …",
        "role:_lacking: … may not read …",
        "role:_lacking: … may not use schema …",
    ),
    SQL: (
        "tables:_unfit_identities: …",
        "tables:judged: … has identity FULL and no key: an update searches the whole",
        "publication:publication_findings: … has publish_via_partition_root = false: each partition is ",
    ),
    SERVER: (
        "server:_kept_wal: idle_replication_slot_timeout = … s: a producer that is stop",
        "server:_kept_wal: max_slot_wal_keep_size = -1: …",
        "server:_sender_timeout: wal_sender_timeout = 0: after a cut connection the slot stay",
    ),
    CHECK + "test_half_answers.py::test_a_table_that_is_being_altered_is_not_waited_for": (
        "tables:locked: … were not checked",
    ),
    SETTINGS: (
        "publication:_unlike_settings: … does not publish …, which publication_tables names",
        "tables:_unfit_tables: [topics.cleanup] names …, which is not published",
    ),
    PIPELINE + "test_newcomer_is_told_to_init_and_then_nothing_is_left_to_do_before_the_start": (
        "publication:publication_findings: publication … does not exist yet",
        "slot:slot_findings: slot … does not exist yet",
        "topics:_creatable: not there yet, but can be made: …",
    ),
    PIPELINE + "test_topic_that_the_broker_would_refuse_is_an_error_before_anything_is_made": (
        "topics:_creatable: topic … could not be made: …",
    ),
    PIPELINE + "test_each_topic_that_would_lose_what_must_be_kept_is_an_error_of_its_own": (
        "topics:_status_findings: …; without it nobody is told when and why walbridge produce ",
    ),
    PIPELINE + "test_topic_that_takes_no_record_of_a_clock_ahead_of_the_brokers_is_told_with_the_command": (
        "topics:_clock_findings: …: while the clock of the producer is more than an hour ahea",
    ),
    PIPELINE + "test_producer_that_was_stopped_is_started_as_two_findings_say": (
        "programs:program_findings: … …",
        "slot:slot_findings: slot … …, and nobody reads it",
    ),
    PIPELINE + "test_without_a_broker_all_the_rest_is_still_checked": ("verb:_failed: …",),
    CHECK + "test_dry_run.py::test_what_does_not_stop_the_producer_is_no_error_and_told_in_the_words_of_its_log": (
        "session:_doubted: …: the next session calls table … …",
    ),
    "tests/faults/copies/test_copy_all.py::test_every_table_is_told_stale_with_the_reason_until_it_is_copied": (
        "session:lost_finding: …; a copy of all tables was asked for, so the next start mak",
        "slot:slot_findings: slot … is lost: …",
    ),
    "tests/faults/tables/test_table_trouble.py::test_table_in_trouble_is_quarantined_at_once_where_settings_say_so": (
        "topics:left_out_findings: table … is … and not published…: …",
    ),
    "tests/faults/refusals/test_guards_job.py::"
    "test_trouble_of_one_table_is_a_state_of_it_until_it_is_copied_and_others_go_on": (
        "lake:_in_trouble: table … is ……: …",
        "lake:table_findings: …: readers of … fail",
    ),
    "tests/walbridge/check/test_rights.py::"
    "test_broker_that_does_not_answer_in_time_has_neither_given_nor_refused_a_right": (
        "rights:_id_findings: whether walbridge produce may open transactions is not known",
    ),
    "tests/faults/refusals/test_guards_job.py::"
    "test_records_that_expired_before_they_were_applied_are_told_by_check_as_the_job_tells_them": (
        "unread:_gone: table … takes no more changes until it is copied again: …",
    ),
    "tests/end_to_end/test_copy_all.py::"
    "test_lake_keeps_its_tables_marked_stale_until_each_is_copied_after_a_lost_slot": (
        "lake:standing_findings: it holds the tables of an earlier copy",
    ),
    CHECK + "test_postgres_states.py::"
    "test_half_of_the_event_triggers_is_a_warning_until_both_commands_of_the_finding_are_run": (
        "ddl:ddl_findings: DDL is not told in the stream, or not all of it: …",
    ),
    CHECK + "test_postgres_states.py::"
    "test_event_triggers_of_an_earlier_version_are_a_warning_until_they_are_made_anew": (
        "ddl:ddl_findings: DDL is told in the stream by event triggers of another versi",
    ),
    "tests/faults/publications/test_several_publications.py::"
    "test_list_of_all_columns_beside_no_list_is_told_before_a_column_is_added_and_its_remedy_helps": (
        "tables:_unfit_tables: …",
    ),
    "tests/soak/test_failover.py::test_failover_to_a_standby_that_has_the_slot_is_followed_without_a_copy": (
        "slot:failover_findings: slot … is not kept by standbys yet",
    ),
    OFFLINE + "test_changes_wait_for_the_standby_that_is_named_as_the_finding_says": (
        "slot:failover_findings: synchronized_standby_slots is empty: a standby may take over",
    ),
    RIGHTS + "test_each_right_that_is_missing_in_kafka_is_named_and_granting_it_mends_the_start": (
        "rights:_id_findings: Kafka refuses transactional ids …/*: …",
    ),
    RIGHTS + "test_check_says_of_rights_what_it_asked_and_asks_whether_a_table_may_come": (
        "rights:_create_findings: a topic for a table that comes could not be made: …",
    ),
    "tests/end_to_end/security/test_rights_of_the_job.py::"
    "test_rights_that_the_job_lacks_are_found_by_check_and_granting_them_mends_that": (
        "rights:job_findings: as the Spark job: …",
        "rights:job_findings: not asked as the Spark job: …",
        "rights:job_findings: the Spark job may not read with group …",
        "rights:job_findings: the Spark job may not read …",
        "rights:job_findings: the Spark job may not write …, so it cannot ask for copies i",
        "topics:broker_findings: the brokers' settings may not be seen, so they were not chec",
    ),
    OFFLINE + "test_brokers_and_settings_are_made_to_fit_as_the_findings_say": (
        "topics:_replication: new topics get 1 replica: with the broker's disk all that is",
        "topics:_replication: new topics get … replicas, but …",
        "topics:broker_findings: … = …, but …: no transaction can begin",
        "topics:broker_findings: … = …, the producer asks for …",
    ),
    OFFLINE + "test_server_is_made_to_fit_as_the_findings_say": (
        "server:_slots: …: none left for ours",
        "server:_version: Postgres … is too old",
        "server:_walsenders: …: a start of the producer needs …",
        "server:_walsenders: …: none left",
        "server:server_findings: the server is a standby, which cannot be followed",
    ),
    OFFLINE + "test_spool_gets_a_folder_that_can_be_written_and_has_room": (
        "host:spool_findings: … cannot be kept in …: …",
        "room:room_findings: the disk of … has … left: with none, the program that fills ",
    ),
    OFFLINE + "test_memory_is_written_as_told_and_a_larger_heap_takes_the_largest_row": (
        "host:memory_findings: Spark does not take … as its driver's memory",
        "host:memory_findings: a Spark driver with … takes rows of … with their old row, th",
    ),
    OFFLINE + "test_java_is_installed_and_jars_are_those_that_are_locked": (
        "host:jar_findings: Spark's jars are not fetched yet",
        "host:jar_findings: in …: …",
        "host:java_findings: …, and walbridge materialize seems to run here: …",
        "host:java_findings: …: walbridge produce needs none, but walbridge materialize w",
    ),
}

UNMENDABLE: dict[str, str] = {
    "verb:_tried: not checked: … is not installed here, so walbridge materiali": (
        "Its remedy is pip install of an extra, and tests install nothing from a registry."
    ),
    "clock:skew_findings: the server's clock is … … this machine's: delays, lags and a": (
        "The clock of a machine is everybody's: no test may set it."
    ),
    "server:_version: Postgres … is newer than …, the newest that was tested": (
        "There is no newer Postgres yet, and verify is what its remedy asks for."
    ),
    "server:_kept_wal: no max_slot_wal_keep_size: …": (
        "Postgres 12 knows no limit: only an upgrade to 13 and newer ends it."
    ),
    "slot:slot_findings: slot … …, more than max_slot_wal_keep_size: it is lost at th": (
        "A race with the next checkpoint, which makes of it a slot that is lost."
    ),
    "lake:_writable: … is no folder: whether it can be written was not tried": (
        "It is said of every object store, also after the job has written there."
    ),
}
