"""What programs ask of the machine they run on, before they start what takes long.

In: a folder, or a Java home. Out: whether the folder can be written, or the Java's version. Nothing is left behind.
"""

import contextlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

JAVA_SUPPORTED = (21, 17)
"""Newer ones lack ``Subject.getSubject``, which Hadoop calls."""
JAVA_VERSIONS = "17 or 21"
INSTALL_JAVA = f"install Java {JAVA_VERSIONS}"
JAVA_ANSWER_S = 20


def probe_folder(folder: Path) -> None:
    """Write a file and remove it, and the folders that were missing.

    Raises:
        OSError: it cannot be done.
    """
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix="_probe") as file:
            file.write(b"walbridge")
            file.flush()
            os.fsync(file.fileno())
    finally:
        for each in made:
            with contextlib.suppress(OSError):  # not made after all, or somebody uses it by now
                each.rmdir()


def java_major(java_home: Path) -> int | None:
    """Major version: from the ``release`` file, else by asking, which costs a JVM start; None: no answer."""
    release = java_home / "release"
    try:
        text = release.read_text() if release.is_file() else _asked(java_home)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'(?:JAVA_VERSION=|version )"(\d+)', text)
    return int(match.group(1)) if match else None


def _asked(java_home: Path) -> str:
    command = [str(java_home / "bin" / "java"), "-version"]
    return subprocess.run(command, capture_output=True, text=True, timeout=JAVA_ANSWER_S, check=True).stderr
