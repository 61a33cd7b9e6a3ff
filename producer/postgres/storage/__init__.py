"""What the catalogue says of where and how rows are stored."""
