"""A disk without room, which is no fault of the audit."""

import subprocess
from pathlib import Path

import pytest
from program import PROGRAM
from samples import SAMPLES

pytestmark = pytest.mark.e2e

# A file system of so many bytes, in a mount namespace of its own.
_SMALL = 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@"'


def on_a_small_disk(size: str, folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    namespace = ["unshare", "--map-root-user", "--mount", "sh", "-c", _SMALL, "sh", size, folder]
    return subprocess.run([*map(str, [*namespace, *command])], capture_output=True, text=True, check=False)


# While tables are created, while the trace is staged, and while tables are written, where threads of delta-rs panic.
@pytest.mark.parametrize(
    ("size", "sample", "said"),
    [
        pytest.param(
            "40k",
            "heavy-churn-3.0.7",
            "a disk is full: No space left on device; make room ",
            marks=pytest.mark.slow,
        ),
        ("300k", "heavy-churn-3.0.7", "a disk is full: No space left on device; make room "),
        ("1150k", "hung-consumer-4.0.8", ""),
    ],
)
def test_a_full_disk_is_one_line(tmp_path: Path, size: str, sample: str, said: str) -> None:
    if on_a_small_disk("40k", tmp_path, "true").returncode:
        pytest.skip("no mount namespaces here")
    audit = (PROGRAM, "audit", SAMPLES / sample, "--out", tmp_path / "out", "--engine", "embedded")
    done = on_a_small_disk(size, tmp_path, *audit)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"dispatch-audit: error: {said}")
    assert "No space left on device" in done.stderr
