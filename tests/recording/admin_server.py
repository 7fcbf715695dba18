"""An HTTP server that answers like a broker's admin API, or fails like one: for what a healthy broker does not do."""

import json
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

STATISTICS = {"subscriptions": {"ks": {"type": "Key_Shared", "msgBacklog": 3, "consumers": []}}}
ANSWERS: dict[str, Any] = {
    "/admin/v2/persistent/public/default/t/partitions": {"partitions": 0},
    "/admin/v2/persistent/public/default/t/stats": STATISTICS,
    "/admin/v2/persistent/public/default/t/internalStats": {"cursors": {}},
    "/admin/v2/brokers/version": "4.0.8",
    "/admin/v2/brokers/configuration/runtime": {"keySharedUnblockingIntervalMs": "20", "bookkeeperClientTls": "x"},
}

Answer = tuple[int, dict[str, str], bytes | Iterable[bytes]]
"""Status, headers and body; pieces of a body are sent one by one until the client goes."""


@dataclass
class AdminServer:
    """A running server.

    Attributes:
        url: of it.
        answer: called with the path and the headers of a request; None: as a healthy broker.
        asked: the requests so far: path, and the token.
    """

    url: str
    answer: Callable[[str, dict[str, str]], Answer | None]
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def times_asked(self, ending: str) -> int:
        """How often a path with this ending was asked for."""
        return sum(path.endswith(ending) for path, _ in self.asked)


def healthy(path: str) -> Answer:
    found = ANSWERS.get(path)
    if found is None:
        return 404, {}, json.dumps({"reason": "Topic not found"}).encode()
    return 200, {}, (found if isinstance(found, str) else json.dumps(found)).encode()


def relayed(url: str) -> Answer:
    with urllib.request.urlopen(url) as answer:
        return answer.status, {}, answer.read()


@contextmanager
def admin_server(
    answer: Callable[[str, dict[str, str]], Answer | None] = lambda path, headers: None,
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    relay: str = "",
) -> Iterator[AdminServer]:
    """Runs a server on the loopback interface.

    Args:
        answer: called with the path and the headers of a request; None: as a healthy broker.
        port: 0: any that is free.
        tls: encrypts; None: it does not.
        relay: the admin URL of a real broker, which answers instead of a healthy one.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            server.asked.append((path, self.headers.get("Authorization")))
            known = server.answer(path, dict(self.headers))
            status, headers, body = known or (relayed(relay + self.path) if relay else healthy(path))
            self.send_response(status)
            length = {"Content-Length": str(len(body))} if isinstance(body, bytes) else {}
            for name, value in {**headers, **length}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for piece in [body] if isinstance(body, bytes) else body:
                    self.wfile.write(piece)
                    self.wfile.flush()
            except ConnectionError:
                pass  # the client has gone

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # a client that refuses the certificate

    with Server(("127.0.0.1", port), Handler) as http:
        if tls is not None:
            http.socket = tls.wrap_socket(http.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        server = AdminServer(f"{scheme}://127.0.0.1:{http.server_address[1]}", answer)
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
