"""Asks a broker's admin API: statistics, partitions, version and settings.

Source: Pulsar's admin REST API, v2 (`PersistentTopics`, `Brokers`).
"""

import json
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from http.client import responses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote, urljoin, urlsplit

import urllib3

from dispatch_audit.recording.admin.bounded_body import WHOLE_ANSWER, TooMuchError, bounded_body
from dispatch_audit.recording.admin.shapes import LEDGER, TOPIC, misshapen

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_REDIRECTS: Final = (301, 302, 307, 308)
_REDIRECTS_MAX: Final = 5
PARTITIONS_MAX: Final = 10_000
"""Of a topic; more are taken for a mistake of whoever answers."""
_DOMAIN: Final = "persistent://"
_OF_PULSAR: Final = "__"
"""Names of system topics begin with this (`SystemTopicNames`)."""
_OF_OPENSSL: Final = re.compile(r"^\[[A-Z0-9_: ]+\] |\.? \(_ssl\.c:\d+\)")
"""What a message of `ssl` has around its words: a code, and a place in its source."""


TlsTrouble = Literal["", "untrusted", "other_host", "handshake"]
"""The certificate of the broker is of no known authority, or of another host; or the two sides did not agree."""


class AdminError(Exception):
    """Raised when the admin API does not answer as asked.

    Attributes:
        status: of the answer; 0: there was none.
        tls: what an encrypted connection failed for; empty: for nothing that encryption is about.
    """

    def __init__(self, message: str, status: int = 0, tls: TlsTrouble = "") -> None:
        super().__init__(message)
        self.status = status
        self.tls = tls

    @property
    def is_refusal(self) -> bool:
        """Whether asking again is of no use: the caller is not allowed, or the topic is not there."""
        return self.status in (401, 403, 404)


@dataclass(frozen=True)
class Access:
    """How the admin API is reached; the options of Pulsar's clients.

    Attributes:
        url: such as `http://localhost:8080`.
        token: a JSON Web Token; empty: none.
        trust_certs: file with the certificates of authorities; None: those of the system.
        client_cert: file with the certificate that the broker asks for; None: none.
        client_key: file with its key.
        verify_hostname: whether the broker's certificate must name its host (`tlsEnableHostnameVerification`).
        allow_insecure: whether any certificate is accepted (`tlsAllowInsecureConnection`).
        redirect_hosts: other hosts than that of the URL that may get the token, as patterns (`fnmatch`).
        timeout_s: of each wait for bytes; a whole answer may take `WHOLE_ANSWER` times as long.
        connections: that are kept open to a broker; as many as requests are in flight.
    """

    url: str
    token: str = ""
    trust_certs: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    verify_hostname: bool = True
    allow_insecure: bool = False
    redirect_hosts: Sequence[str] = ()
    timeout_s: float = 10.0
    connections: int = 1


