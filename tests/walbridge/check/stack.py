"""A pipeline on the shared servers, looked at by ``walbridge check``, and SQL run as a person pastes it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from psycopg import sql

from tests.fix_postgres import Database
from walbridge.check.finding import Finding, Severity
from walbridge.check.programs import AREA as PROGRAMS
from walbridge.check.verb import all_findings
from walbridge.embedded.kafka import KafkaBroker
from walbridge.schemas.settings import Settings

_STATEMENT = re.compile(r"\b(?:ALTER|CREATE|DROP|GRANT|SELECT)\b[^;]*;")


@dataclass
class Stack:
    """``sections`` are settings beside those of the shared servers; ``role`` is who connects."""

    database: Database
    kafka: KafkaBroker
    name: str
    folder: Path
    role: str = "postgres"
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        role = self.role.replace("\\", "\\\\").replace("'", "\\'")
        sections: dict[str, dict[str, Any]] = {
            "postgres": {"dsn": f"{self.database.dsn} user='{role}'", "slot": self.name},
            "kafka": {"bootstrap_servers": self.kafka.bootstrap_servers},
            "lake": {"path": str(self.folder / "lake")},
        }
        merged = {name: values | self.sections.get(name, {}) for name, values in sections.items()}
        return Settings.model_validate({**self.sections, **merged, "name": self.name})

    @property
    def quoted_role(self) -> str:
        return sql.Identifier(self.role).as_string(None)

    def findings(self) -> list[Finding]:
        return list(all_findings(self.settings))

    def found(self, text: str) -> Finding:
        """The one finding that says this."""
        findings = self.findings()
        said = [finding for finding in findings if text in finding.text]
        assert len(said) == 1, findings
        return said[0]

    def says(self, text: str) -> bool:
        return any(text in finding.text for finding in self.findings())

    def troubles(self) -> set[tuple[str, Severity]]:
        """Areas where all is not well. That tests have stopped their programs is no trouble."""
        stopped = (PROGRAMS, Severity.ADVICE)
        found = ((each.area, each.severity) for each in self.findings())
        return {each for each in found if each[1] is not Severity.OK and each != stopped}

    def psql(self, text: str) -> None:
        """Statement by statement, as superuser: what is pasted into psql is no transaction."""
        command = [str(self.database.server.bin("psql")), self.database.dsn, "-X", "-q", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{text}\n{done.stderr}"


def statements(remedy: str | None, fill: Mapping[str, str] | None = None) -> list[str]:
    """The SQL of a remedy, with what a person puts in place of dots."""
    assert remedy is not None
    for dots, words in (fill or {}).items():
        assert dots in remedy
        remedy = remedy.replace(dots, words)
    return _STATEMENT.findall(remedy)
