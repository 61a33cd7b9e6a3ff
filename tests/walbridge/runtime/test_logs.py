"""Lines of a log: one an event, readable by people and by programs."""

import json

import pytest
import structlog

from walbridge.runtime.logs import configure_logs


def line(capsys: pytest.CaptureFixture[str], log_format: str) -> str:
    configure_logs("info", log_format)
    structlog.get_logger().info("batch", rows=3, end_lsn="0/16B3748", reason='it said "no"\nand left')
    (said,) = capsys.readouterr().err.splitlines()
    return said


def test_logfmt_is_the_default_beside_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    said = line(capsys, "auto")

    assert said.startswith("timestamp=")
    assert 'level=info event=batch rows=3 end_lsn=0/16B3748 reason="it said \\"no\\"\\nand left"' in said


def test_json_lines_are_parsed_back(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(line(capsys, "json"))

    assert (told["event"], told["level"], told["rows"]) == ("batch", "info", 3)


def test_less_than_the_level_asked_for_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("warning", "json")
    structlog.get_logger().info("batch")

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("log_format", ["auto", "json"])
def test_what_is_not_known_is_not_said(capsys: pytest.CaptureFixture[str], log_format: str) -> None:
    configure_logs("info", log_format)
    structlog.get_logger().warning("tried again", table=None, rows=0)

    said = capsys.readouterr().err
    assert "rows" in said
    assert "table" not in said
