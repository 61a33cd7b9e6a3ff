"""A session whose transactions may come before their commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.producer.uncommitted_session import Session
from walbridge.producer.session.transactions.transaction_spool import Spool
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Producer


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(Settings(producer=Producer(spool_dir=str(tmp_path))))
    made.open()
    yield made
    made.close()


@pytest.fixture
def session(spool: Spool) -> Session:
    return Session(spool)
