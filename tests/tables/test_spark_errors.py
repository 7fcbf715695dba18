import pytest

from dispatch_audit.pipeline.errors import DispatchAuditError, LimitError
from dispatch_audit.pipeline.spark_errors import reason_of, trace_errors


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("[PATH_NOT_FOUND] Path does not exist: /x. SQLSTATE: 42K03", "[PATH_NOT_FOUND] Path does not exist: /x."),
        (
            "An error occurred while calling o48.sql.\n: org.apache.spark.sql.delta.DeltaIOException: "
            "[DELTA_CANNOT_CREATE_LOG_PATH] Cannot create file:/proc/x\n\tat org.apache.spark.sql.delta.DeltaErrors",
            "[DELTA_CANNOT_CREATE_LOG_PATH] Cannot create file:/proc/x",
        ),
        (
            "An error occurred while calling o1.sql.\n: java.lang.RuntimeException: java.lang.ClassNotFoundException: "
            "Class S3A not found\n\tat x",
            "Class S3A not found",
        ),
        (
            "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
            'Traceback (most recent call last):\n  File "x.py", line 1, in f\nZeroDivisionError: by zero\n\n'
            "\tat org.apache.spark.api.python",
            "ZeroDivisionError: by zero",
        ),
        ("by zero", "by zero"),
        ("", "ValueError"),
    ],
)
def test_the_line_that_a_reader_can_use(message: str, reason: str) -> None:
    assert reason_of(ValueError(message)) == reason


_FROM_A_WORKER = (
    "Traceback (most recent call last):\n  File ...\ndispatch_audit.pipeline.errors.{}: too many; use fewer\n"
)


def test_an_error_of_the_audit_that_a_worker_raised_stays_one() -> None:
    with pytest.raises(LimitError, match=r"^too many; use fewer$"), trace_errors():
        raise RuntimeError(_FROM_A_WORKER.format("LimitError"))


def test_an_error_of_an_unknown_name_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError) as raised, trace_errors():
        raise RuntimeError(_FROM_A_WORKER.format("annotations"))
    assert not isinstance(raised.value, DispatchAuditError)
