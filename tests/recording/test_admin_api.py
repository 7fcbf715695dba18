"""How `record-stats` meets an admin API that refuses, moves, hangs, restarts or encrypts."""

import gzip
import json
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from admin_server import STATISTICS, Answer, admin_server
from command_line import PROGRAM

from dispatch_audit.recording.admin.deleted_ranges import RANGES_MAX, deleted_ranges
from dispatch_audit.recording.admin.stats_rows import snapshot_of

RunCli = Callable[..., tuple[int, str, str]]
Record = Callable[..., tuple[int, str, str]]


@pytest.fixture
def record(run_cli: RunCli, tmp_path: Path) -> Record:
    """Runs `record-stats` on the topic `t`, for one poll unless other options say more."""

    def run(url: str, *options: object) -> tuple[int, str, str]:
        needed = ("--admin-url", url, "--topic", "t", "--out", tmp_path / "trace", "--count", 1)
        return run_cli("record-stats", *needed, *options)

    return run


def refused(outcome: tuple[int, str, str]) -> str:
    code, _, err = outcome
    assert (code, err.count("\n")) == (2, 1)
    return err


def rows_in(trace: Path) -> list[dict[str, Any]]:
    (file,) = trace.glob("stats-*.jsonl.gz")
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def test_the_token_is_sent_with_every_request(record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(path: str, headers: dict[str, str]) -> Answer | None:
        allowed = headers.get("Authorization") == "Bearer secret"
        return None if allowed else (401, {}, b'{"reason": "HTTP 401 Unauthorized"}')

    (tmp_path / "token").write_text("secret\n")
    with admin_server(answer) as server:
        message = refused(record(server.url))
        assert "answers 401: HTTP 401 Unauthorized; pass --token-file or PULSAR_TOKEN, or a client" in message
        assert "secret" not in message
        server.asked.clear()
        assert record(server.url, "--token-file", tmp_path / "token")[0] == 0
        assert {token for _, token in server.asked} == {"Bearer secret"}
        monkeypatch.setenv("PULSAR_TOKEN", "secret")
        assert "has a trace already; choose another --out" in refused(record(server.url))
        assert "cannot read the token in" in refused(record(server.url, "--token-file", tmp_path / "none"))
    (row,) = rows_in(tmp_path / "trace")
    assert row["snapshot"]["msg_backlog"] == 3
    assert json.loads((tmp_path / "trace" / "trace.json").read_text())["settings"] == {
        "keySharedUnblockingIntervalMs": 20
    }


@pytest.mark.parametrize("options", [(), ("--without-addresses",)])
def test_addresses_are_left_out_if_asked_for(record: Record, tmp_path: Path, options: tuple[str, ...]) -> None:
    consumers = [{"consumerName": "c", "address": f"/10.0.0.{host}:1", "unackedMessages": host} for host in (7, 8)]
    statistics = {"subscriptions": {"ks": {"type": "Key_Shared", "consumers": consumers}}}

    def answer(path: str, headers: dict[str, str]) -> Answer | None:
        return (200, {}, json.dumps(statistics).encode()) if path.endswith("/stats") else None

    with admin_server(answer) as server:
        assert record(server.url, *options)[0] == 0
    (row,) = (row for row in rows_in(tmp_path / "trace") if row["event"] == "stats")
    found = [consumer.get("address") for consumer in row["snapshot"]["consumers"]]
    assert found == ([None, None] if options else ["/10.0.0.7:1", "/10.0.0.8:1"])
    # They are told apart by their addresses all the same.
    assert [consumer["consumer"] for consumer in row["snapshot"]["consumers"]] == [1, 2]


def test_settings_that_may_not_be_asked_for_are_left_out(record: Record, tmp_path: Path) -> None:
    def answer(path: str, headers: dict[str, str]) -> Answer | None:
        return (403, {}, b"{}") if path.endswith("runtime") else None

    with admin_server(answer) as server:
        assert record(server.url)[0] == 0
    manifest = json.loads((tmp_path / "trace" / "trace.json").read_text())
    assert manifest["settings"] == {}
    assert manifest["note"].endswith("The settings of the broker could not be asked for.")


@pytest.mark.parametrize(
    ("answered", "message"),
    [
        ((403, {}, b"{}"), "answers 403: Forbidden; pass --token-file"),
        ((404, {}, b'{"reason": "Namespace not found"}'), "answers 404: Namespace not found; check --topic"),
        ((500, {}, b"<html>"), "answers 500: Internal Server Error; check --admin-url"),
        ((200, {}, b"<html>welcome"), "answers with '<html>welcome', which is no JSON object"),
        ((200, {}, b"[1]"), "answers with '[1]', which is no JSON object"),
    ],
)
def test_an_answer_that_is_none_is_one_line(record: Record, answered: Answer, message: str) -> None:
    with admin_server(lambda path, headers: answered) as server:
        assert message in refused(record(server.url))


def test_an_api_that_is_not_there_or_hangs_is_one_line(record: Record) -> None:
    with admin_server() as server:
        pass
    assert "does not answer: " in refused(record(server.url))
    assert "'localhost:8080' is not a URL such as http://localhost:8080" in refused(record("localhost:8080"))
    hang = threading.Event()

    def answer(path: str, headers: dict[str, str]) -> Answer | None:
        hang.wait(120)
        return None

    with admin_server(answer) as server:
        assert "does not answer: " in refused(record(server.url, "--timeout", 0.3))
        hang.set()


def test_a_redirect_leads_to_the_owner_with_the_token(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULSAR_TOKEN", "secret")
    with admin_server() as owner:

        def answer(path: str, headers: dict[str, str]) -> Answer | None:
            return (307, {"Location": owner.url + path}, b"") if path.endswith("tats") else None

        with admin_server(answer) as server:
            assert record(server.url)[0] == 0
        assert {path.rpartition("/")[2] for path, _ in owner.asked} == {"stats", "internalStats"}
        assert {token for _, token in owner.asked} == {"Bearer secret"}
    with admin_server(lambda path, headers: (307, {"Location": path}, b"")) as server:
        assert "leads from broker to broker, and to none that owns the topic" in refused(record(server.url))


def test_slow_answers_do_not_make_a_recording_longer(record: Record, tmp_path: Path) -> None:
    def answer(path: str, headers: dict[str, str]) -> Answer | None:
        time.sleep(0.1 if path.endswith("tats") else 0)
        return None

    with admin_server(answer) as server:
        assert record(server.url, "--interval", 0.05, "--duration", 2, "--count", 100)[0] == 0
    # A poll takes 0.2 s at least. By the number of intervals it would take 40.
    assert 2 <= len(rows_in(tmp_path / "trace")) <= 11


def test_a_restart_of_the_broker_is_survived(tmp_path: Path) -> None:
    options = ("--topic", "t", "--out", str(tmp_path / "trace"), "--interval", "0.1")
    with ExitStack() as running:
        with admin_server() as server:
            command = [str(PROGRAM), "record-stats", "--admin-url", server.url, *options]
            process = running.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
            assert process.stderr is not None
            # It would else be waited for without an end.
            latest = threading.Timer(120, process.kill)
            latest.start()
            shown = process.stderr.readline()
            while server.times_asked("/stats") < 4:
                assert process.poll() is None
                time.sleep(0.05)
        lost = process.stderr.readline()
        with admin_server(port=int(server.url.rpartition(":")[2])) as server:
            found = process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            assert (process.stderr.read(), process.wait()) == ("", 0)
            latest.cancel()
    assert shown == "dispatch-audit: recording: 1 poll of 1 topic, 1 snapshot, 0 failures; Ctrl-C ends it\n"
    assert "does not answer: " in lost
    assert found.endswith("persistent://public/default/t: the admin API answers again\n")
    seqs = [row["seq"] for row in rows_in(tmp_path / "trace")]
    assert len(seqs) > 2
    assert seqs == sorted(seqs)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a broker's certificate for 127.0.0.1, one for another host, and one of a client."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl(
        "req",
        "-x509",
        *key,
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-subj",
        "/CN=authority",
        "-addext",
        "keyUsage=critical,keyCertSign,cRLSign",
    )
    for name, host in (("here", "IP:127.0.0.1"), ("elsewhere", "DNS:pulsar.example"), ("client", "DNS:client")):
        openssl(
            "req",
            "-x509",
            *key,
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.pem",
            "-subj",
            f"/CN={name}",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-addext",
            f"subjectAltName={host}",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        )
    return folder


def _tls(certificates: Path, name: str, *, client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
    if client:
        context.load_verify_locations(certificates / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_a_certificate_is_checked(record: Record, certificates: Path, tmp_path: Path) -> None:
    trust = ("--tls-trust-certs", certificates / "ca.pem")
    with admin_server(tls=_tls(certificates, "here")) as server:
        message = refused(record(server.url))
        assert message.endswith("; pass the certificate of its authority with --tls-trust-certs\n")
        assert "/partitions does not answer: certificate verify failed: " in message
        assert record(server.url, *trust)[0] == 0
        none = tmp_path / "none"
        message = refused(record(server.url, "--tls-trust-certs", none))
        assert f"cannot read certificates of authorities in {none}: No such file or directory;" in message
        message = refused(record(server.url.replace("https", "http")))
        assert message.endswith("; check --admin-url, its port, and whether it is http or https\n")
        assert "(" not in message


@pytest.mark.parametrize("options", [("--tls-any-hostname",), ("--tls-allow-insecure",)])
def test_a_certificate_of_another_host_needs_an_option(
    options: tuple[str, ...], record: Record, certificates: Path
) -> None:
    trust = () if "insecure" in options[0] else ("--tls-trust-certs", certificates / "ca.pem")
    with admin_server(tls=_tls(certificates, "elsewhere")) as server:
        wanted = "--tls-any-hostname" if trust else "--tls-trust-certs"
        assert refused(record(server.url, *trust)).endswith(f" {wanted}\n")
        assert record(server.url, *trust, *options)[0] == 0


def test_a_broker_may_ask_for_a_certificate(record: Record, certificates: Path) -> None:
    trust = ("--tls-trust-certs", certificates / "ca.pem")
    own = ("--tls-cert", certificates / "client.pem", "--tls-key", certificates / "client.key")
    with admin_server(tls=_tls(certificates, "here", client=True)) as server:
        message = refused(record(server.url, *trust))
        assert "does not answer: " in message
        assert message.endswith("if the broker asks for a client certificate, pass --tls-cert and --tls-key\n")
        assert "pass that with --tls-cert" in refused(record(server.url, *trust, *own[2:]))
        pair = f"{certificates / 'client.pem'} and {certificates / 'here.key'}"
        message = refused(record(server.url, *trust, *own[:3], certificates / "here.key"))
        assert f"{pair} are no certificate and its key: key values mismatch;" in message
        assert record(server.url, *trust, *own)[0] == 0


def test_a_token_does_not_go_from_an_encrypted_connection_to_an_open_one(record: Record, certificates: Path) -> None:
    with admin_server() as owner:

        def answer(path: str, headers: dict[str, str]) -> Answer | None:
            return 307, {"Location": owner.url + path}, b""

        with admin_server(answer, tls=_tls(certificates, "here")) as server:
            message = refused(record(server.url, "--tls-trust-certs", certificates / "ca.pem"))
        assert "which is not encrypted" in message
        assert owner.asked == []


def test_rows_of_3x_are_read_from_texts() -> None:
    consumer = {
        "consumerName": "c",
        "keyHashRanges": ["[0, 32767]", "[40000, 65535]"],
        "readPositionWhenJoining": "3:7",
    }
    positions = {"consumers": [consumer], "consumersAfterMarkDeletePosition": {"c": "3:5"}}
    subscription = {**STATISTICS["subscriptions"]["ks"], **positions}
    ledger = {"cursors": {"ks": {"readPosition": "3:9", "markDeletePosition": "3:1"}}}
    snapshot = snapshot_of(subscription, ledger, "ks", [4])
    assert snapshot == {
        "type": "Key_Shared",
        "msg_backlog": 3,
        "consumers_after_mark_delete_position": {"c": "3:5"},
        "read_position": "3:9",
        "mark_delete_position": "3:1",
        "consumers": [
            {
                "consumer": 4,
                "consumer_name": "c",
                "read_position_when_joining": "3:7",
                "key_hash_ranges": [[0, 32767], [40000, 65535]],
            }
        ],
    }


def namespace_of(topics: int, seconds: float = 0.0) -> Callable[[str, dict[str, str]], Answer | None]:
    """Answers for the namespace `public/many` with that number of topics; a request for statistics takes some time."""
    names = [f"persistent://public/many/t-{number}" for number in range(topics)]

    def answer(path: str, headers: dict[str, str]) -> Answer | None:
        if path == "/admin/v2/persistent/public/many":
            return 200, {}, json.dumps([*names, "persistent://public/many/__change_events"]).encode()
        if path.endswith("/stats"):
            time.sleep(seconds)
            return 200, {}, json.dumps(STATISTICS).encode()
        return (200, {}, b'{"cursors": {}}') if path.endswith("/internalStats") else None

    return answer


def test_a_namespace_is_recorded_with_a_bound_on_requests_in_flight(run_cli: RunCli, tmp_path: Path) -> None:
    answers, lock, at_once = namespace_of(40, 0.05), threading.Lock(), [0, 0]

    def answer(path: str, headers: dict[str, str]) -> Answer | None:
        with lock:
            at_once[0] += 1
            at_once[1] = max(at_once)
        try:
            return answers(path, headers)
        finally:
            with lock:
                at_once[0] -= 1

    with admin_server(answer) as server:
        options = ("--admin-url", server.url, "--namespace", "public/many", "--in-flight", 4)
        code, out, err = run_cli("record-stats", *options, "--out", tmp_path / "trace", "--count", 2, "--interval", 0.1)
    assert code == 0, err
    assert out.startswith("Recorded 80 snapshots in 2 polls, 0 failures")
    assert err == "dispatch-audit: recording: 1 poll of 40 topics, 40 snapshots, 0 failures; Ctrl-C ends it\n"
    assert at_once[1] == 4
    rows = rows_in(tmp_path / "trace")
    assert len({row["topic"] for row in rows}) == 40
    seqs = [row["seq"] for row in rows]
    assert seqs == sorted(set(seqs))
    assert all(row["snapshot"]["seq_begin"] < row["snapshot"]["seq_end"] < row["seq"] for row in rows)


def test_topics_that_do_not_answer_are_reported_in_one_line(run_cli: RunCli, tmp_path: Path) -> None:
    answers, broken = namespace_of(40), threading.Event()

    def answer(path: str, headers: dict[str, str]) -> Answer | None:
        if path.endswith("/t-7/stats") and len([1 for asked, _ in server.asked if asked == path]) > 1:
            # Deleted since it was listed: no failure.
            return 404, {}, b'{"reason": "Topic not found"}'
        if path.endswith("/stats") and len([1 for asked, _ in server.asked if asked == path]) == 2:
            broken.set()
            return 503, {}, b"{}"
        return answers(path, headers)

    with admin_server(answer) as server:
        options = ("--admin-url", server.url, "--namespace", "public/many", "--quiet", "--interval", 0.1)
        code, out, err = run_cli("record-stats", *options, "--out", tmp_path / "trace", "--count", 3)
    assert broken.is_set()
    assert code == 0, err
    assert out.startswith("Recorded 79 snapshots in 3 polls, 39 failures")
    lines = err.splitlines()
    assert len(lines) == 2, err
    assert lines[0].endswith("answers 503: Service Unavailable (and of 38 more topics)")
    assert lines[1].endswith(": the admin API answers again (and of 38 more topics)")


def test_a_namespace_that_is_none_or_has_nothing_is_one_line(run_cli: RunCli, tmp_path: Path) -> None:
    def refused_with(code: int, *options: object) -> str:
        found, _, err = run_cli("record-stats", "--out", tmp_path / "trace", "--count", 1, *options)
        assert (found, err.count("\n")) == (code, 1), err
        return err

    with admin_server(namespace_of(0)) as server:
        url = ("--admin-url", server.url)
        assert "no topic to record; name it with --topic, or all of a namespace with --namespace" in refused_with(
            2, *url
        )
        assert "'public' is not a namespace such as public/default" in refused_with(2, *url, "--namespace", "public")
        assert "answers 404: Topic not found; check --topic and --namespace" in refused_with(
            2, *url, "--namespace", "public/none"
        )
        assert "no Key_Shared subscription with consumers in 0 topics" in refused_with(
            3, *url, "--namespace", "public/many"
        )


def test_deleted_ranges_have_both_ends_and_a_limit() -> None:
    assert deleted_ranges("[]") == []
    assert deleted_ranges("[(3:3..3:5],(4:-1..4:0]]") == [["3:4", "3:5"], ["4:0", "4:0"]]
    many = ",".join(f"(3:{2 * at}..3:{2 * at + 1}]" for at in range(RANGES_MAX + 5))
    assert len(deleted_ranges(f"[{many}]")) == RANGES_MAX
