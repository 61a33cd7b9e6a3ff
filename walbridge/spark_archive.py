"""The archive that ``spark-submit --py-files`` takes: the job, the contract, and what runs them.

In: this package, in a checkout or installed. Out: one zip with the same import names. The producer and the operator's
command stay out, since a cluster needs neither.
"""

import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

HERE = Path(__file__).parent
PACKAGES = ("schemas", "runtime", "spark_consumer")


def write_archive(path: Path) -> None:
    """Write the zip to ``path``, over an older one; its folder is made if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        archive.write(HERE / "__init__.py", "walbridge/__init__.py")
        for package in PACKAGES:
            for file in sorted((HERE / package).rglob("*")):
                if file.suffix in (".py", ".avsc"):
                    archive.write(file, Path("walbridge") / file.relative_to(HERE))


if __name__ == "__main__":
    write_archive(Path(sys.argv[1]))
    print(sys.argv[1])
