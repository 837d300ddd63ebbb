"""`run --serve PORT`: a page of the running study, to this machine alone and to whoever has its address."""

from __future__ import annotations

import errno
import hmac
import html
import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from headstart.errors import BadInput
from headstart.report.live import RENEWED_EVERY

LOOPBACK = "127.0.0.1"
SILENCE = 10.0
"""Seconds after which a connection that asks nothing is closed."""
SPARED = 5.0
"""A page is made anew at the soonest after so many times the processor time that it took: the rest is the run's."""
MOST_OPEN = 32
"""Connections that are open at once; one more closes the oldest: the run needs files and memory of its own."""
LAST_LOOK = 2 * RENEWED_EVERY
"""Seconds for which a run that has ended waits for an open page to look once more."""

Page = Callable[[str, str], str]
"""(nonce of the script, what is said where the run is over) -> the page."""
ANSWER_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class LivePage:
    """A server of one page, at `address`, for as long as it is entered.

    It is bound to 127.0.0.1; the address holds a token that nobody can guess, and a request that names another host
    than this machine's own is refused, so that no page from elsewhere can read it (DNS rebinding). The page is made
    when it is asked for. Raises: BadInput where the port cannot be had.
    """

    def __init__(self, port: int, page: Page) -> None:
        self._page, self._nonce = page, secrets.token_urlsafe(16)
        self._making, self._asked = threading.Lock(), threading.Event()
        self._content, self._ended, self._next, self._seen = b"", "", 0.0, -math.inf
        self._last: bytes | None = None  # the page that says how the run ended
        try:
            self._server = _Server((LOOPBACK, port), self, f"/{secrets.token_urlsafe(16)}/")
        except OSError as error:
            used = error.errno == errno.EADDRINUSE
            reason = "another program has this port" if used else error.strerror or str(error)
            raise BadInput(f"--serve: {port}: {reason}; name another port, or 0 for any that is free") from None
        self.address = f"http://{LOOPBACK}:{self._server.server_port}{self._server.page_path}"

    def __enter__(self) -> LivePage:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and time.monotonic() - self._seen < LAST_LOOK:
            self._asked.wait(LAST_LOOK)  # an open page looks once more, and keeps how the run ended
        self._server.shutdown()
        self._server.server_close()

    @property
    def paused(self) -> AbstractContextManager[Any]:
        """While this is entered no page is made: matplotlib draws for one thread at a time."""
        return self._making

    def end(self, text: str) -> None:
        """From now on the page says how the run ended."""
        with self._making:
            self._ended, self._next = text, -math.inf

    def content(self) -> bytes:
        """The page, made anew where that is due and nothing else is drawn."""
        if self._making.acquire(blocking=not self._content):
            try:
                if time.monotonic() >= self._next:
                    begun = time.thread_time()
                    self._content = self._page(self._nonce, self._ended).encode()
                    self._last = self._content if self._ended else None
                    self._next = time.monotonic() + SPARED * (time.thread_time() - begun)
            finally:
                self._making.release()
        self._seen = time.monotonic()
        return self._content

    def answered(self, content: bytes) -> None:
        """This page has been sent; an answer that began before the end is not the last look."""
        if content is self._last:
            self._asked.set()


class _Server(ThreadingHTTPServer):
    """A thread for each connection: browsers open some that they do not use yet."""

    daemon_threads = True
    allow_reuse_address = os.name == "posix"  # elsewhere two programs could share the port

    def __init__(self, address: tuple[str, int], live: LivePage, page_path: str) -> None:
        self.live, self.page_path = live, page_path
        self._open: list[Any] = []
        super().__init__(address, _Handler)
        self.hosts = {f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost")}

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; the oldest of too many connections, which may send a byte now and then, is closed."""
        self._open.append(request)
        if len(self._open) > MOST_OPEN:
            with suppress(OSError):
                self._open.pop(0).shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, which counts no longer."""
        with suppress(ValueError):
            self._open.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is nothing that the terminal shows."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version, timeout = "headstart", "", SILENCE

    def do_GET(self) -> None:
        """The page, to whoever knows its address."""
        if self.headers.get("Host") not in self.server.hosts:
            return self._send(HTTPStatus.FORBIDDEN, b"This page is served under its own address alone.")
        if not hmac.compare_digest(self.path.encode(), self.server.page_path.encode()):
            return self._send(HTTPStatus.NOT_FOUND, b"There is no such page; `headstart run` has printed the address.")
        try:
            content = self.server.live.content()
        except Exception as error:  # whatever it is, the run goes on
            return self._send(HTTPStatus.SERVICE_UNAVAILABLE, html.escape(f"It cannot be shown now: {error}").encode())
        self._send(HTTPStatus.OK, content)
        return self.server.live.answered(content)

    do_HEAD = do_GET  # noqa: N815 -- the library's name

    def _send(self, status: HTTPStatus, content: bytes) -> None:
        self.send_response(status)
        for name, value in {**ANSWER_HEADERS, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Requests are not printed."""
