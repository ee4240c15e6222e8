"""The services of a private Sigstore over HTTP, as far as the real signing client asks for them.

Fulcio (a certificate for a token), Rekor 1 and 2 (a log entry for a signature) and a timestamp authority, all
at one address. Tokens are HS256 with a secret of this process: what another issuer signed is refused.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import jwt
from cryptography import x509

from tests.integration.private_log import canonical
from tests.integration.private_sigstore import (
    IDENTITY,
    ISSUER,
    PrivateSigstore,
    dsse_entry,
    pem,
)
from tests.unit.web import listening

SECRET = "the secret of the issuer in this test, long enough for HS256"


class Server:
    """The instance at its address; ``fail`` makes the next requests to a path fail with a status."""

    def __init__(self, sigstore: PrivateSigstore) -> None:
        self.sigstore = sigstore
        self.asked: list[str] = []
        self.fail: dict[str, list[int]] = {}
        self.minutes = 10.0
        self.slow = 0.0

    @property
    def url(self) -> str:
        return self.sigstore.url

    def token(
        self, identity: str = IDENTITY, *, issuer: str = ISSUER, secret: str = SECRET, **claims: Any
    ) -> str:
        now = int(time.time())
        base = {"iss": issuer, "sub": identity, "aud": "sigstore", "iat": now, "exp": now + 300}
        return jwt.encode(base | claims, secret, algorithm="HS256")

    def trust_config(self, version: int = 1) -> dict[str, Any]:
        """What an operator gives to the signing client."""

        def service(path: str, api: int = 1) -> list[dict[str, Any]]:
            return [
                {
                    "url": self.url + path,
                    "majorApiVersion": api,
                    "validFor": {"start": "2020-01-01T00:00:00Z"},
                    "operator": "internal",
                }
            ]

        signing: dict[str, Any] = {
            "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
            "caUrls": service(""),
            "oidcUrls": service(""),
            "rekorTlogUrls": service("", version),
            "rekorTlogConfig": {"selector": "ANY"},
            "tsaUrls": service("/timestamp") if version == 2 else [],
            "tsaConfig": {"selector": "ANY"},
        }
        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": self.sigstore.trusted_root(),
            "signingConfig": signing,
        }

    def answer(self, path: str, body: bytes, authorization: str) -> tuple[int, bytes]:
        self.asked.append(path)
        time.sleep(self.slow)
        if failures := self.fail.get(path):
            return failures.pop(0), b'{"code": 1, "message": "asked to fail"}'
        if path == "/timestamp":
            return 201, self.sigstore.stamps.answer(body)
        given = json.loads(body)
        if path == "/api/v2/signingCert":
            return self._certify(given, authorization.removeprefix("Bearer "))
        if path == "/api/v1/log/entries":
            return 201, json.dumps(self._log(given)).encode()
        if path == "/api/v2/log/entries":
            return 201, json.dumps(self._log_hash(given)).encode()
        return 404, b"{}"

    def _certify(self, given: dict[str, Any], token: str) -> tuple[int, bytes]:
        try:
            claims = jwt.decode(token, SECRET, algorithms=["HS256"], audience="sigstore", issuer=ISSUER)
        except jwt.InvalidTokenError as error:
            return 401, json.dumps({"code": 16, "message": f"token: {error}"}).encode()
        request = x509.load_pem_x509_csr(base64.b64decode(given["certificateSigningRequest"]))
        certificate = self.sigstore.certify(
            request.public_key(), claims["sub"], claims["iss"], minutes=self.minutes
        )
        chain = [certificate, self.sigstore.intermediate[0], self.sigstore.root[0]]
        return 201, json.dumps(
            {
                "signedCertificateEmbeddedSct": {
                    "chain": {"certificates": [pem(one).decode() for one in chain]}
                }
            }
        ).encode()

    def _log(self, given: dict[str, Any]) -> dict[str, Any]:
        proposed = given["spec"]["proposedContent"]
        certificate = x509.load_pem_x509_certificate(base64.b64decode(proposed["verifiers"][0]))
        body = canonical(dsse_entry(json.loads(proposed["envelope"]), certificate))
        entry = self.sigstore.entry(body, {"kind": "dsse", "version": "0.0.1"}, 1)
        proof = entry["inclusionProof"]
        return {
            "24296fb24b8ad77a": {
                "body": entry["canonicalizedBody"],
                "integratedTime": int(entry["integratedTime"]),
                "logID": base64.b64decode(entry["logId"]["keyId"]).hex(),
                "logIndex": int(entry["logIndex"]),
                "verification": {
                    "inclusionProof": {
                        "checkpoint": proof["checkpoint"]["envelope"],
                        "hashes": [base64.b64decode(one).hex() for one in proof["hashes"]],
                        "logIndex": int(proof["logIndex"]),
                        "rootHash": base64.b64decode(proof["rootHash"]).hex(),
                        "treeSize": int(proof["treeSize"]),
                    },
                    "signedEntryTimestamp": entry["inclusionPromise"]["signedEntryTimestamp"],
                },
            }
        }

    def _log_hash(self, given: dict[str, Any]) -> dict[str, Any]:
        request = given["hashedRekordRequestV002"]
        body = {
            "apiVersion": "0.0.2",
            "kind": "hashedrekord",
            "spec": {
                "hashedRekordV002": {
                    "data": {"algorithm": "SHA2_256", "digest": request["digest"]},
                    "signature": request["signature"],
                }
            },
        }
        return self.sigstore.entry(canonical(body), {"kind": "hashedrekord", "version": "0.0.2"}, 2)


@contextmanager
def serving(sigstore: PrivateSigstore) -> Iterator[Server]:
    """Answer at a free port of this machine for the length of the block."""
    server = Server(sigstore)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, content = server.answer(self.path, body, self.headers.get("Authorization", ""))
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with listening(Handler) as sigstore.url:
        yield server
