"""A Sigstore of our own, for tests: certificate authority, two transparency logs and a timestamp authority.

It makes what a private instance makes, with new keys in each process, so that no test needs the network. Its
mistakes are made on request: see :meth:`PrivateSigstore.bundle`. Formats: RFC 6962 for both logs, Rekor's
``dsse`` entries (0.0.1) and ``hashedrekord`` entries (0.0.2), Fulcio's certificate extensions.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from tests.integration.private_log import Log, b64, canonical, sign_with, spki
from tests.integration.private_tsa import TimestampAuthority

ISSUER = "https://token.ci.internal.example"
IDENTITY = "https://ci.internal.example/rocm/packages/.ci/publish.yml@refs/tags/v1"
IN_TOTO = "application/vnd.in-toto+json"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
KEPT_YEARS = timedelta(days=3650)

_FULCIO_ISSUER = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_FULCIO_ISSUER_V2 = ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_SCT_LIST = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _octets(data: bytes, tag: int = 0x04) -> bytes:
    length = len(data)
    head = bytes([length]) if length < 128 else b"\x82" + struct.pack("!H", length)
    return bytes([tag]) + head + data


def pae(payload: bytes) -> bytes:
    """What a DSSE signature covers."""
    return b"DSSEv1 %d %s %d %s" % (len(IN_TOTO), IN_TOTO.encode(), len(payload), payload)


def authority(
    subject: str, parent: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None = None
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """A certificate authority; a root where there is no parent."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer, signer = (_name(subject), key) if parent is None else (parent[0].subject, parent[1])
    now = datetime.now(UTC)
    usages = [ExtendedKeyUsageOID.CODE_SIGNING]
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - KEPT_YEARS)
        .not_valid_after(now + KEPT_YEARS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0 if parent else 1), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if parent:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    return builder.sign(signer, hashes.SHA256()), key


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


