"""A real issuer of tokens on this machine: its own server by HTTPS, with keys that it made and may change."""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.support.authority import Authority

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


class Issuer:
    """Signs tokens, and publishes its keys at `url`. `asked` has the path of every request."""

    def __init__(self, folder: Path) -> None:
        self._authority = Authority(folder, "issuer-authority")
        self.authority = self._authority.certificate
        self._certificate, self._certificate_key = self._authority.issue("issuer")
        self.asked: list[str] = []
        self.extra_keys: list[dict[str, Any]] = []
        self.raw_keys: bytes | None = None
        self.slow_seconds = 0.0
        self.said: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.keys: dict[str, PrivateKey] = {}
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.add_key("first")
        self.start()

    @property
    def url(self) -> str:
        """The issuer, as the claim `iss` has it."""
        return f"https://127.0.0.1:{self.port}"

    def add_key(self, name: str, *, kind: str = "RSA") -> PrivateKey:
        """Make a key and publish it."""
        self.keys[name] = (
            rsa.generate_private_key(public_exponent=65537, key_size=2048)
            if kind == "RSA"
            else ec.generate_private_key(ec.SECP256R1())
        )
        return self.keys[name]

    def token(self, *, key: str = "first", algorithm: str = "RS256", signer: Any = None, **claims: Any) -> str:
        """Return a signed token. A claim that is None is left out."""
        now = int(time.time())
        said = {
            "iss": self.url,
            "aud": "lakewarden",
            "sub": "alice",
            "groups": ["operators"],
            "iat": now,
            "exp": now + 300,
            **claims,
        }
        signer = self.keys[key] if signer is None else signer
        whole = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(whole, signer, algorithm=algorithm, headers={"kid": key})

    def public_keys(self) -> list[dict[str, Any]]:
        """Return the published keys."""
        return [_public(name, key) for name, key in self.keys.items()] + self.extra_keys

    def description(self) -> dict[str, str]:
        """Return what the issuer says of itself (OpenID Connect Discovery)."""
        names = {"jwks_uri": "keys", "authorization_endpoint": "authorize", "token_endpoint": "token"}
        return {"issuer": self.url, **{name: f"{self.url}/{path}" for name, path in names.items()}}

    def authorize(self, query: dict[str, str]) -> str:
        """Return where the browser of a person who is signed in goes back to, with a code."""
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], 'session_state': '7'})}"

    def exchange(self, form: dict[str, str], authorization: str | None) -> dict[str, str]:
        """Return the answer to a code: an ID token if the code is known, and its verifier fits. A code counts once."""
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        secret = base64.b64encode(b"lakewarden:of the client").decode()
        fits = (
            asked is not None
            and asked["code_challenge"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            and asked["redirect_uri"] == form["redirect_uri"]
            and authorization == f"Basic {secret}"
        )
        if not fits:
            return {"error": "invalid_grant", "error_description": "the code is unknown"}
        return {"access_token": "opaque", "token_type": "Bearer", "id_token": self.token(**self.said)}

    def start(self) -> None:
        """Answer requests, at the port of before."""
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        self.port = self._server.server_address[1]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate, self._certificate_key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Answer no more requests."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


def _public(name: str, key: PrivateKey) -> dict[str, Any]:
    kind: Any = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    said: dict[str, Any] = json.loads(kind.to_jwk(key.public_key()))
    return {**said, "kid": name, "use": "sig"}


def _handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            time.sleep(issuer.slow_seconds)
            if self.path == "/.well-known/openid-configuration":
                content = json.dumps(issuer.description()).encode()
            elif self.path == "/keys":
                content = issuer.raw_keys or json.dumps({"keys": issuer.public_keys()}).encode()
            elif self.path.startswith("/authorize?"):
                self.send_response(302)
                self.send_header("Location", issuer.authorize(dict(parse_qsl(urlsplit(self.path).query))))
                self.end_headers()
                return
            else:
                self.send_error(404)
                return
            self._answer(content)

        def do_POST(self) -> None:
            issuer.asked.append(self.path)
            form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            answer = issuer.exchange(form, self.headers["Authorization"])
            self._answer(json.dumps(answer).encode(), 400 if "error" in answer else 200)

        def _answer(self, content: bytes, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *_arguments: object) -> None:  # noqa: A002 - the name of the base class
            return

    return Handler


@contextmanager
def running_issuer(folder: Path) -> Iterator[Issuer]:
    """Run an issuer inside the `with` block."""
    issuer = Issuer(folder)
    try:
        yield issuer
    finally:
        issuer.stop()
