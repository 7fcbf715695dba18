"""`dispatch-audit record-stats`: records the statistics of subscriptions from the admin API of a broker."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dispatch_audit.jobs.commands.options import DebugOption, LogFormatOption, QuietOption
from dispatch_audit.jobs.interruption import INTERRUPTED, interrupt_left_to_handlers
from dispatch_audit.jobs.progress import renewed_line
from dispatch_audit.jobs.stderr import errors_on_one_line
from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING, profiles
from dispatch_audit.pipeline.errors import TraceError, UsageError
from dispatch_audit.pipeline.plural import count as counted
from dispatch_audit.pipeline.run.run_key import code_version

if TYPE_CHECKING:
    from dispatch_audit.recording.admin.admin_api import Access, AdminApi, AdminError
    from dispatch_audit.recording.admin.poll import Plan, Polled

_log = logging.getLogger(__name__)
_INTERRUPTED: Final = "interrupted before the first answer; nothing was recorded"
_TOKEN: Final = "PULSAR_TOKEN"


def record_stats(
    admin_url: Annotated[
        str, typer.Option(metavar="URL", help="Admin API of a broker or proxy, such as http://localhost:8080.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the trace; it must hold none yet.")],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC", help="Persistent topic, with all its partitions. May be repeated.", show_default=False
        ),
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TENANT/NAMESPACE",
            help="All persistent topics of a namespace, listed anew at each poll. May be repeated.",
            show_default=False,
        ),
    ] = None,
    subscription: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Subscription to record. May be repeated; by default all Key_Shared ones.",
            show_default=False,
        ),
    ] = None,
    interval: Annotated[float, typer.Option(metavar="SECONDS", min=0.05, help="Time from poll to poll.")] = 1.0,
    duration: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="How long to record; by default until it is stopped."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How often to poll; by default until it is stopped.")
    ] = None,
    in_flight: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="Requests to the admin API at a time.")
    ] = 8,
    without_addresses: Annotated[
        bool, typer.Option("--without-addresses", help="Leave out the addresses of clients.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"File with the token, - for standard input; by default the variable {_TOKEN}.",
            show_default=False,
        ),
    ] = None,
    redirect_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Host besides that of --admin-url that may get the token, if a broker leads there, "
            "such as 'broker-*.pulsar'. May be repeated.",
            show_default=False,
        ),
    ] = None,
    tls_trust_certs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Certificates of authorities (PEM); by default the system's.", show_default=False
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Client certificate (PEM), for mutual TLS.", show_default=False)
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Key of the client certificate (PEM).", show_default=False)
    ] = None,
    tls_any_hostname: Annotated[
        bool, typer.Option("--tls-any-hostname", help="Accept a valid certificate of another host.")
    ] = False,
    tls_allow_insecure: Annotated[
        bool, typer.Option("--tls-allow-insecure", help="Accept any certificate. The token is then not safe.")
    ] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Time to wait for an answer.")] = 10.0,
    quiet: QuietOption = False,
    log_format: LogFormatOption = "text",
    debug: DebugOption = False,
) -> None:
    """Records statistics from the admin API as a trace.

    docs/RECORDING_CLIENTS.md says what such a trace shows.
    """
    with errors_on_one_line(debug, log_format, _INTERRUPTED) as stderr:
        # Imported here, because other commands need no HTTP.
        from dispatch_audit.recording.admin.admin_api import Access  # noqa: PLC0415
        from dispatch_audit.recording.admin.poll import Plan  # noqa: PLC0415

        if not topic and not namespace:
            raise UsageError("no topic to record", "name it with --topic, or all of a namespace with --namespace")
        if tls_key is not None and tls_cert is None:
            raise UsageError("--tls-key is the key of a certificate", "pass that with --tls-cert")
        access = Access(
            url=admin_url,
            token=_token_in(token_file) if token_file is not None else os.environ.get(_TOKEN, ""),
            trust_certs=tls_trust_certs,
            client_cert=tls_cert,
            client_key=tls_key,
            verify_hostname=not tls_any_hostname,
            allow_insecure=tls_allow_insecure,
            redirect_hosts=redirect_host or (),
            timeout_s=timeout,
            connections=in_flight,
        )
        names = (topic or [], namespace or [], subscription or [])
        plan = Plan(*names, interval, count, duration, in_flight, addresses=not without_addresses)
        with renewed_line(not quiet, _log.warning) as shown:
            polled = _record(access, plan, out, _log.warning, lambda done: shown(_line(done)))
        if not polled.rows and polled.stopped:
            raise typer.Exit(stderr.error(_INTERRUPTED, INTERRUPTED))
        if not polled.rows:
            none = f"no Key_Shared subscription with consumers in {counted(polled.topics, 'topic')}"
            raise TraceError(f"nothing was recorded: {polled.last_failure or none}", "try again")
        typer.echo(
            f"Recorded {counted(polled.rows, 'snapshot')} in {counted(polled.polls, 'poll')}, "
            f"{counted(polled.failures, 'failure')}\nNext     dispatch-audit diagnose {out}"
        )
        raise typer.Exit(0)


def _line(done: "Polled") -> str:
    return (
        f"recording: {counted(done.polls, 'poll')} of {counted(done.topics, 'topic')}, "
        f"{counted(done.rows, 'snapshot')}, {counted(done.failures, 'failure')}; Ctrl-C ends it"
    )


def _record(
    access: "Access",
    plan: "Plan",
    out: Path,
    report: Callable[[str], None],
    polled: "Callable[[Polled], None]",
) -> "Polled":
    # Imported here, because other commands need no HTTP.
    from dispatch_audit.recording.admin.admin_api import AdminApi, AdminError, full_namespace  # noqa: PLC0415
    from dispatch_audit.recording.admin.poll import Poller, manifest_of  # noqa: PLC0415
    from dispatch_audit.recording.trace_files import TraceFiles  # noqa: PLC0415

    try:
        api = AdminApi(access)
        plan = replace(plan, topics=_topics(api, plan.topics), namespaces=[full_namespace(n) for n in plan.namespaces])
        _refuse_absent(api, plan)
        # Each poll lists the topics again; this call fails if there is no such namespace.
        for namespace in plan.namespaces:
            api.topics(namespace)
        manifest = manifest_of(api, _settings(), code_version())
    except AdminError as error:
        raise UsageError(str(error), _way_out(error)) from None
    except (OSError, ValueError) as error:
        raise UsageError(str(error), "see dispatch-audit record-stats --help") from None
    try:
        with _stopped_by_signals() as stop:
            return Poller(api, plan, TraceFiles(out, "stats", manifest), report, polled).run(stop)
    except FileExistsError:
        raise UsageError(f"{out} has a trace already", "choose another --out") from None
    except OSError as error:
        raise UsageError(f"cannot write to {out}: {error.strerror}", "choose another --out, or make room") from None


def _topics(api: "AdminApi", topics: Sequence[str]) -> list[str]:
    from dispatch_audit.recording.admin.admin_api import full_name  # noqa: PLC0415 - other commands need no HTTP

    return [partition for topic in topics for partition in api.partitions(full_name(topic))]


def _refuse_absent(api: "AdminApi", plan: "Plan") -> None:
    """Refuses subscriptions that are not there: an empty trace would look as if nothing was wrong."""
    # Imported here, because other commands need no HTTP.
    from dispatch_audit.recording.admin.admin_api import AdminError  # noqa: PLC0415
    from dispatch_audit.recording.admin.stats_rows import KEY_SHARED  # noqa: PLC0415

    silent: list[AdminError] = []
    for topic in plan.topics:
        try:
            statistics = api.statistics(topic)
        except AdminError as error:
            silent.append(error)
            # Each poll says which topics do not answer; that of one is no reason not to record the others.
            if error.is_refusal or len(silent) == len(plan.topics):
                raise
            continue
        # Without a consumer a subscription may have no type yet.
        types = {name: of_it.get("type") for name, of_it in (statistics.get("subscriptions") or {}).items()}
        there = [name for name, kind in types.items() if kind in (KEY_SHARED, None, "None")]
        absent = [name for name in plan.subscriptions if name not in there]
        if absent or not (there if plan.subscriptions else KEY_SHARED in types.values()):
            wanted = (
                f"no Key_Shared subscription {absent[0]}" if absent else "no Key_Shared subscription with consumers"
            )
            found = ", ".join(f"{name} ({kind})" for name, kind in sorted(types.items())) or "none"
            raise UsageError(f"{topic} has {wanted}", f"it has: {found}")


def _settings() -> list[str]:
    """The settings of broker.conf that an audit uses."""
    return sorted({CLASSIC_SETTING, *(name for profile in profiles().values() for name in profile.settings)})


def _token_in(path: Path) -> str:
    try:
        return (sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the token in {path}: {error}", "name another --token-file") from None


def _way_out(error: "AdminError") -> str:
    if error.status in (401, 403):
        return f"pass --token-file or {_TOKEN}, or a client certificate that may read statistics"
    if error.status == 404:
        return "check --topic and --namespace"
    return {
        "untrusted": "pass the certificate of its authority with --tls-trust-certs",
        "other_host": "name its host in --admin-url, or pass --tls-any-hostname",
        "handshake": "check whether --admin-url is one of https; if the broker asks for a client certificate, "
        "pass --tls-cert and --tls-key",
        "": "check --admin-url, its port, and whether it is http or https",
    }[error.tls]


@contextmanager
def _stopped_by_signals() -> Iterator[Event]:
    """Yields an event that SIGINT and SIGTERM set, so that files are closed whole."""
    stop = Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with interrupt_left_to_handlers():
            yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
