"""Who may ask: pages of this server alone, on this machine, with the token of the link."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Any]

_HEADERS = {
    # scripts from the folder of the page's own alone: what users' folders hold has other addresses
    "content-security-policy": (
        "default-src 'none'; script-src http://{host}/static/app.js; connect-src 'self'; "
        "img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; font-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_SAFE = ("GET", "HEAD")
_READ_ON = 8 << 20  # bytes


class Guard:
    """Lets a request through that names this server, comes from its own pages, and has the token.

    - Host must be the loopback address and the port: a name that was made to point here (DNS
      rebinding) is another host.
    - Origin, where a browser sends one, must be this server; what changes anything must send one
      or say ``X-Maxent``, which a form of another site cannot.
    - The token of the link becomes a cookie for this site alone.
    """

    def __init__(self, app: App, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.cookie = f"maxent-token-{port}"  # ports of one host share their cookies
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        body = _Body(receive, scope["method"] not in _SAFE)
        refused = self._why_not(scope, headers)
        if refused is not None:
            await body.read_rest()
            await _answer(send, *refused)
            return
        extra = _headers(headers["host"])
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if "token" in query:
            await self._enter(scope, query, send, extra)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                await body.read_rest()
                given = {k.lower() for k, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((k, v) for k, v in extra if k not in given),
                ]
            await send(message)

        await self.app(scope, body.receive, guarded)

    def _why_not(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if host not in self.hosts:
            return 421, "this server answers to its own address alone"
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{name}" for name in self.hosts}:
            return 403, "this page belongs to another site"
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            navigates = headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
            if not navigates:
                return 403, "this page belongs to another site"
        if scope["method"] not in _SAFE and origin is None and "x-maxent" not in headers:
            return 403, "changes come from the page of this server alone"
        if "token=" in scope["query_string"].decode("latin-1"):
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        else:
            given = _cookie(headers.get("cookie", ""), self.cookie)
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return 403, "open the link that `maxent app` printed: it holds the token of this run"
        return None

    async def _enter(
        self, scope: Scope, query: dict[str, list[str]], send: Any, extra: list[Any]
    ) -> None:
        """The token out of the address, into a cookie; the address stays one of this server."""
        rest = urlencode([(k, v) for k, values in query.items() if k != "token" for v in values])
        place = "/" + quote(scope["path"].lstrip("/\\")) + (f"?{rest}" if rest else "")
        cookie = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
        headers = [(b"location", place.encode()), (b"set-cookie", cookie.encode())]
        headers += extra
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


class _Body:
    """What a request brings: a refusal in the middle of it would never arrive, so it is read on."""

    def __init__(self, receive: Any, expected: bool) -> None:
        self._receive, self._more = receive, expected

    async def receive(self) -> Any:
        message = await self._receive()
        self._more = message["type"] == "http.request" and message.get("more_body", False)
        return message

    async def read_rest(self) -> None:
        """Up to a few megabytes: whoever sends more to be refused is hung up on."""
        left = _READ_ON
        while self._more and left > 0:
            left -= len((await self.receive()).get("body", b""))


def _cookie(header: str, name: str) -> str:
    try:
        held: SimpleCookie = SimpleCookie(header)
    except CookieError:
        return ""
    return held[name].value if name in held else ""


def _headers(host: str) -> list[tuple[bytes, bytes]]:
    return [(k.encode(), v.format(host=host).encode()) for k, v in _HEADERS.items()]


async def _answer(send: Any, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    headers += _headers("127.0.0.1")
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": (text + "\n").encode()})
