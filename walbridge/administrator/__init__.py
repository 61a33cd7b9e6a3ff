"""``walbridge init --admin-dsn``: role, rights and publication, made by an administrator's connection.

In: settings, an administrator's connection string. Out: the publication, the role of ``[postgres] dsn`` and its
rights, in one transaction, so all of it or nothing; and lines that say what was missing. A second run finds nothing
missing. The administrator need be no superuser: who owns the tables and may make roles with REPLICATION is enough, and
on Amazon RDS, where that attribute is a membership, who may grant ``rds_replication``.

The role's password is that of ``password_file``, which is written where it is missing, or the one in the dsn. It goes
to the server as a SCRAM verifier, so that no log of statements has it. No password is taken from an argument, which
every user of the machine sees, and none is ever printed (I10).
"""

from walbridge.administrator.preparation import prepare, remove_ddl_trigger

__all__ = ["prepare", "remove_ddl_trigger"]
