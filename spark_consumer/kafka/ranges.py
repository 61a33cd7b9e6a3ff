"""Where records stand: the words that all who read Kafka share."""

Place = tuple[str, int]
"""Topic and partition."""
Range = tuple[int, int]
"""Start and end offset, the end excluded."""
