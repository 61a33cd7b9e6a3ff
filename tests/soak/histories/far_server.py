"""A Postgres whose counters are far along: xids that soon begin anew, oids beyond 2^31, LSNs beyond 2^40."""

from __future__ import annotations

import os
import subprocess

from walbridge.embedded.postgres import ENVIRON, PostgresServer

XIDS_LEFT = 250
"""Of the fourth epoch."""
_XID, _EPOCH, _OID, _WAL = 2**32 - XIDS_LEFT, 3, 4_294_900_000, "00000001000001FF000000F0"
_OLDEST_XID = _XID - 1000
"""Or the server takes those of its first epoch for the future's."""
_XIDS_OF_SEGMENT, _SEGMENT_BYTES = 2**20, 2**18


class FarServer(PostgresServer):
    """As of the embedded version."""

    def _init_data(self) -> None:
        super()._init_data()
        for name in ("template0", "template1", "postgres"):
            self._run("postgres", "--single", "-D", str(self.data), name, said=b"VACUUM FREEZE\n")
        status = self.data / "pg_xact" / f"{_XID // _XIDS_OF_SEGMENT:04X}"
        status.write_bytes(bytes(_SEGMENT_BYTES))
        os.chown(status, self._run_as.uid, self._run_as.gid)
        counters = {"-x": _XID, "-u": _OLDEST_XID, "-e": _EPOCH, "-o": _OID, "-l": _WAL}
        options = [str(part) for counter in counters.items() for part in counter]
        self._run("pg_resetwal", "-f", "-D", str(self.data), *options)

    def _run(self, program: str, *arguments: str, said: bytes = b"") -> None:
        is_root = os.getuid() == 0
        done = subprocess.run(
            [str(self.bin(program)), *arguments],
            input=said,
            capture_output=True,
            env=ENVIRON,
            cwd="/",
            timeout=60,
            check=False,
            user=self._run_as.uid if is_root else None,
            group=self._run_as.gid if is_root else None,
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
