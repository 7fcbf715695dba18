"""What an admin API must not get from `record-stats`, or do to it: memory, time, secrets, the terminal.

Each recording runs in a process of its own with 2 GB of memory and 20 seconds.
"""

import gzip
import itertools
import json
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from admin_server import STATISTICS, Answer, admin_server, healthy
from command_line import PROGRAM

MEMORY_BYTES = 2 << 30
MUCH = gzip.compress(bytes(16 << 20))
TOKEN = "eyJhbGciOi.secret"


def recorded(url: str, out: Path, *options: str, topics: tuple[str, ...] = ("t",), **process: Any) -> tuple[int, str]:
    """The exit code of a recording of one poll, and what it says on stderr."""
    names = [word for topic in topics for word in ("--topic", topic)]
    done = subprocess.run(
        [str(PROGRAM), "record-stats", "--admin-url", url, *names, "--out", str(out), "--count", "1", *options],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
        **process,
    )
    return done.returncode, done.stderr


def endless() -> Iterator[bytes]:
    yield b'{"subscriptions": {'
    yield from itertools.repeat(b" " * (1 << 20))


def byte_by_byte() -> Iterator[bytes]:
    for byte in itertools.cycle(b" "):
        yield bytes([byte])
        time.sleep(0.1)


def small_gzip_of_much() -> Iterator[bytes]:
    # One member after the other: 6 GB.
    yield from itertools.repeat(MUCH, 400)


def deep_lists() -> Iterator[bytes]:
    yield b"[" * 1_000_000


def deep_objects() -> Iterator[bytes]:
    yield b'{"a":' * 100_000


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("body", "headers", "message"),
    [
        (endless, {}, "answers with more than 64 MB"),
        (byte_by_byte, {}, "has not ended its answer after 3 s"),
        (small_gzip_of_much, {"Content-Encoding": "gzip"}, "answers with more than 64 MB"),
        (deep_lists, {}, "which is no JSON object"),
        (deep_objects, {}, "which is no JSON object"),
    ],
)
@pytest.mark.parametrize("path", ["stats", pytest.param("partitions", marks=pytest.mark.slow)])
def test_an_answer_without_an_end_is_one_line(
    body: Callable[[], Iterator[bytes]], headers: dict[str, str], message: str, path: str, tmp_path: Path
) -> None:
    def answer(asked: str, _: dict[str, str]) -> Answer | None:
        return (200, headers, body()) if asked.endswith(f"/{path}") else None

    with admin_server(answer) as server:
        code, err = recorded(server.url, tmp_path / "trace", "--timeout", "0.5")
    assert (code, err.count("\n")) == (2, 1), err
    assert message in err


def with_subscription(**fields: object) -> dict[str, object]:
    return {"subscriptions": {"ks": {"type": "Key_Shared", "consumers": [{}], **fields}}}


@pytest.mark.parametrize(
    ("ending", "said", "where"),
    [
        ("partitions", {"partitions": 50_000_000}, "has 50000000 partitions, it is said; at most 10,000 are asked"),
        ("partitions", {"partitions": "many"}, "has many partitions, it is said"),
        ("stats", {"subscriptions": [1]}, "subscriptions: "),
        ("stats", {"subscriptions": {"ks": 3}}, "subscriptions.ks: "),
        ("stats", with_subscription(consumers={"c": 1}), "subscriptions.ks.consumers: "),
        ("stats", with_subscription(consumers=[7]), "subscriptions.ks.consumers.0: "),
        ("stats", with_subscription(consumers=[{"consumerName": {}}]), "subscriptions.ks.consumers.0.consumerName: "),
        (
            "stats",
            with_subscription(consumers=[{"keyHashRanges": [1]}]),
            "subscriptions.ks.consumers.0.keyHashRanges.0",
        ),
        ("stats", with_subscription(consumers=[{"drainingHashes": 5}]), "subscriptions.ks.consumers.0.drainingHashes"),
        ("stats", with_subscription(consumersAfterMarkDeletePosition=[1]), "consumersAfterMarkDeletePosition: "),
    ],
)
def test_json_of_another_shape_is_one_line(
    ending: str, said: object, where: str, tmp_path: Path, run_cli: Callable[..., tuple[int, str, str]]
) -> None:
    def answer(asked: str, _: dict[str, str]) -> Answer | None:
        return (200, {}, json.dumps(said).encode()) if asked.endswith(f"/{ending}") else None

    with admin_server(answer) as server:
        options = ("--admin-url", server.url, "--topic", "t", "--out", tmp_path / "trace", "--count", 1)
        code, _, err = run_cli("record-stats", *options)
    assert (code, err.count("\n")) == (2, 1), err
    assert where in err


