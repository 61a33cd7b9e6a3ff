"""Many records, fetched by the driver without Spark."""
