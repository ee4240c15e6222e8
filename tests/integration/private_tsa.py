"""A timestamp authority for tests (RFC 3161): tokens written by hand in DER, with a key of this process."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_SHA256 = "2.16.840.1.101.3.4.2.1"
_ECDSA_SHA256 = "1.2.840.10045.4.3.2"
_SIGNED_DATA = "1.2.840.113549.1.7.2"
_TST_INFO = "1.2.840.113549.1.9.16.1.4"
_CONTENT_TYPE = "1.2.840.113549.1.9.3"
_MESSAGE_DIGEST = "1.2.840.113549.1.9.4"
_SIGNING_CERTIFICATE = "1.2.840.113549.1.9.16.2.47"


def tlv(tag: int, *parts: bytes) -> bytes:
    """One DER element."""
    body = b"".join(parts)
    size = len(body)
    if size < 128:
        return bytes([tag, size]) + body
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


def seq(*parts: bytes) -> bytes:
    return tlv(0x30, *parts)


def oid(dotted: str) -> bytes:
    first, second, *rest = (int(part) for part in dotted.split("."))
    out = bytearray([first * 40 + second])
    for number in rest:
        groups = [number & 0x7F]
        while number := number >> 7:
            groups.append(0x80 | (number & 0x7F))
        out += bytes(reversed(groups))
    return tlv(0x06, bytes(out))


def integer(number: int) -> bytes:
    return tlv(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def read(data: bytes, at: int = 0) -> tuple[int, bytes, int]:
    """Tag, content and end of the element at ``at``."""
    size, start = data[at + 1], at + 2
    if size & 0x80:
        width = size & 0x7F
        size, start = int.from_bytes(data[start : start + width], "big"), start + width
    return data[at], data[start : start + size], start + size


class TimestampAuthority:
    """Root and signing certificate, and what they stamp."""

    def __init__(self) -> None:
        self._root_key = ec.generate_private_key(ec.SECP256R1())
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._root = self._certificate("stamps root", self._root_key, ca=True)
        self._leaf = self._certificate("stamps", self._key, ca=False)
        self._serial = 0

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        return self._leaf, self._root

    def _certificate(self, name: str, key: ec.EllipticCurvePrivateKey, *, ca: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stamps root")]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=3650))
            .not_valid_after(now + timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._root_key.public_key()),
                critical=False,
            )
        )
        if not ca:
            usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
            builder = builder.add_extension(usage, critical=True)
        return builder.sign(self._root_key, hashes.SHA256())

    def answer(self, request: bytes) -> bytes:
        """The response to a ``TimeStampReq`` in DER."""
        _, body, _ = read(request)
        _, _, at = read(body)  # version
        _, imprint, at = read(body, at)
        _, _, end = read(imprint)
        _, digest, _ = read(imprint, end)
        nonce = None
        while at < len(body):
            tag, content, at = read(body, at)
            if tag == 0x02:
                nonce = content
        return self._respond(digest, nonce)

    def stamp(self, data: bytes, when: datetime | None = None) -> bytes:
        """A response for the SHA-256 of ``data``, as a client would get it."""
        return self._respond(hashlib.sha256(data).digest(), None, when)

    def _respond(self, digest: bytes, nonce: bytes | None, when: datetime | None = None) -> bytes:
        self._serial += 1
        sha256 = seq(oid(_SHA256))
        moment = (when or datetime.now(UTC)).strftime("%Y%m%d%H%M%SZ").encode()
        info = seq(
            integer(1),
            oid("1.3.6.1.4.1.57264.2"),
            seq(sha256, tlv(0x04, digest)),
            integer(self._serial),
            tlv(0x18, moment),
            *([tlv(0x02, nonce)] if nonce is not None else []),
        )
        leaf = self._leaf.public_bytes(serialization.Encoding.DER)
        attributes = b"".join(
            sorted(
                [
                    seq(oid(_CONTENT_TYPE), tlv(0x31, oid(_TST_INFO))),
                    seq(oid(_MESSAGE_DIGEST), tlv(0x31, tlv(0x04, hashlib.sha256(info).digest()))),
                    seq(
                        oid(_SIGNING_CERTIFICATE),
                        tlv(0x31, seq(seq(seq(tlv(0x04, hashlib.sha256(leaf).digest()))))),
                    ),
                ]
            )
        )
        signature = self._key.sign(tlv(0x31, attributes), ec.ECDSA(hashes.SHA256()))
        signer = seq(
            integer(1),
            seq(self._leaf.issuer.public_bytes(), integer(self._leaf.serial_number)),
            sha256,
            tlv(0xA0, attributes),
            seq(oid(_ECDSA_SHA256)),
            tlv(0x04, signature),
        )
        signed = seq(
            integer(3),
            tlv(0x31, sha256),
            seq(oid(_TST_INFO), tlv(0xA0, tlv(0x04, info))),
            tlv(0xA0, leaf),
            tlv(0x31, signer),
        )
        return seq(seq(integer(0)), seq(oid(_SIGNED_DATA), tlv(0xA0, signed)))
