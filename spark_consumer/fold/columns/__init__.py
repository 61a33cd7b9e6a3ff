"""Many records, decoded column by column on the driver."""