class AdminApi:
    """Connections to the admin API; several threads may ask at a time.

    Raises:
        ValueError: the URL is not one of HTTP, or a certificate or key cannot be read.
    """

    def __init__(self, access: Access) -> None:
        if "@" in access.url:
            # Not repeated: it has a password, most likely.
            raise ValueError("the URL of the admin API names a user, and the API knows tokens and certificates only")
        if urlsplit(access.url).scheme not in ("http", "https") or not urlsplit(access.url).hostname:
            raise ValueError(f"{access.url!r} is not a URL such as http://localhost:8080")
        self._access = access
        timeout = urllib3.Timeout(access.timeout_s)
        # A poller asks again soon by itself.
        tls = _tls(access)
        # urllib3 compares the host itself, unless an argument forbids it.
        named = None if tls is None or tls.check_hostname else False
        self._pool = urllib3.PoolManager(
            retries=False, timeout=timeout, ssl_context=tls, assert_hostname=named, maxsize=access.connections
        )

    def statistics(self, topic: str) -> dict[str, Any]:
        """Returns the statistics of a topic that has no partitions, or of one partition."""
        # Precise: entries, and not the difference of counters, which a broker forgets.
        query = "getPreciseBacklog=true&subscriptionBacklogSize=false&getEarliestTimeInBacklog=false"
        return self._of_shape(TOPIC, f"{_path(topic)}/stats?{query}")

    def internal_statistics(self, topic: str) -> dict[str, Any]:
        """Returns the statistics of the managed ledger, with the positions of the cursors."""
        return self._of_shape(LEDGER, f"{_path(topic)}/internalStats?metadata=false")

    def policy(self, topic: str, *name: str) -> Any:
        """Returns a policy that is in force for a topic, wherever it is set, as JSON; None: there is none.

        Args:
            topic: its full name.
            name: of the policy; in front of it the subscription, if it is for one.
        """
        path = "/".join(quote(part, safe="") for part in name)
        return _json(self._text(f"{_path(topic)}/{path}?applied=true"))

    def topics(self, namespace: str) -> list[str]:
        """Returns the persistent topics of a namespace and their partitions, without those of Pulsar itself.

        Args:
            namespace: `tenant/namespace`.
        """
        path = "/admin/v2/persistent/" + "/".join(quote(name, safe="") for name in namespace.split("/", 1))
        text = self._text(path)
        found = _json(text)
        if not isinstance(found, list) or not all(isinstance(topic, str) for topic in found):
            raise AdminError(f"{self._access.url}{path} answers with {text[:60]!r}, which is no list of topics")
        return sorted(topic for topic in found if not topic.rpartition("/")[2].startswith(_OF_PULSAR))

    def partitions(self, topic: str) -> list[str]:
        """Returns the partitions of a topic; the topic itself if it has none."""
        number = self._object(f"{_path(topic)}/partitions").get("partitions", 0)
        if type(number) is not int or not 0 <= number <= PARTITIONS_MAX:
            raise AdminError(
                f"{topic} has {str(number)[:20]} partitions, it is said; at most {PARTITIONS_MAX:,} are asked"
            )
        return [f"{topic}-partition-{at}" for at in range(number)] or [topic]

    def version(self) -> str:
        """Returns the version of the broker that answers."""
        return self._text("/admin/v2/brokers/version").strip().strip('"')

    def settings(self) -> dict[str, Any]:
        """Returns broker.conf names and values of the broker that answers, which only superusers may ask for."""
        return self._object("/admin/v2/brokers/configuration/runtime")

    def _of_shape(self, shape: "TypeAdapter[Any]", path: str) -> dict[str, Any]:
        found = self._object(path)
        if trouble := misshapen(shape, found):
            raise AdminError(
                f"{self._access.url}{_without_query(path)} answers with other JSON than a broker: {trouble}"
            )
        return found

    def _object(self, path: str) -> dict[str, Any]:
        text = self._text(path)
        found = _json(text)
        if not isinstance(found, dict):
            raise AdminError(f"{self._access.url}{path} answers with {text[:60]!r}, which is no JSON object")
        return found

    def _text(self, path: str) -> str:
        """Returns the body of an answer.

        Raises:
            AdminError: there is none, or its status is another than 200.
        """
        url = self._access.url.rstrip("/") + path
        own = urlsplit(url).hostname
        for _ in range(_REDIRECTS_MAX):
            host = urlsplit(url).hostname or ""
            trusted = host == own or any(fnmatch(host, pattern) for pattern in self._access.redirect_hosts)
            status, location, text = self._answer(url, with_token=trusted)
            if status not in _REDIRECTS or not location:
                return self._body(status, text, url, "" if trusted or not self._access.token else host)
            # A broker leads to the one that owns the topic, but never from an encrypted connection to an open one.
            target = urljoin(url, location)
            if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
                raise AdminError(f"{_without_query(url)} leads to {_without_query(target)}, which is not encrypted")
            url = target
        raise AdminError(f"{_without_query(url)} leads from broker to broker, and to none that owns the topic")

    def _answer(self, url: str, *, with_token: bool) -> tuple[int, str, str]:
        """Returns status, the place that it leads to, and body."""
        headers = {"Accept": "application/json"}
        if self._access.token and with_token:
            headers["Authorization"] = f"Bearer {self._access.token}"
        try:
            answer = self._pool.request("GET", url, headers=headers, redirect=False, preload_content=False)
            try:
                text = bounded_body(answer, WHOLE_ANSWER * self._access.timeout_s)
            finally:
                answer.release_conn()
        except urllib3.exceptions.HTTPError as error:
            raise AdminError(
                f"{_without_query(url)} does not answer: {_reason(error)}", tls=_tls_trouble(error)
            ) from None
        except TooMuchError as error:
            raise AdminError(f"{_without_query(url)} {error}") from None
        return answer.status, answer.headers.get("Location", ""), text

    def _body(self, status: int, text: str, url: str, without_token: str) -> str:
        if status in (200, 204):
            return text
        reason = _named_reason(text) or responses.get(status, "no reason given")
        if self._access.token:
            # A server may repeat what it was asked with.
            reason = reason.replace(self._access.token, "***")
        if status in (401, 403) and without_token:
            reason += (
                f" (it got no token, because the broker that was asked led to it: --redirect-host {without_token})"
            )
        raise AdminError(f"{_without_query(url)} answers {status}: {reason}", status)


