"""The hook that the JVM runs when it is told to stop, run here in a thread of the JVM."""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession

from walbridge.spark_consumer.jvm.jvm_shutdown import stopping_with_jvm

ANSWER_S = 60


def test_end_of_the_jvm_asks_the_job_to_stop_and_waits_until_it_has(spark: SparkSession) -> None:
    stop = threading.Event()
    with stopping_with_jvm(spark, stop) as hook:
        hook.start()
        assert stop.wait(ANSWER_S)
        assert hook.isAlive(), "it did not wait for the job"
    hook.join(ANSWER_S * 1000)
    assert not hook.isAlive()


def test_job_that_is_done_leaves_no_hook_behind(spark: SparkSession) -> None:
    assert spark._jvm is not None
    hooks = spark._jvm.org.apache.hadoop.util.ShutdownHookManager.get()
    with stopping_with_jvm(spark, threading.Event()) as hook:
        assert hooks.hasShutdownHook(hook)
    assert not hooks.hasShutdownHook(hook)
