"""The samples of the repository, for tests that change them."""

import gzip
import shutil
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[1] / "data" / "samples"


def unzipped(sample: str, folder: Path) -> Path:
    """A copy of a sample whose logs are plain text."""
    shutil.copytree(SAMPLES / sample, folder)
    for log in folder.glob("*.jsonl.gz"):
        (folder / log.name.removesuffix(".gz")).write_bytes(gzip.decompress(log.read_bytes()))
        log.unlink()
    return folder