def _tls(access: Access) -> ssl.SSLContext | None:
    if urlsplit(access.url).scheme != "https":
        return None
    try:
        context = ssl.create_default_context(cafile=None if access.trust_certs is None else str(access.trust_certs))
    except OSError as error:
        raise ValueError(f"cannot read certificates of authorities in {access.trust_certs}: {_words(error)}") from None
    if access.client_cert is not None:
        key = access.client_key or access.client_cert
        try:
            context.load_cert_chain(access.client_cert, key)
        except OSError as error:
            pair = f"{access.client_cert} and {key}"
            raise ValueError(f"{pair} are no certificate and its key: {_words(error)}") from None
    context.check_hostname = access.verify_hostname and not access.allow_insecure
    if access.allow_insecure:
        context.verify_mode = ssl.CERT_NONE
        # The caller has asked for it; a warning for each request would fill stderr.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return context


def _path(topic: str) -> str:
    names = topic.removeprefix(_DOMAIN).split("/", 2)
    return "/admin/v2/persistent/" + "/".join(quote(name, safe="") for name in names)


def full_name(topic: str) -> str:
    """Returns the full name of a persistent topic, of which `topic` may leave out tenant and namespace.

    Raises:
        ValueError: it is none.
    """
    names = topic.removeprefix(_DOMAIN).split("/")
    if "://" in topic.removeprefix(_DOMAIN) or len(names) not in (1, 3) or not all(names):
        raise ValueError(f"{topic!r} is not a topic such as persistent://public/default/orders")
    return _DOMAIN + "/".join(names if len(names) == 3 else ("public", "default", *names))


def full_namespace(namespace: str) -> str:
    """Returns the name of a namespace.

    Raises:
        ValueError: it is none.
    """
    names = namespace.split("/")
    if len(names) != 2 or not all(names):
        raise ValueError(f"{namespace!r} is not a namespace such as public/default")
    return namespace


def _json(text: str) -> Any:
    """Returns what a text says; None: it is no JSON, or nested deeper than anything that a broker says."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _named_reason(text: str) -> str:
    """Returns the reason in the JSON of an error of Pulsar; empty where there is none."""
    found = _json(text)
    return " ".join(str(found.get("reason", "")).split())[:200] if isinstance(found, dict) else ""


def _reason(error: Exception) -> str:
    if isinstance(error.args[-1], OSError):
        return _words(error.args[-1])
    text = str(error) if isinstance(error, urllib3.exceptions.SSLError) else str(error).rpartition(": ")[2]
    return " ".join(_OF_OPENSSL.sub("", text).split()) or type(error).__name__


def _words(error: OSError) -> str:
    return _OF_OPENSSL.sub("", error.strerror or str(error)) or type(error).__name__


def _tls_trouble(error: Exception) -> TlsTrouble:
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "other_host" if "certificate is not valid for" in text else "untrusted"
    return "handshake" if "_ssl.c" in text or "SSL" in type(error).__name__ else ""


def _without_query(url: str) -> str:
    return url.partition("?")[0]
