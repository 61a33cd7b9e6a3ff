"""The open batch: filled, closed with a cut and progress, committed to Kafka, then confirmed."""
