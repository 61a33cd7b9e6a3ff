"""``walbridge ui`` as operators start it, and its refusals, whose remedies are followed to the letter."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fix_producer import ROOT, ProducerUnderTest
from tests.wait import wait_until
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.ui.server import Pages, UiServer
from walbridge.ui.verb import serve

END_S = 60.0
"""Far above the five seconds that it may take on a quiet machine."""
LOOK_S = 60.0


@contextmanager
def shown(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The command, and the address that it says; it ends by SIGTERM with code 0."""
    command = [sys.executable, "-m", "walbridge", "ui", "--port", "0", "--interval", "1", *options]
    said = folder / "ui.log"
    with said.open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: "until Ctrl-C" in said.read_text() or process.poll() is not None, "the address", LOOK_S)
        found = re.search(r"http://\S+:(\d+)/", said.read_text())
        assert found is not None, said.read_text()
        yield process, f"http://127.0.0.1:{found[1]}/"
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_S) == 0
    finally:
        process.kill()
        process.wait()


def page(address: str, **headers: str) -> str:
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=10) as answer:
        return str(answer.read().decode())


def test_page_shows_a_running_producer_and_that_it_was_stopped(producer: ProducerUnderTest, tmp_path: Path) -> None:
    producer.database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, secret text); INSERT INTO orders VALUES (1, 'x')"
    )
    producer.publish("orders")
    running = producer.start_streaming()

    with shown(tmp_path, "--config", str(producer.folder / "walbridge.toml")) as (_, address):
        wait_until(lambda: ": process" in page(address), "the producer's words", LOOK_S)
        there = page(address)
        assert "the Spark job was never started" in there
        assert "up to date" in there or " behind (" in there
        running.stop()
        wait_until(lambda: "the producer is stopped" in page(address), "the producer's end", LOOK_S)
        assert producer.database.dsn not in there


def test_each_refusal_is_mended_by_its_remedy(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text('name = "shop"\n')
    settings = [Settings(name="shop")]
    with pytest.raises(OperatorError) as double:
        serve(settings * 2, host="127.0.0.1", port=0, interval_s=1, token_file=None, say=print)
    with pytest.raises(OperatorError) as open_to_all:
        serve(settings, host="0.0.0.0", port=0, interval_s=1, token_file=None, say=print)
    with pytest.raises(OperatorError) as no_token:
        serve(settings, host="0.0.0.0", port=0, interval_s=1, token_file=tmp_path / "ui_token", say=print)
    with UiServer("127.0.0.1", 0, Pages(list), None) as other, pytest.raises(OperatorError) as taken:
        serve(settings, host="127.0.0.1", port=other.port, interval_s=1, token_file=None, say=print)

    with pytest.raises(OperatorError, match="cannot be made: Not a directory") as no_folder:
        serve(settings, host="127.0.0.1", port=0, interval_s=1, token_file=None, keep=file / "day", say=print)
    assert "name another one with --keep" in (no_folder.value.remedy or "")

    remedies = [each.value.remedy or "" for each in (open_to_all, no_token)]
    (command,) = {found for each in remedies for found in re.findall(r"\(umask .*?\)", each)}
    assert all("give --token-file ui_token" in each for each in remedies)
    assert "name each file once with --config" in (double.value.remedy or "")
    assert "or 0 for any" in (taken.value.remedy or "")
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    token_file = tmp_path / "ui_token"
    options = (
        "--config",
        str(file),
        "--host",
        "0.0.0.0",
        "--token-file",
        str(token_file),
        "--keep",
        str(tmp_path / "day"),
    )
    with shown(tmp_path, *options) as (_, address):
        assert "shop" in page(address, Authorization=f"Bearer {token_file.read_text().strip()}")
