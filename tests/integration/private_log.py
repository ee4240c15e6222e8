"""A transparency log in memory, for tests: entries, inclusion proofs, signed checkpoints (RFC 6962)."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def sign_with(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    return key.sign(data, ec.ECDSA(hashes.SHA256()))


def canonical(data: Any) -> bytes:
    """JSON as RFC 8785 has it, for the strings and numbers that we use."""
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


@dataclass
class Log:
    """A transparency log in memory. Its id is the SHA-256 of its public key (RFC 6962 3.2)."""

    origin: str
    leaves: list[bytes] = field(default_factory=lambda: [b"an entry", b"another", b"a third"])
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def id(self) -> bytes:
        return hashlib.sha256(spki(self.key)).digest()

    def append(self, body: bytes) -> dict[str, Any]:
        """Add an entry, and prove it: index, size, root, path and signed checkpoint."""
        self.leaves.append(body)
        leaves = [hashlib.sha256(b"\0" + leaf).digest() for leaf in self.leaves]
        index, root = len(leaves) - 1, _root(leaves)
        note = f"{self.origin}\n{len(leaves)}\n{b64(root)}\n"
        signature = b64(self.id[:4] + sign_with(self.key, note.encode()))
        return {
            "logIndex": str(index),
            "treeSize": str(len(leaves)),
            "rootHash": b64(root),
            "hashes": [b64(one) for one in _path(index, leaves)],
            "checkpoint": {"envelope": f"{note}\n\u2014 {self.origin} {signature}\n"},
        }

    def promise(self, body: bytes, index: int, when: int) -> bytes:
        """The signed entry timestamp over an entry's place and time, as Rekor 1 gives it."""
        entry = {"body": b64(body), "integratedTime": when, "logID": self.id.hex(), "logIndex": index}
        return sign_with(self.key, canonical(entry))

    def trusted(self, url: str) -> dict[str, Any]:
        key = {
            "rawBytes": b64(spki(self.key)),
            "keyDetails": "PKIX_ECDSA_P256_SHA_256",
            "validFor": {"start": "2020-01-01T00:00:00Z"},
        }
        return {
            "baseUrl": url,
            "hashAlgorithm": "SHA2_256",
            "publicKey": key,
            "logId": {"keyId": b64(self.id)},
        }


def _root(hashed: Sequence[bytes]) -> bytes:
    if len(hashed) == 1:
        return hashed[0]
    cut = 1 << ((len(hashed) - 1).bit_length() - 1)
    return hashlib.sha256(b"\1" + _root(hashed[:cut]) + _root(hashed[cut:])).digest()


def _path(index: int, hashed: Sequence[bytes]) -> list[bytes]:
    if len(hashed) == 1:
        return []
    cut = 1 << ((len(hashed) - 1).bit_length() - 1)
    if index < cut:
        return [*_path(index, hashed[:cut]), _root(hashed[cut:])]
    return [*_path(index - cut, hashed[cut:]), _root(hashed[:cut])]