class PrivateSigstore:
    """The instance. ``url`` is where its services answer, when they do."""

    def __init__(self, url: str = "https://sigstore.internal.example") -> None:
        self.url = url
        self.root = authority("private root")
        self.intermediate = authority("private intermediate", self.root)
        self.certificates = Log("ctlog.internal.example")
        self.entries = Log("rekor.internal.example")
        self.stamps = TimestampAuthority()

    def trusted_root(self) -> dict[str, Any]:
        """What a site hands to its consumers: ``trusted_root.json``."""
        chain = [{"rawBytes": b64(der(one))} for one in (self.intermediate[0], self.root[0])]
        stamps = [{"rawBytes": b64(der(one))} for one in self.stamps.chain]
        valid = {"start": "2020-01-01T00:00:00Z"}
        subject = {"organization": "internal", "commonName": "internal"}
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [self.entries.trusted(self.url)],
            "certificateAuthorities": [
                {"subject": subject, "uri": self.url, "certChain": {"certificates": chain}, "validFor": valid}
            ],
            "ctlogs": [self.certificates.trusted(self.url)],
            "timestampAuthorities": [
                {
                    "subject": subject,
                    "uri": self.url,
                    "certChain": {"certificates": stamps},
                    "validFor": valid,
                }
            ],
        }

    def certify(
        self,
        public_key: Any,
        identity: str = IDENTITY,
        issuer: str = ISSUER,
        *,
        start: datetime | None = None,
        minutes: float = 10,
        logged: bool = True,
    ) -> x509.Certificate:
        """A short-lived certificate for an identity, with the certificate log's promise in it."""
        start = start or datetime.now(UTC) - timedelta(seconds=5)
        parent, key = self.intermediate
        san: x509.GeneralName = (
            x509.UniformResourceIdentifier(identity) if "://" in identity else x509.RFC822Name(identity)
        )
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(parent.subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + timedelta(minutes=minutes))
            .add_extension(_key_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
            )
            .add_extension(x509.SubjectAlternativeName([san]), critical=True)
            .add_extension(x509.UnrecognizedExtension(_FULCIO_ISSUER, issuer.encode()), critical=False)
            .add_extension(
                x509.UnrecognizedExtension(_FULCIO_ISSUER_V2, _octets(issuer.encode(), 0x0C)), critical=False
            )
        )
        if not logged:
            return builder.sign(key, hashes.SHA256())
        promise = self._certificate_promise(builder.sign(key, hashes.SHA256()), start)
        return builder.add_extension(x509.UnrecognizedExtension(_SCT_LIST, promise), critical=False).sign(
            key, hashes.SHA256()
        )

    def _certificate_promise(self, precertificate: x509.Certificate, when: datetime) -> bytes:
        tbs = precertificate.tbs_certificate_bytes
        milliseconds = int(when.timestamp()) * 1000
        issuer = hashlib.sha256(spki(self.intermediate[1])).digest()
        signed = struct.pack("!BBQH", 0, 0, milliseconds, 1) + issuer
        signed += struct.pack("!I", len(tbs))[1:] + tbs + b"\0\0"
        signature = sign_with(self.certificates.key, signed)
        one = b"\0" + self.certificates.id + struct.pack("!Q", milliseconds) + b"\0\0"
        one += b"\4\3" + struct.pack("!H", len(signature)) + signature
        return _octets(struct.pack("!HH", len(one) + 2, len(one)) + one)

    def log_entry(
        self, envelope: dict[str, Any], certificate: x509.Certificate, version: int
    ) -> dict[str, Any]:
        """A log entry for a signed envelope; version 2 has no time of its own."""
        signature = envelope["signatures"][0]["sig"]
        if version == 1:
            body = canonical(dsse_entry(envelope, certificate))
            kind = {"kind": "dsse", "version": "0.0.1"}
        else:
            body = canonical(hashed_entry(pae(base64.b64decode(envelope["payload"])), signature, certificate))
            kind = {"kind": "hashedrekord", "version": "0.0.2"}
        return self.entry(body, kind, version)

    def entry(self, body: bytes, kind: dict[str, str], version: int) -> dict[str, Any]:
        proof = self.entries.append(body)
        entry = {
            "logIndex": proof["logIndex"],
            "logId": {"keyId": b64(self.entries.id)},
            "kindVersion": kind,
            "inclusionProof": proof,
            "canonicalizedBody": b64(body),
        }
        if version == 1:
            when = int(time.time())
            promise = self.entries.promise(body, int(proof["logIndex"]), when)
            entry |= {
                "integratedTime": str(when),
                "inclusionPromise": {"signedEntryTimestamp": b64(promise)},
            }
        return entry

    def bundle(
        self,
        statement: bytes,
        identity: str = IDENTITY,
        issuer: str = ISSUER,
        *,
        version: int = 1,
        stamped: bool | None = None,
        promised: bool = True,
        logged: bool = True,
        start: datetime | None = None,
    ) -> bytes:
        """A signed statement as a bundle.

        :param stamped: with a time stamp; by default where the log entry has no time
        :param promised: with the log's signed time
        :param logged: with the certificate log's promise in the certificate
        :param start: when the certificate's ten minutes began
        """
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self.certify(key.public_key(), identity, issuer, start=start, logged=logged)
        signature = sign_with(key, pae(statement))
        envelope = {
            "payload": b64(statement),
            "payloadType": IN_TOTO,
            "signatures": [{"sig": b64(signature)}],
        }
        entry = self.log_entry(envelope, certificate, version)
        if not promised:
            entry.pop("inclusionPromise", None)
        stamps = [self.stamps.stamp(signature)] if (version == 2 if stamped is None else stamped) else []
        material: dict[str, Any] = {
            "certificate": {"rawBytes": b64(der(certificate))},
            "tlogEntries": [entry],
            "timestampVerificationData": {
                "rfc3161Timestamps": [{"signedTimestamp": b64(one)} for one in stamps]
            },
        }
        return json.dumps(
            {"mediaType": BUNDLE, "verificationMaterial": material, "dsseEnvelope": envelope}
        ).encode()


def dsse_entry(envelope: dict[str, Any], certificate: x509.Certificate) -> dict[str, Any]:
    """Rekor 1's entry for an envelope."""
    payload = base64.b64decode(envelope["payload"])
    signature = {"signature": envelope["signatures"][0]["sig"], "verifier": b64(pem(certificate))}
    return {
        "apiVersion": "0.0.1",
        "kind": "dsse",
        "spec": {
            "envelopeHash": {"algorithm": "sha256", "value": hashlib.sha256(canonical(envelope)).hexdigest()},
            "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()},
            "signatures": [signature],
        },
    }


def hashed_entry(signed: bytes, signature: str, certificate: x509.Certificate) -> dict[str, Any]:
    """Rekor 2's entry for what was signed."""
    verifier = {
        "x509Certificate": {"rawBytes": b64(der(certificate))},
        "keyDetails": "PKIX_ECDSA_P256_SHA_256",
    }
    digest = b64(hashlib.sha256(signed).digest())
    return {
        "apiVersion": "0.0.2",
        "kind": "hashedrekord",
        "spec": {
            "hashedRekordV002": {
                "data": {"algorithm": "SHA2_256", "digest": digest},
                "signature": {"content": signature, "verifier": verifier},
            }
        },
    }