def test_a_topic_whose_answers_are_no_use_does_not_keep_others_from_being_recorded(tmp_path: Path) -> None:
    def answer(asked: str, _: dict[str, str]) -> Answer | None:
        path = asked.replace("/other/", "/t/")
        if path == asked:
            return None
        return (200, {}, b'{"subscriptions": 1}') if path.endswith("/stats") else healthy(path)

    with admin_server(answer) as server:
        code, err = recorded(server.url, tmp_path / "trace", topics=("t", "other"))
    assert code == 0, err
    assert err.count("subscriptions: Input should be a valid dictionary") == 1
    (file,) = (tmp_path / "trace").glob("stats-*.jsonl.gz")
    assert [json.loads(line)["topic"] for line in gzip.decompress(file.read_bytes()).splitlines()] == [
        "persistent://public/default/t"
    ]


def test_a_password_in_the_url_is_refused_and_not_repeated(tmp_path: Path) -> None:
    for url in ("http://user:hunter2@127.0.0.1:1", "user:hunter2@127.0.0.1:1"):
        code, err = recorded(url, tmp_path / "trace")
        assert (code, err.count("\n")) == (2, 1)
        assert "names a user" in err
        assert "hunter2" not in err


def test_what_a_server_repeats_of_the_token_is_not_shown_and_steers_no_terminal(tmp_path: Path) -> None:
    def answer(asked: str, headers: dict[str, str]) -> Answer | None:
        reason = f"\x1b[2J\x1b]0;owned\x07 {headers.get('Authorization')} is not allowed"
        return (403, {}, json.dumps({"reason": reason}).encode())

    with admin_server(answer) as server:
        code, err = recorded(server.url, tmp_path / "trace", env={**os.environ, "PULSAR_TOKEN": TOKEN})
    assert code == 2
    assert r"answers 403: \x1b[2J\x1b]0;owned\x07 Bearer *** is not allowed" in err
    assert TOKEN not in err
    assert "\x1b" not in err


def test_another_host_gets_the_token_only_if_it_is_named(tmp_path: Path) -> None:
    asked_with = {**os.environ, "PULSAR_TOKEN": TOKEN}

    def allowed(_: str, headers: dict[str, str]) -> Answer | None:
        return None if headers.get("Authorization") == f"Bearer {TOKEN}" else (401, {}, b"{}")

    with admin_server(allowed) as owner:
        other_host = owner.url.replace("127.0.0.1", "localhost")

        def leads(path: str, headers: dict[str, str]) -> Answer | None:
            return (307, {"Location": other_host + path}, b"") if path.endswith("/stats") else None

        with admin_server(leads) as server:
            code, err = recorded(server.url, tmp_path / "one", env=asked_with)
            assert (code, err.count("\n")) == (2, 1)
            assert "it got no token, because the broker that was asked led to it: --redirect-host localhost" in err
            assert {token for _, token in owner.asked} == {None}
            code, err = recorded(server.url, tmp_path / "two", "--redirect-host", "local*", env=asked_with)
            assert code == 0, err


def test_a_token_comes_from_standard_input_and_from_no_option(tmp_path: Path) -> None:
    def allowed(_: str, headers: dict[str, str]) -> Answer | None:
        return None if headers.get("Authorization") == f"Bearer {TOKEN}" else (401, {}, b"{}")

    with admin_server(allowed) as server:
        assert recorded(server.url, tmp_path / "one", "--token-file", "-", input=f"{TOKEN}\n")[0] == 0
        code, err = recorded(server.url, tmp_path / "two", "--token", TOKEN)
    assert code == 2
    assert "No such option" in err


def test_a_range_that_is_none_is_left_out(tmp_path: Path) -> None:
    (subscription,) = STATISTICS["subscriptions"].values()
    said = {"subscriptions": {"ks": {**subscription, "consumers": [{"keyHashRanges": ["[0, 5]", "[[1]]"]}]}}}

    def answer(asked: str, _: dict[str, str]) -> Answer | None:
        return (200, {}, json.dumps(said).encode()) if asked.endswith("/stats") else None

    with admin_server(answer) as server:
        code, err = recorded(server.url, tmp_path / "trace")
    assert code == 0, err
    (file,) = (tmp_path / "trace").glob("stats-*.jsonl.gz")
    (row,) = gzip.decompress(file.read_bytes()).splitlines()
    assert "key_hash_ranges" not in json.loads(row)["snapshot"]["consumers"][0]
