import pytest

from dispatch_audit.pipeline.spark_errors import reason_of


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
        ("by zero", "by zero"),
        ("", "ValueError"),
    ],
)
def test_the_line_that_a_reader_can_use(message: str, reason: str) -> None:
    assert reason_of(ValueError(message)) == reason
