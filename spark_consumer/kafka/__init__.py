"""What is read from Kafka: cuts, metadata, and exactly the records of a plan."""
