"""Which test does what each remedy says, to the letter, and finds that it is mended.

``FOLLOWED`` names it for a place of ``sites.py``, and so does ``more_followed.py``; ``out_of_reach.py`` has those that
no test can follow. ``NOT_FOLLOWED_YET`` are the others: of them a test holds the words at most. A place that is new has
to come with a test that follows it; that list only gets shorter.
"""

GUARDS = (
    "tests/faults/refusals/test_guards.py::test_state_that_cannot_be_ended_is_refused_untouched_and_its_remedy_works"
)
SQL = "tests/walbridge/check/test_postgres_states.py::test_publication_and_tables_are_mended_by_the_sql_of_the_finding"
LOCKED = "tests/end_to_end/security/test_rights_of_the_producer.py::"
LOCKED_KAFKA = LOCKED + "test_each_right_that_is_missing_in_kafka_is_named_and_granting_it_mends_the_start"
LOCKED_POSTGRES = LOCKED + "test_each_right_that_is_missing_in_postgres_is_named_and_init_grants_it_again"
NOT_TRUSTED = (
    "tests/end_to_end/security/test_trust.py::"
    "test_who_is_not_trusted_or_not_let_in_is_named_with_the_setting_that_mends_it"
)
OFFLINE = "tests/remedies/test_followed_offline.py::"
ADMINISTRATOR = "tests/walbridge/test_administrator.py::"
UNDECODABLE = (
    "tests/faults/copies/test_copy_all.py::"
    "test_change_that_postgres_cannot_decode_is_left_behind_by_a_copy_of_all_tables"
)
RENAMED = "tests/end_to_end/test_pipeline_renamed.py::test_pipeline_goes_on_in_its_lake_under_a_new_name"
RING = "tests/faults/publications/test_foreign_rows.py::test_servers_that_replicate_to_each_other_have_a_pipeline_each"
COMPACTED = (
    "tests/integration/test_compacted_topics.py::"
    "test_table_that_cannot_be_compacted_is_refused_until_its_remedy_is_followed"
)
UI = "tests/walbridge/ui/test_ui.py::test_each_refusal_is_mended_by_its_remedy"

