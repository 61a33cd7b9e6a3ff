"""``walbridge tables``, ``copy`` and ``forget``: single tables of a pipeline."""
