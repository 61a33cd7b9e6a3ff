"""What Spark's executors commit to tables of the lake."""