FOLLOWED: dict[str, str] = {
    "producer/errors/compaction.py:cleanup_set": COMPACTED,
    "producer/errors/compaction.py:compacted_without_key": COMPACTED,
    "producer/errors/compaction.py:compacted_without_values": COMPACTED,
    "producer/errors/tables.py:names_alike": (
        "tests/producer/relations/test_table_names.py::test_tables_that_every_message_would_call_the_same_are_refused"
    ),
    "producer/errors/tables.py:found_unequal": (
        "tests/faults/tables/test_table_in_doubt.py::"
        "test_producer_that_stops_for_a_table_that_differs_goes_on_once_its_remedy_was_followed"
    ),
    "producer/errors/origins.py:foreign_rows_copied": (
        "tests/faults/publications/test_foreign_rows.py::"
        "test_table_that_a_subscription_writes_to_is_copied_once_the_settings_say_so"
    ),
    "producer/errors/origins.py:foreign_rows_held": RING,
    "producer/errors/origins.py:foreign_rows_left_out": RING,
    "producer/guards/unfit/publication_faults.py:archive_faults": (
        "tests/end_to_end/test_archives.py::test_operations_that_no_archive_can_be_made_of_are_refused"
    ),
    "producer/guards/start.py:_refuse_other_database": OFFLINE
    + "test_dsn_of_another_server_database_or_timeline_is_pointed_at_the_right_one",
    "producer/guards/start.py:_refuse_other_history": OFFLINE
    + "test_dsn_of_another_server_database_or_timeline_is_pointed_at_the_right_one",
    "producer/guards/start.py:_refuse_other_two_phase": OFFLINE + "test_two_phase_is_set_as_the_slot_has_it",
    "producer/guards/start.py:refuse_unfit_start": OFFLINE
    + "test_option_that_changed_inside_a_half_published_transaction_is_changed_back",
    "producer/pgoutput/options.py:start_options": OFFLINE + "test_server_that_is_too_old_is_upgraded",
    "producer/start.py:former_progress": RENAMED,
    "producer/postgres/requirements.py:stream_options": OFFLINE
    + "test_slot_that_no_standby_of_this_version_keeps_is_not_asked_for",
    "producer/postgres/requirements.py:_streaming": OFFLINE
    + "test_streaming_and_messages_exclude_each_other_until_one_is_set_as_told",
    "producer/registry/client.py:_tls": OFFLINE + "test_files_of_tls_to_a_registry_are_named_as_pem_files",
    "producer/registry/refusals.py:no_registry": OFFLINE
    + "test_address_of_a_registry_is_set_and_is_that_of_confluents_api",
    "producer/registry/refusals.py:registry_denies": OFFLINE + "test_user_of_a_registry_is_corrected",
    "producer/registry/refusals.py:registry_not_set": OFFLINE
    + "test_address_of_a_registry_is_set_and_is_that_of_confluents_api",
    "producer/registry/refusals.py:registry_refuses": OFFLINE
    + "test_address_of_a_registry_is_set_and_is_that_of_confluents_api",
    "spark_consumer/jvm/spark_session.py:connector_jars": OFFLINE
    + "test_jars_are_found_in_the_folder_that_is_set_and_read_once_their_permissions_are_mended",
    "spark_consumer/plan/readable_tables.py:_in_trouble": OFFLINE
    + "test_table_that_is_not_current_is_accepted_as_told_or_left_out",
    "spark_consumer/plan/readable_tables.py:_refuse_other_states": OFFLINE
    + "test_table_that_is_not_current_is_accepted_as_told_or_left_out",
    "spark_consumer/plan/readable_tables.py:readable_tables": OFFLINE
    + "test_table_that_the_lake_lacks_is_replaced_by_one_that_it_has",
    "spark_consumer/preflight.py:refuse_unfit_java": OFFLINE + "test_java_that_is_missing_or_too_old_is_installed",
    "spark_consumer/preflight.py:refuse_unreadable_jars": OFFLINE
    + "test_jars_are_found_in_the_folder_that_is_set_and_read_once_their_permissions_are_mended",
    "walbridge/consumer/client.py:reader": OFFLINE
    + "test_property_of_a_reader_that_is_walbridges_is_left_out_and_one_that_is_wrong_mended",
    "walbridge/lake/table.py:select": OFFLINE
    + "test_column_is_chosen_among_those_that_the_table_has_and_files_that_are_back_are_read",
    "walbridge/lake/table.py:unreadable_error": OFFLINE
    + "test_column_is_chosen_among_those_that_the_table_has_and_files_that_are_back_are_read",
    "walbridge/role.py:_whole": OFFLINE + "test_tables_and_database_of_the_printed_sql_are_named_in_the_settings",
    "walbridge/role.py:administrator_sql": OFFLINE
    + "test_tables_and_database_of_the_printed_sql_are_named_in_the_settings",
    "walbridge/tables/keys.py:_lines": OFFLINE + "test_file_of_keys_is_named_encoded_and_written_as_told",
    "walbridge/tables/known.py:single_table": OFFLINE
    + "test_table_that_several_schemas_have_is_named_with_its_schema_and_an_unknown_one_by_a_name_that_is_known",
    "walbridge/tables/known.py:unknown_table": OFFLINE
    + "test_table_that_several_schemas_have_is_named_with_its_schema_and_an_unknown_one_by_a_name_that_is_known",
    "walbridge/tail.py:parse_position": OFFLINE + "test_position_is_given_as_tail_prints_it",
    "producer/errors/topics.py:may_not_write": LOCKED_KAFKA,
    "producer/kafka/instance.py:_refuse_definite": LOCKED_KAFKA,
    "producer/kafka/partition_log.py:_unreadable": LOCKED_KAFKA,
    "producer/kafka/topic_descriptions.py:not_described": LOCKED_KAFKA,
    "producer/postgres/server_errors.py:by_text": NOT_TRUSTED,
    "producer/postgres/server_errors.py:by_sqlstate": LOCKED_POSTGRES,
    "producer/postgres/connection.py:retry_at_start": NOT_TRUSTED,
    "producer/registry/refusals.py:registry_not_trusted": NOT_TRUSTED,
    "producer/errors/tables.py:key_altered": (
        "tests/end_to_end/test_key_altered.py::"
        "test_row_keeps_its_key_while_its_columns_are_altered_and_another_key_gets_another_topic"
    ),
    "producer/errors/tables.py:key_lost": (
        "tests/faults/tables/test_unfit_rows.py::"
        "test_table_that_loses_its_key_over_several_partitions_is_copied_into_a_topic_of_one"
    ),
    "producer/errors/tables.py:key_replaced": (
        "tests/faults/tables/test_unfit_rows.py::"
        "test_table_whose_key_was_replaced_unread_over_several_partitions_is_copied_again"
    ),
    "producer/errors/tables.py:key_made_again": (
        "tests/faults/tables/test_unfit_rows.py::"
        "test_table_whose_key_was_replaced_unread_over_several_partitions_is_copied_again"
    ),
    "producer/errors/publications.py:published_under_other_name": (
        "tests/faults/tables/test_unsaid_rows.py::test_tables_are_copied_anew_when_the_publication_names_them_otherwise"
    ),
    "producer/errors/publications.py:not_published": SQL,
    "producer/errors/publications.py:operations_missing": SQL,
    "producer/errors/tables.py:partition_not_sent": (
        "tests/faults/tables/test_unsaid_rows.py::test_root_is_not_current_while_a_partition_of_it_is_never_sent"
    ),
    "producer/errors/publications.py:publication_altered": (
        "tests/faults/publications/test_guards_publication.py::"
        "test_publication_that_was_altered_and_altered_back_has_its_tables_copied_again"
    ),
    "producer/errors/publications.py:publication_missing": SQL,
    "producer/errors/publications.py:publication_remade": GUARDS,
    "producer/errors/publications.py:row_filter_loses_values": SQL,
    "producer/errors/rows.py:row_too_large": (
        "tests/faults/refusals/test_refusals_tables.py::"
        "test_row_larger_than_allowed_is_refused_and_named_by_table_key_columns_and_place"
    ),
    "producer/errors/topics.py:table_topic_gone": (
        "tests/faults/tables/test_topic_lost.py::test_producer_stops_for_the_topic_of_one_table_where_settings_say_so"
    ),
    "producer/errors/topics.py:table_topic_cut_short": (
        "tests/faults/tables/test_topic_lost.py::"
        "test_topic_of_which_a_broker_lost_what_it_had_acknowledged_is_another_one_after_the_start"
    ),
    "producer/errors/topics.py:topic_remade": GUARDS,
    "producer/follow.py:read_own_progress": (
        "tests/faults/refusals/test_guards.py::"
        "test_progress_that_was_emptied_under_a_producer_is_mended_as_its_refusal_says"
    ),
    "producer/guards/unfit/partitions.py:identity_faults": SQL,
    "producer/guards/unfit/partitions.py:unsent_faults": (
        "tests/faults/tables/test_unsaid_rows.py::test_root_is_not_current_while_a_partition_of_it_is_never_sent"
    ),
    "producer/guards/unfit/publication_faults.py:shared_tree_fault": (
        "tests/integration/test_publication_state.py::"
        "test_tree_of_several_publications_is_refused_where_their_order_would_decide_under_which_name_it_comes"
    ),
    "producer/guards/same_past.py:refuse_other_past": (
        "tests/faults/copies/test_copy_all.py::"
        "test_server_that_was_restored_and_has_outgrown_what_was_published_is_refused_and_followed_anew"
    ),
    "producer/guards/start.py:_refuse_bad_slot": GUARDS,
    "producer/guards/start.py:_refuse_gap": GUARDS,
    "producer/guards/start.py:_refuse_other_server": (
        "tests/faults/copies/test_copy_all.py::test_older_backup_is_followed_in_a_new_epoch_whatever_its_lsns_are"
    ),
    "producer/guards/start.py:_refuse_slot_of_others": GUARDS,
    "producer/guards/start.py:refuse_foreign_slot": (
        "tests/faults/refusals/test_refusals_postgres.py::test_slot_without_progress_of_ours_is_refused"
    ),
    "producer/kafka/topic_settings.py:_faults": (
        "tests/walbridge/check/test_pipeline_states.py::"
        "test_healthy_pipeline_has_no_errors_and_a_topic_that_was_changed_is_put_back_by_the_command"
    ),
    "producer/kafka/topic_settings.py:ensure": GUARDS,
    "producer/kafka/topics.py:_create": (
        "tests/faults/refusals/test_collisions.py::"
        "test_topic_that_kafka_takes_for_another_pipelines_is_refused_with_its_way_out"
    ),
    "producer/kafka/client_config.py:client_config": (
        "tests/remedies/test_followed_settings.py::"
        "test_property_that_is_walbridges_is_left_out_and_one_that_is_wrong_mended"
    ),
    "producer/kafka/client_config.py:refusing_properties": (
        "tests/remedies/test_followed_settings.py::"
        "test_property_that_is_walbridges_is_left_out_and_one_that_is_wrong_mended"
    ),
    "producer/pgoutput/options.py:_too_old": (
        "tests/remedies/test_followed_settings.py::test_options_that_a_server_lacks_are_set_as_the_remedies_say"
    ),
    "producer/postgres/server_errors.py:raise_for_result": UNDECODABLE,
    "producer/registry/refusals.py:schema_incompatible": (
        "tests/integration/test_confluent.py::"
        "test_schema_that_the_registrys_rule_forbids_is_its_tables_trouble_until_the_command_that_allows_it"
    ),
    "producer/session/copies/state/requested_tables.py:take": UNDECODABLE,
    "producer/postgres/table_reads/snapshot.py:_unreadable": (
        "tests/faults/refusals/test_refusals_postgres.py::test_role_without_rights_is_told_which"
    ),
    "schemas/dsn.py:unreadable_dsn": (
        "tests/remedies/test_followed_settings.py::test_password_with_blanks_or_signs_is_quoted_or_encoded"
    ),
    "schemas/settings_file.py:_operator_error": (
        "tests/remedies/test_followed_settings.py::test_setting_that_is_refused_is_mended_in_the_file"
    ),
    "schemas/settings_file.py:secret_in": (
        "tests/remedies/test_followed_settings.py::test_secret_is_written_into_its_file"
    ),
    "schemas/settings_file.py:dsn_of": (
        "tests/remedies/test_followed_settings.py::test_database_is_named_as_the_remedy_writes_it"
    ),
    "schemas/settings_file.py:load_settings": (
        "tests/remedies/test_followed_settings.py::test_settings_file_that_is_not_there_is_named_with_config"
    ),
    "schemas/settings_file.py:_values": (
        "tests/remedies/test_followed_settings.py::test_settings_file_that_is_not_there_is_named_with_config"
    ),
    "schemas/settings_file.py:refuse_unknown_variables": (
        "tests/remedies/test_followed_settings.py::test_variable_that_is_not_known_is_unset"
    ),
    "schemas/table_names.py:split_name": (
        "tests/remedies/test_followed_settings.py::test_name_of_a_table_is_quoted_as_the_remedy_shows"
    ),
    "schemas/topics.py:data_topic": (
        "tests/remedies/test_followed_settings.py::test_table_whose_topic_has_no_name_is_given_one"
    ),
    "schemas/topics.py:refuse_topic_collisions": (
        "tests/remedies/test_followed_settings.py::test_two_tables_of_one_topic_are_told_apart_by_an_entry"
    ),
    "spark_consumer/errors.py:not_shared": (
        "tests/end_to_end/test_on_a_cluster.py::"
        "test_executors_with_a_disk_of_their_own_publish_nothing_until_the_lake_is_mounted"
    ),
    "spark_consumer/errors.py:classified_error": (
        "tests/spark_consumer/test_lake_full.py::"
        "test_full_disk_is_told_with_a_remedy_and_plans_go_on_when_there_is_room"
    ),
    "schemas/properties.py:server_address": (
        "tests/remedies/test_followed_settings.py::test_server_without_a_port_is_written_with_one"
    ),
    "walbridge/ddl_trigger.py:refuse_other_subscribers": "tests/walbridge/test_ddl_trigger.py::"
    "test_publication_of_all_tables_that_others_may_read_is_named_until_the_remedy_was_followed",
    "walbridge/administrator/connection.py:_connected": ADMINISTRATOR
    + "test_administrators_connection_that_fails_is_corrected_in_the_option",
    "walbridge/administrator/connection.py:administrators_dsn": ADMINISTRATOR
    + "test_password_among_the_arguments_is_refused_unread",
    "walbridge/administrator/made_role.py:_kept_password": ADMINISTRATOR
    + "test_password_file_that_holds_no_password_is_refused_until_it_does",
    "walbridge/administrator/connection.py:_refuse_other_database": ADMINISTRATOR
    + "test_other_database_than_the_pipelines_is_refused",
    "walbridge/administrator/connection.py:_refused": ADMINISTRATOR + "test_who_may_make_no_role_is_told_who_may",
    "walbridge/administrator/made_role.py:role_of": ADMINISTRATOR + "test_role_is_named_in_the_dsn",
    "walbridge/administrator/granted_rights.py:_ungranted": ADMINISTRATOR
    + "test_who_may_not_grant_changes_nothing_until_the_remedy_is_followed",
    "walbridge/administrator/made_role.py:_write_secret": ADMINISTRATOR
    + "test_file_that_cannot_be_written_leaves_the_database_as_it_was",
    "walbridge/check/source/session.py:session_findings": UNDECODABLE,
    "walbridge/consumer/client.py:topic_deleted": (
        "tests/walbridge/consumer/test_events.py::"
        "test_topic_that_is_deleted_stops_who_has_not_read_it_to_its_end_and_nobody_else"
    ),
    "walbridge/consumer/client.py:refuse_forgotten": (
        "tests/walbridge/consumer/test_events.py::test_kept_offsets_of_a_topic_that_was_made_again_are_refused"
    ),
    "walbridge/consumer/cut_reader.py:_deleted": (
        "tests/walbridge/consumer/test_events.py::test_kept_offsets_of_a_topic_that_was_made_again_are_refused"
    ),
    "walbridge/consumer/client.py:refuse_remade": (
        "tests/walbridge/consumer/test_events.py::test_kept_offsets_of_a_topic_that_was_made_again_are_refused"
    ),
    "walbridge/drop/verb.py:_agreed": (
        "tests/walbridge/test_drop.py::test_without_a_person_to_ask_nothing_is_removed_until_it_is_told_yes"
    ),
    "walbridge/runtime/heap.py:spark_share": (
        "tests/remedies/test_followed_settings.py::test_share_of_memory_is_written_as_the_remedy_writes_it"
    ),
    "walbridge/runtime/monitoring/http_endpoint.py:__init__": (
        "tests/remedies/test_followed_settings.py::test_port_that_is_taken_is_set_to_0"
    ),
    "walbridge/sql/lake_catalog.py:_refuse_columns": (
        "tests/walbridge/sql/test_sql.py::"
        "test_table_with_columns_that_duckdb_takes_for_one_is_refused_and_never_answers_with_the_other_one"
    ),
    "walbridge/sql/lake_catalog.py:_refuse_schema": (
        "tests/walbridge/sql/test_sql.py::"
        "test_table_of_a_schema_that_duckdb_has_itself_is_refused_and_never_taken_for_another"
    ),
    "walbridge/ui/kept_points.py:__init__": UI,
    "walbridge/ui/server.py:__init__": UI,
    "walbridge/ui/verb.py:_refuse_same_names": UI,
    "walbridge/ui/verb.py:read_token": UI,
    "walbridge/ui/verb.py:serve": UI,
    "walbridge/verify/source_connection.py:blaming_table": (
        "tests/walbridge/verify/test_verify_refusals.py::test_a_role_that_may_not_read_is_the_operators"
    ),
}

NOT_FOLLOWED_YET: frozenset[str] = frozenset()
