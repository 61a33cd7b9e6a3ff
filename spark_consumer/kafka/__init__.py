"""What is read from Kafka: exactly the records of a plan, and in ``control`` what says what they are."""
