"""Attestations beside their package: the ``.sigs`` files of CEP 50.

A sidecar is a JSON array of Sigstore bundles. It lies twice: at ``<file>.sigs``, which changes, and at
``<file>.sigs.<sha256>``, which does not; the record's ``attestations_sha256`` names the second. Bundles are
only ever appended, and those that are there stay byte for byte as they are.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

from channel_tools.channel.layout import label_of, label_prefix
from channel_tools.channel.stores.memory_store import MemoryStore
from channel_tools.channel.stores.store import NO_CACHE, Store
from channel_tools.channel.transaction.change import Addition, Replacement
from channel_tools.model.errors import AttestationError
from channel_tools.model.files import written_whole

MAX_SIZE = 4 * 1024 * 1024
"""Bytes of a sidecar that clients read at most (py-rattler's limit)."""

SHA256 = re.compile(r"[0-9a-f]{64}")

_SPACE = " \t\r\n"


def alias_key(key: str) -> str:
    """Key of the sidecar that changes, for the key of a package."""
    return f"{key}.sigs"


def sidecar_key(key: str, sha256: str) -> str:
    """Key of the sidecar that does not change."""
    return f"{key}.sigs.{sha256}"


def target_channel(url: str, key: str = "") -> str:
    """URL of the channel that a key belongs to, as clients name it and attestations have it.

    A label is a channel of its own to every client: ``https://host/rocm/label/gfx942``.
    """
    return f"{url.rstrip('/')}/{label_prefix(label_of(key))}".rstrip("/")


def split(content: bytes, where: str) -> list[bytes]:
    """The bundles of a sidecar, each as the bytes that it has there.

    :raises AttestationError: no JSON array with at least one object in it
    """
    try:
        text = content.decode()
        elements = json.loads(text)
        if not isinstance(elements, list) or not elements:
            raise ValueError("no array with bundles in it")
        if not all(isinstance(element, dict) for element in elements):
            raise ValueError("an element that is no object")
        bundles = []
        at = text.index("[") + 1
        for _ in elements:
            while text[at] in _SPACE + ",":
                at += 1
            _, end = json.JSONDecoder().raw_decode(text, at)
            bundles.append(text[at:end].encode())
            at = end
        return bundles
    except (ValueError, RecursionError) as error:
        raise AttestationError(
            "is no list of attestations",
            where=where,
            found=str(error),
            wanted="a JSON array of Sigstore bundles",
        ) from error


def appended(present: bytes | None, more: Sequence[bytes], where: str = "the attestations") -> bytes:
    """A sidecar with the bundles of ``present``, as they are, and those of ``more`` that it lacks.

    :raises AttestationError: ``present`` is no sidecar, ``more`` has something else than single bundles, or
        the result is too large for clients
    """
    old = [] if present is None else split(present, where)
    new: list[bytes] = []
    for bundle in more:
        (one,) = split(b"[" + bundle.strip() + b"]", where)
        if one not in old + new:
            new.append(one)
    if present is not None and not new:
        return present
    content = b"[" + b",\n".join(old + new) + b"]\n"
    if len(content) > MAX_SIZE:
        raise AttestationError(
            "holds more attestations than clients read",
            where=where,
            found=f"{len(content)} bytes",
            wanted=f"at most {MAX_SIZE}",
        )
    return content


def sigs_additions(key: str, bundles: bytes) -> tuple[Addition, tuple[str, Replacement], str]:
    """What a change does to store a sidecar.

    :param key: of the package
    :param bundles: the whole sidecar, as :func:`appended` makes it; one bundle alone is taken, too
    :returns: the addition, key and content of the alias, and the record's ``attestations_sha256``
    :raises AttestationError: neither a sidecar nor a bundle
    """
    content = appended(None, [bundles]) if bundles.lstrip().startswith(b"{") else bundles
    split(content, alias_key(key))
    sha256 = hashlib.sha256(content).hexdigest()
    name = sidecar_key(key, sha256)
    addition = Addition(name, (MemoryStore({name: content}), name), sha256, len(content))
    return addition, (alias_key(key), Replacement(content, NO_CACHE)), sha256


def read_sidecar(store: Store, key: str, sha256: str | None = None) -> bytes | None:
    """The sidecar that a package's record names, or the alias without a sha256; None when there is none."""
    if sha256 is not None and not SHA256.fullmatch(sha256):
        return None
    return store.read(alias_key(key) if sha256 is None else sidecar_key(key, sha256))


def add_to_file(package: Path, bundle: bytes) -> Path:
    """Put a bundle into the sidecar beside a package file, ``<file>.sigs``; what is there stays.

    :raises AttestationError: what is there is no sidecar
    :raises StorageError: it cannot be written
    """
    path = package.with_name(f"{package.name}.sigs")
    present = path.read_bytes() if path.exists() else None
    content = appended(present, [bundle], str(path))
    with written_whole(path) as temporary:
        temporary.write_bytes(content)
    return path
