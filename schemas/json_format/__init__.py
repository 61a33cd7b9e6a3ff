"""Events as JSON, for topics whose format is ``json``: as Debezium's JSON converter writes them without schemas."""
