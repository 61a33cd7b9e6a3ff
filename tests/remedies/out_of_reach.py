"""Places that name a remedy and to which only a bug, a race or another writer leads, each with the reason.

No test can bring a pipeline there and mend it as an operator would. A place that is only hard to reach does not
belong here.
"""

OUT_OF_REACH: dict[str, str] = {
    "producer/errors/rows.py:key_not_sent": (
        "A server before 12.11, 13.7 or 14.3 leaves the value out; those that tests have do not."
    ),
    "producer/errors/rows.py:old_row_not_sent": (
        "A partition's identity is altered between two looks at it; the look tells the same (identity_faults)."
    ),
    "producer/errors/servers.py:another_runs": (
        "The slot's lock keeps two producers apart (slot_has_producer); one that lost it is fenced within a race."
    ),
    "producer/errors/tables.py:dropped_meanwhile": (
        "A table is dropped between the look at its publication and the look at it."
    ),
    "producer/errors/rows.py:record_too_large": (
        "A record whose relation the publisher does not know: a bug (row_too_large tells all others)."
    ),
    "producer/errors/topics.py:topic_given_up": (
        "Said in the place of what was told of the topic before, until the table is copied."
    ),
    "producer/errors/rows.py:unfit_row": (
        "Postgres sends bytes that are no value of their type as we know it: a bug, to be reported."
    ),
    "producer/follow.py:follow_once": (
        "Never printed: the pipeline takes it for the order to begin the epoch that was asked for."
    ),
    "producer/postgres/replication_stream.py:start": (
        "The server answers START_REPLICATION with neither a stream nor an error."
    ),
    "producer/relations/relation_cache.py:remember": (
        "Two pipelines of one name write in a race; else the second is refused (control_topics.py:_taken)."
    ),
    "producer/relations/session_writers.py:_unknown": (
        "A change comes of a table that neither stream nor publication told of: a bug of ours or of the server."
    ),
    "producer/session/logical_messages.py:publish_outside": (
        "A message was left out though the options of its session say otherwise: a bug (see refuse_unfit_start)."
    ),
    "producer/session/transactions/pending_transactions.py:_refuse_lost_changes": (
        "Somebody reads the slot past a prepare while the producer is stopped, and the slot stands where it was."
    ),
    "schemas/errors.py:unreadable_record": "What mends it is a version of walbridge that does not exist yet.",
    "spark_consumer/delta/manifest/manifest_reader.py:open_table": (
        "What mends it is a version of walbridge that does not exist yet."
    ),
    "spark_consumer/fold/key_changes.py:_links": (
        "The producer writes both halves of a key change in one Kafka transaction: a bug, or another writer."
    ),
    "walbridge/consumer/merged_ranges.py:_accept": (
        "Cuts name other records than their topic holds: a bug, or another writer."
    ),
    "walbridge/consumer/single_events.py:decoded": "The topic holds what walbridge did not write: another writer.",
    "walbridge/consumer/transaction_stream.py:_broken": "Cuts do not follow each other: a bug, or another writer.",
    "walbridge/readable_event.py:decode": "The topic holds what walbridge did not write: another writer.",
    "walbridge/tables/keys.py:_published": "The table is altered between two looks of one command.",
}
