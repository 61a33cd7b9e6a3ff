"""Which places of ``sites.py`` a test follows, by test: as ``followed.py``, the other way round."""

BY_TEST: dict[str, tuple[str, ...]] = {
    "tests/end_to_end/test_keys_copied.py::test_file_that_holds_other_than_keys_is_refused_and_its_remedy_followed": (
        "walbridge/tables/keys.py:_keys",
        "walbridge/tables/keys.py:_printed",
        "walbridge/tables/keys.py:copy_keys",
    ),
    "tests/end_to_end/test_on_a_cluster.py::"
    "test_command_of_the_page_has_executors_without_python_write_the_lake_also_where_a_worker_dies": (
        "spark_consumer/jvm/executors.py:_without_executors",
    ),
    "tests/end_to_end/security/test_all_locked.py::"
    "test_both_programs_and_all_verbs_pass_with_the_rights_that_init_prints": (
        "walbridge/drop/verb.py:_delete_topics",
    ),
    "tests/end_to_end/security/test_rights_of_the_producer.py::"
    "test_each_right_that_is_missing_in_kafka_is_named_and_granting_it_mends_the_start": (
        "producer/kafka/topic_settings.py:_allow_larger",
        "walbridge/tables/request.py:_refusal",
    ),
    "tests/end_to_end/security/test_rights_of_the_job.py::"
    "test_topics_that_the_job_may_not_read_are_named_and_granting_it_mends_the_next_run": (
        "spark_consumer/kafka/kafka_client.py:classified_error",
    ),
    "tests/end_to_end/test_topic_lost.py::"
    "test_table_whose_topic_is_lost_is_stale_until_it_is_copied_and_the_others_go_on": (
        "spark_consumer/kafka/decided_log.py:_ask_existing_topics",
        "spark_consumer/kafka/decided_log.py:_truncated_logs",
    ),
    "tests/producer/session/copies/test_copies_with_faults.py::"
    "test_table_at_which_the_server_fails_each_time_is_quarantined_until_an_operator_asks": (
        "producer/errors/tables.py:cannot_be_read",
    ),
    "tests/producer/session/copies/state/test_requested_tables.py::"
    "test_table_whose_copies_do_not_help_the_lake_is_quarantined_until_an_operator_asks": (
        "producer/errors/tables.py:copied_in_vain",
    ),
    "tests/faults/peers_away/test_postgres_crashes.py::"
    "test_change_at_which_postgres_crashes_is_tried_three_times_and_left_behind_by_a_copy_of_all_tables": (
        "producer/errors/servers.py:crashes_while_decoding",
    ),
    "tests/faults/refusals/test_collisions.py::test_another_slot_under_the_same_pipeline_name_is_refused": (
        "producer/kafka/control_topics.py:_taken",
    ),
    "tests/faults/refusals/test_others_at_topics.py::"
    "test_transaction_that_another_program_left_open_hides_no_progress_from_a_start": (
        "producer/errors/topics.py:foreign_transaction",
    ),
    "tests/faults/refusals/test_others_at_topics.py::"
    "test_topic_of_all_tables_that_lost_its_end_in_a_power_cut_is_noticed_though_the_slot_stands_before_it": (
        "producer/errors/topics.py:tail_lost",
    ),
    "tests/faults/refusals/test_guards.py::test_state_that_cannot_be_ended_is_refused_untouched_and_its_remedy_works": (
        "producer/errors/topics.py:metadata_gone",
        "producer/kafka/topics.py:_partition_faults",
        "producer/kafka/control_topics.py:slot_progress",
    ),
    "tests/faults/refusals/test_guards.py::"
    "test_topic_of_all_tables_that_is_deleted_under_a_producer_stops_it_and_its_remedy_works": (
        "producer/errors/topics.py:topic_gone",
    ),
    "tests/faults/refusals/test_guards_job.py::test_state_is_refused_with_its_remedy_and_the_lake_is_as_it_was": (
        "spark_consumer/kafka/kafka_client.py:_refuse_missing_topics",
        "spark_consumer/kafka/decided_log.py:wait_visible",
    ),
    "tests/faults/refusals/test_guards_job.py::"
    "test_trouble_of_one_table_is_a_state_of_it_until_it_is_copied_and_others_go_on": (
        "spark_consumer/kafka/decided_log.py:_undecided_error",
    ),
    "tests/faults/publications/test_guards_publication.py::"
    "test_change_of_the_publication_under_a_running_producer_stops_it_where_settings_say_so": (
        "producer/errors/publications.py:generated_columns_changed",
    ),
    "tests/faults/refusals/test_guards_server.py::"
    "test_slot_that_was_not_waited_for_is_used_as_long_as_it_has_everything_and_then_refused": (
        "producer/guards/start.py:refuse_lost_slot",
    ),
    "tests/faults/refusals/test_refusals_postgres.py::"
    "test_database_whose_text_is_of_no_known_encoding_is_loaded_into_one_of_utf8": (
        "producer/errors/servers.py:not_utf8",
    ),
    "tests/faults/refusals/test_refusals_postgres.py::"
    "test_publication_that_is_missing_empty_dropped_or_renamed_is_refused": (
        "producer/errors/publications.py:publication_gone",
        "producer/errors/publications.py:publication_renamed",
        "producer/postgres/publications/new_publication.py:create_publication",
    ),
    "tests/faults/refusals/test_refusals_postgres.py::test_server_without_logical_wal_is_refused": (
        "producer/errors/servers.py:wal_level_too_low",
    ),
    "tests/faults/publications/test_other_publications.py::"
    "test_publication_that_has_other_columns_of_a_table_is_not_asked_for_and_the_remedy_helps": (
        "producer/guards/unfit/publication_faults.py:refuse_other_columns",
    ),
    "tests/faults/publications/test_several_publications.py::"
    "test_publications_that_do_not_go_together_are_refused_before_there_is_a_slot_and_the_remedy_helps": (
        "producer/guards/unfit/publication_faults.py:combination_faults",
        "producer/guards/unfit/publication_faults.py:unsent_operations",
    ),
    "tests/producer/guards/unfit/test_replica_identity.py::"
    "test_identity_whose_columns_may_hold_nulls_is_refused_until_they_are_validated": (
        "producer/guards/unfit/replica_identity.py:null_faults",
    ),
    "tests/faults/kills/test_split_transaction.py::test_half_published_transaction_that_reads_otherwise_is_refused": (
        "producer/errors/publications.py:split_differs",
    ),
    "tests/faults/copies/test_table_copied_again.py::"
    "test_table_that_was_left_for_a_value_is_followed_again_by_its_remedy": (
        "producer/errors/rows.py:values_not_sent",
    ),
    "tests/faults/refusals/test_takeover.py::"
    "test_second_producer_that_has_waited_ends_and_names_the_first_which_goes_on": (
        "producer/errors/servers.py:slot_has_producer",
    ),
    "tests/faults/kills/test_uncommitted_killed.py::"
    "test_spool_that_is_full_stops_the_producer_and_a_larger_one_loses_nothing": (
        "producer/errors/disks.py:spool_full",
    ),
    "tests/faults/copies/test_whole_copy.py::test_key_without_an_order_is_no_hindrance_where_old_rows_are_complete": (
        "producer/session/copies/start.py:_without_order",
    ),
    "tests/integration/test_chunks.py::"
    "test_key_that_postgres_does_not_read_is_told_and_the_copy_goes_on_once_it_is_corrected": (
        "producer/postgres/table_reads/key_order.py:set_bound",
    ),
    "tests/faults/publications/test_several_publications.py::"
    "test_list_of_all_columns_beside_no_list_is_told_before_a_column_is_added_and_its_remedy_helps": (
        "producer/guards/unfit/publication_faults.py:brittle_lists",
    ),
    "tests/integration/test_named_objects.py::test_columns_that_print_names_are_told_and_copied_again_after_a_rename": (
        "producer/errors/tables.py:names_not_followed",
    ),
    "tests/faults/refusals/test_guards_job.py::"
    "test_records_that_expired_before_they_were_applied_are_told_by_check_as_the_job_tells_them": (
        "walbridge/check/job/unread.py:_gone",
    ),
    "tests/spark_consumer/in_memory/test_table_trouble.py::"
    "test_readers_are_refused_a_table_of_which_a_commit_is_empty_until_it_is_copied": (
        "spark_consumer/delta/empty_commits.py:refuse_to_readers",
    ),
    "tests/spark_consumer/in_memory/test_table_trouble.py::"
    "test_job_whose_newest_row_was_lost_with_its_commit_stops_and_goes_on_once_that_is_deleted": (
        "spark_consumer/delta/manifest/damaged.py:damaged_manifest",
    ),
    "tests/spark_consumer/delta/manifest/test_writer.py::"
    "test_manifest_on_which_another_program_set_what_cannot_be_written_is_told_at_once": (
        "spark_consumer/delta/manifest/damaged.py:refuse_unwritable_manifest",
    ),
    "tests/spark_consumer/delta/manifest/test_manifest_reader.py::"
    "test_rows_that_another_program_wrote_are_told_with_the_commits_to_delete": (
        "spark_consumer/delta/manifest/foreign_commits.py:foreign_commit_error",
    ),
    "tests/spark_consumer/delta/manifest/test_writer.py::"
    "test_manifest_whose_files_are_lost_is_told_until_they_are_back": (
        "spark_consumer/delta/manifest/manifest_reader.py:_queried",
        "spark_consumer/delta/manifest/manifest_reader.py:_heads",
    ),
    "tests/spark_consumer/test_read.py::test_table_whose_log_cannot_be_listed_is_refused_until_it_is_there": (
        "spark_consumer/delta/empty_commits.py:_unlisted",
    ),
    "tests/spark_consumer/test_preflight.py::"
    "test_broker_that_wants_tls_is_told_before_spark_takes_its_answer_for_a_length": (
        "spark_consumer/preflight.py:_wants_tls",
    ),
    "tests/remedies/test_followed_lake.py::test_broker_is_started_or_its_address_corrected": (
        "spark_consumer/preflight.py:wait_for_broker",
        "spark_consumer/retry.py:keep_going",
    ),
    "tests/remedies/test_followed_lake.py::"
    "test_lake_whose_cuts_cannot_be_applied_goes_on_in_the_new_epoch_that_was_asked_for": (
        "spark_consumer/errors.py:cuts_made_anew",
        "spark_consumer/errors.py:cuts_unfit",
        "spark_consumer/resumption.py:_finished",
    ),
    "tests/remedies/test_followed_lake.py::test_job_that_is_waited_for_in_vain_is_stopped_and_this_one_started_again": (
        "spark_consumer/other_job.py:wait_for_other_job",
    ),
    "tests/remedies/test_followed_lake.py::test_lake_of_another_pipeline_is_left_for_an_own_path_or_an_own_name": (
        "schemas/errors.py:foreign_lake",
    ),
    "tests/remedies/test_followed_lake.py::"
    "test_lake_that_cannot_be_written_is_another_folder_and_one_that_cannot_be_seen_a_folder": (
        "schemas/setting_checks/lake_path.py:refuse_misread",
        "spark_consumer/delta/opening.py:_hidden",
        "spark_consumer/errors.py:unwritable_lake",
    ),
    "tests/remedies/test_followed_lake.py::test_lake_that_was_empty_at_the_start_is_the_one_that_held_tables": (
        "spark_consumer/errors.py:lake_may_lack_storage",
    ),
    "tests/remedies/test_followed_lake.py::test_lake_whose_storage_went_is_brought_back_and_the_job_started_again": (
        "spark_consumer/delta/manifest/writer.py:_refuse_missing_log",
    ),
    "tests/remedies/test_followed_lake.py::"
    "test_published_state_is_asked_for_at_a_later_lsn_or_as_the_examples_are_written": (
        "spark_consumer/delta/manifest/published.py:_no_moment",
        "spark_consumer/delta/manifest/published.py:published_at",
    ),
    "tests/remedies/test_followed_lake.py::"
    "test_record_that_the_heap_cannot_take_is_taken_with_the_memory_that_is_named": (
        "spark_consumer/kafka/driver_heap.py:too_large",
    ),
    "tests/remedies/test_followed_lake.py::test_second_job_that_was_stopped_lets_the_first_read_on_from_the_manifest": (
        "spark_consumer/delta/manifest/writer.py:_second_job",
        "spark_consumer/other_job.py:naming_other_job",
    ),
    "tests/remedies/test_followed_lake.py::"
    "test_session_that_does_not_know_delta_is_submitted_with_the_options_that_are_named": (
        "spark_consumer/jvm/spark_session.py:_submitted",
    ),
    "tests/remedies/test_followed_lake.py::"
    "test_topic_of_cuts_that_is_not_there_is_made_by_the_producer_that_is_started_first": (
        "spark_consumer/kafka/control/cuts_source.py:bounds",
    ),
    "tests/remedies/test_followed_lake.py::test_topics_that_were_restored_from_another_time_are_corrected": (
        "spark_consumer/errors.py:_of_another_time",
    ),
    "tests/remedies/test_followed_offline.py::"
    "test_dsn_of_another_server_database_or_timeline_is_pointed_at_the_right_one": (
        "producer/guards/start.py:refuse_other_cluster",
    ),
    "tests/remedies/test_followed_producer.py::test_command_whose_server_left_is_run_again": (
        "walbridge/__main__.py:_run",
    ),
    "tests/remedies/test_followed_producer.py::"
    "test_copy_is_asked_for_once_the_producer_of_this_version_has_made_the_first": (
        "walbridge/tables/copy.py:refuse_first_copy",
        "walbridge/tables/copy.py:refuse_without_requests",
    ),
    "tests/remedies/test_followed_producer.py::test_package_that_is_missing_comes_with_the_extra_that_is_named": (
        "walbridge/__main__.py:_not_installed",
    ),
    "tests/remedies/test_followed_producer.py::test_partitions_and_format_are_set_as_the_topics_have_them": (
        "producer/errors/topics.py:format_set",
        "producer/errors/topics.py:partitions_set",
    ),
    "tests/remedies/test_followed_producer.py::test_registry_is_the_one_that_the_pipeline_began_with": (
        "producer/registry/refusals.py:registry_id_differs",
        "producer/registry/refusals.py:registry_id_taken",
    ),
    "tests/remedies/test_followed_producer.py::test_rows_of_a_table_that_is_not_current_come_with_its_copy": (
        "walbridge/tables/keys.py:_refuse_other_than_current",
    ),
    "tests/remedies/test_followed_producer.py::"
    "test_table_of_tail_is_one_that_is_named_or_that_the_producer_has_begun_with": ("walbridge/tail.py:topic_of",),
    "tests/remedies/test_followed_producer.py::"
    "test_table_that_is_read_in_one_piece_is_copied_once_its_changes_find_room": (
        "producer/errors/disks.py:set_aside_full",
        "producer/errors/disks.py:set_aside_unwritable",
    ),
    "tests/spark_consumer/in_memory/test_copies_written_beside.py::"
    "test_a_copy_that_does_not_get_on_is_the_trouble_of_its_table": ("spark_consumer/between_plans.py:_after_stuck",),
    "tests/remedies/test_followed_producer.py::test_transactions_that_find_no_room_are_kept_in_another_folder": (
        "producer/errors/disks.py:spool_unwritable",
    ),
    "tests/remedies/test_followed_producer.py::"
    "test_type_without_a_known_binary_format_comes_as_text_once_binary_is_off_or_its_column_left_out": (
        "producer/encoding/binary/types.py:__missing__",
        "producer/encoding/binary/types.py:of_table",
    ),
    "tests/remedies/test_followed_tables.py::"
    "test_job_that_stops_for_a_table_goes_on_once_it_was_undone_or_the_setting_was_set": (
        "spark_consumer/plan_runner.py:refuse_troubles",
    ),
    "tests/remedies/test_followed_tables.py::"
    "test_table_that_readers_are_refused_is_current_again_once_it_is_copied_as_they_are_told": (
        "spark_consumer/apply/changes.py:_too_few",
        "spark_consumer/apply/changes.py:_unexpected",
        "spark_consumer/apply/existence.py:refuse_other_matches",
        "spark_consumer/apply/reshape.py:_refuse_rows",
        "spark_consumer/apply/unknown_values.py:refuse_missing",
        "spark_consumer/delta/table_features.py:unwritable",
        "spark_consumer/fold/kept_values.py:refuse_changed_values",
        "spark_consumer/fold/shape.py:_refuse_renamed",
        "spark_consumer/kafka/plan_reader.py:other_counts",
        "spark_consumer/kafka/decided_log.py:lost",
        "spark_consumer/plan/missing_schemas.py:_lacking",
        "spark_consumer/plan/plan.py:_table_plan",
        "spark_consumer/plan/plan.py:_table_plans",
        "spark_consumer/plan/plan.py:_without_replaced_relations",
    ),
    "tests/remedies/test_followed_troubles.py::"
    "test_table_in_any_trouble_is_current_again_once_it_is_copied_as_the_producer_says": (
        "producer/errors/publications.py:membership_changed",
        "producer/errors/tables.py:column_added_with_values",
        "producer/errors/tables.py:column_uncertain",
        "producer/errors/tables.py:expression_dropped",
        "producer/errors/tables.py:labels_changed",
        "producer/errors/tables.py:partitions_changed",
        "producer/errors/tables.py:table_rewritten",
        "producer/errors/topics.py:table_topic_remade",
        "producer/errors/topics.py:topic_grown",
    ),
    "tests/spark_consumer/in_memory/test_fed_tables_copied_again.py::"
    "test_a_copy_enters_once_another_program_commits_no_more": (
        "spark_consumer/apply/table_folder.py:written_by_others",
    ),
    "tests/spark_consumer/in_memory/test_table_trouble.py::"
    "test_table_that_another_program_harmed_is_stale_until_it_is_copied": (
        "spark_consumer/apply/apply.py:refuse_lost",
        "spark_consumer/errors.py:table_lost",
    ),
    "tests/spark_consumer/in_memory/test_unfit_records.py::"
    "test_table_with_a_record_that_cannot_be_taken_is_quarantined_and_others_go_on": (
        "spark_consumer/apply/apply.py:_refuse_unknown_schemas",
        "spark_consumer/apply/apply.py:_unknown",
        "spark_consumer/fold/schema_join.py:malformed_records",
    ),
    "tests/spark_consumer/jvm/test_surroundings.py::test_current_folder_that_is_gone_is_left_for_one_that_is_there": (
        "spark_consumer/jvm/surroundings.py:refuse_surroundings",
    ),
    "tests/spark_consumer/jvm/test_surroundings.py::test_spark_home_without_a_spark_is_refused_until_it_is_unset": (
        "spark_consumer/jvm/surroundings.py:_refuse_other_spark",
    ),
    "tests/spark_consumer/test_jvm_ends.py::test_jvm_that_ends_in_a_plan_or_at_rest_is_told_and_loses_nothing": (
        "spark_consumer/jvm/jvm_end.py:ended_jvm",
        "spark_consumer/jvm/spark_session.py:_started",
    ),
    "tests/walbridge/consumer/test_events.py::test_records_that_are_gone_before_they_were_read_stop_the_reader": (
        "walbridge/consumer/client.py:refusal",
    ),
    "tests/walbridge/consumer/test_events.py::"
    "test_topic_that_is_gone_is_told_and_a_reader_that_begins_anew_has_the_copy_in_the_new_one": (
        "walbridge/consumer/merged_ranges.py:_topic_deleted",
    ),
    "tests/walbridge/consumer/test_events.py::test_what_cannot_be_read_is_refused_in_words": (
        "walbridge/consumer/relations.py:__init__",
        "walbridge/consumer/wanted_tables.py:__init__",
    ),
    "tests/walbridge/runtime/test_streams.py::test_verb_whose_terminal_lacks_a_sign_says_what_mends_it": (
        "walbridge/runtime/streams.py:refused_print",
    ),
    "tests/walbridge/sql/test_sql.py::test_query_from_a_terminal_in_latin_1_is_told": (
        "walbridge/sql/verb.py:_refuse_undecodable",
    ),
    "tests/walbridge/sql/test_sql.py::test_column_that_was_not_read_fails_the_query_that_needs_it": (
        "walbridge/sql/lake_catalog.py:_classified",
    ),
    "tests/walbridge/sql/test_sql.py::test_table_that_is_not_current_is_refused_where_the_query_means_it": (
        "walbridge/sql/lake_catalog.py:_refusal",
    ),
    "tests/walbridge/sql/test_sql.py::test_tables_that_differ_in_case_are_told_apart_by_their_spelling": (
        "walbridge/sql/lake_catalog.py:_as_spelled",
    ),
    "tests/walbridge/tables/test_tables_verbs.py::test_request_waits_for_a_producer_that_does_not_run": (
        "walbridge/tables/read_tables.py:read_tables",
    ),
    "tests/walbridge/tables/test_tables_verbs.py::"
    "test_tables_are_copied_again_shown_and_forgotten_while_the_producer_runs": (
        "walbridge/tables/copy.py:chosen_table",
        "walbridge/tables/forget.py:_chosen",
    ),
    "tests/walbridge/test_drop.py::test_slot_that_is_in_use_or_not_ours_stays_until_the_remedy_was_followed": (
        "producer/postgres/slots/slot.py:drop",
        "walbridge/drop/left_behind.py:idle_slot",
        "walbridge/drop/left_behind.py:refuse_others",
    ),
    "tests/walbridge/runtime/test_machine_limits.py::"
    "test_verb_that_may_open_too_few_files_runs_once_the_limit_is_raised": (
        "walbridge/runtime/machine_limits.py:refused_by_machine",
    ),
    "tests/walbridge/test_tail.py::test_logical_messages_are_shown_by_prefix_and_content": (
        "walbridge/tail.py:_events",
    ),
    "tests/walbridge/verify/test_verify_refusals.py::test_a_lake_table_whose_files_are_gone_is_the_operators": (
        "walbridge/verify/lake.py:_unreadable",
    ),
    "tests/walbridge/verify/test_verify_refusals.py::test_a_lake_that_lags_is_not_compared": (
        "walbridge/verify/rounds.py:_no_cut",
    ),
    "tests/walbridge/verify/test_verify_refusals.py::test_a_server_that_is_not_the_sources_is_named_in_the_dsn": (
        "walbridge/verify/source_connection.py:_connect",
    ),
    "tests/walbridge/verify/test_verify_refusals.py::test_a_server_that_went_while_it_was_read_is_asked_again": (
        "walbridge/verify/source_connection.py:connected",
    ),
    "tests/walbridge/verify/test_verify_refusals.py::test_a_table_that_the_lake_lacks_is_the_operators": (
        "walbridge/verify/rounds.py:_new_comparison",
    ),
    "tests/walbridge/verify/test_verify_refusals.py::test_an_unpublished_table_is_the_operators": (
        "walbridge/verify/rounds.py:chosen_names",
    ),
}
MORE_FOLLOWED = {place: test for test, places in BY_TEST.items() for place in places}
