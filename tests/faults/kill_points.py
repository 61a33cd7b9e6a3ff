"""Every kill point of the programs, in the order in which a test dies at them.

Each list is a chain: the start that recovers from one death runs on into the next, so that n
points cost n + 1 starts. ``test_kill_points.py`` holds the lists against the sources.
"""

COPY = (
    "copy:before-creating",
    "copy:creating",
    "copy:slot-created",
    "copy:slot-dropped",
    "copy:copying",
    "copy:rows",
    "copy:rows:2",
    "copy:table:2",
    "copy:before-streaming",
)
"""Deaths before which no copy is whole: the next start begins again."""
COPY_DONE = "copy:streaming"
COPY_WORKER = ("copy-worker:rows", "copy-worker:rows:3")
"""Deaths of each worker process of a copy, which goes on without."""
CHUNK_WORKER = "copy-worker:range:3"
"""The same of those that read beside the stream."""

STREAM = (
    "metadata:before-write",
    "metadata:acknowledged",
    "produce:begun",
    "produce:before-commit",
    "produce:rows-acknowledged",
    "produce:control-records",
    "produce:committed",
    "produce:before-confirm",
    "produce:confirmed",
    "produce:split",
    "produce:split:2",
    "produce:committed:3",
)

REGISTRY = (
    "registry:before-register",
    "registry:registered",
    "metadata:before-write",
    "metadata:acknowledged",
    "produce:before-commit",
)
"""Deaths around a schema that is new to the registry and the metadata topic."""

SPOOL = ("spool:block-ended:3", "spool:replaying", "produce:split:2")
"""Deaths of a producer whose transactions come in blocks."""
SPOOL_PREPARED = ("spool:prepared", "spool:prepared:2")

BESIDE = (
    "chunk:before-begin",
    "chunk:begun",
    "chunk:read",
    "chunk:rows",
    "chunk:entered",
    "chunk:rows:3",
    "chunk:entered:2",
    "chunk:before-end",
    "chunk:ended",
)
"""Deaths of a copy beside the stream: the next start goes on behind the last chunk that is committed."""

KEYS = ("chunk:read", "chunk:rows", "chunk:entered")
"""Deaths around rows of listed keys: before the last the next start reads them."""

WHOLE = (
    "chunk:before-begin",
    "chunk:begun",
    "whole:rows",
    "whole:rows-entered",
    "whole:rows-entered:3",
    "whole:changes",
    "whole:changes-entered",
    "chunk:before-end",
    "chunk:ended",
)
"""Deaths of a copy in one piece: the next start begins it anew, but after the last."""

FIRST = ("first:before-creating", "first:creating")
"""Deaths before the first epoch begins, where all tables are copied beside the stream; those of ``AGAIN`` follow."""

AGAIN = (
    "again:before-creating",
    "again:creating",
    "again:slot-dropped",
    "again:slot-created",
    "again:before-streaming",
)
"""Deaths before a new epoch has begun in the same topics: the next start begins it anew."""
AGAIN_DONE = "again:streaming"

JOB = (
    "job:before-plan",
    "job:plan-open",
    "apply:before-create",
    "apply:table-created",
    "apply:table-reshaped",
    "apply:segment-applied",
    "job:table-applied",
    "job:before-publish",
    "job:published",
)
"""Up to the last, deaths in one and the same plan."""
BY_EXECUTORS = ("apply:table-emptied", "apply:segment-applied")
"""Deaths around the commit of executors."""
WRITTEN_BESIDE = ("build:written", "build:before-named", "build:named")
"""Deaths around a copy that is written beside the plans: before the last of them the next start writes it again."""
ENTERS = ("build:written", "build:moved", "build:emptied", "build:entered", "build:before-named", "build:named")
"""The same of a table that is fed meanwhile, whose copy has to get into its folder."""
JOB_NEW_TABLE = ("apply:before-create", "apply:table-created")
JOB_PROCESS = ("job:plan-open", "apply:segment-applied", "job:before-publish", "job:published")
"""Where the whole process dies: a start of its JVM takes longer than all else."""
