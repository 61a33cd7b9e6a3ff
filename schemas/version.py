"""The version, here alone: the package, its images and every event's ``source.version`` take it from here."""

VERSION = "0.1.0"
