"""What an attestation is held against: whom to believe, and how strictly.

Trust comes from the one who checks, never from the channel: the trusted root is a file of the consumer's, or
the public Sigstore's keys as py-rattler has them built in. A ``trusted_root.json`` beside the packages could
be changed along with them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from channel_tools.channel.settings import Publisher, Settings
from channel_tools.model import environment
from channel_tools.model.errors import AttestationError

Mode = Literal["off", "warn", "require"]

_REFS = re.compile(r"@refs/(tags|heads)/[^*]*$")

_NEEDED = {
    "certificateAuthorities": "certificates of the authority that certifies signers",
    "ctlogs": "keys of the log of certificates",
    "tlogs": "keys of the log of signatures",
}


@dataclass(frozen=True)
class Policy:
    """Who may have signed, and which keys vouch for it.

    :param publishers: one of them must have signed. An identity may end in ``@refs/tags/*``, or in another
        part of a ref and ``*``: a CI system names the tag or branch that a workflow ran for
    :param trusted_root: text of a ``trusted_root.json``; None: the public instance's, built into py-rattler
    """

    mode: Mode
    publishers: tuple[Publisher, ...]
    trusted_root: str | None = None

    @classmethod
    def of(
        cls,
        settings: Settings | None,
        trusted_root: Path | None = None,
        mode: Mode | None = None,
        publishers: Sequence[Publisher] = (),
    ) -> Policy:
        """The policy of a check.

        :param settings: the channel's own, for what is not given: its mode and publishers. A consumer who
            names publishers does not depend on what the channel says of itself.
        :param trusted_root: file; ROCM_CHANNEL_TRUSTED_ROOT where None
        :raises AttestationError: a trusted root that cannot be used, or nobody who may sign
        """
        mode = mode or (settings.attestations if settings else "off")
        named = tuple(publishers) or (settings.publishers if settings else ())
        if mode == "off":
            return cls("off", named)
        if not named:
            raise AttestationError(
                "attestations are to be checked, and nobody is named who may sign",
                wanted="the signer's identity and its issuer",
                fix="name them with --identity and --issuer, or in the channel's settings: "
                "`rocm-channel channel init CHANNEL --change --publisher identity=...,issuer=...`",
            )
        for publisher in named:
            check_publisher(publisher)
        return cls(mode, named, read_trusted_root(trusted_root))


def check_publisher(publisher: Publisher) -> None:
    """Can certificates name this one?

    :raises AttestationError: no address of an OIDC issuer, or a ``*`` that would let in more than the refs of
        one workflow
    """
    identity, star, rest = publisher.identity.partition("*")
    if star and (rest or not _REFS.search(identity)):
        raise AttestationError(
            "names more signers than one workflow",
            where=publisher.identity,
            wanted="a * at the very end, after @refs/tags/ or @refs/heads/",
        )
    parts = urlsplit(publisher.issuer)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise AttestationError(
            "is no issuer of identities",
            where=publisher.issuer,
            wanted="its https address, as https://token.actions.githubusercontent.com",
        )


def read_trusted_root(path: Path | None) -> str | None:
    """Text of the consumer's trusted root; None for the public instance's.

    :param path: file; ROCM_CHANNEL_TRUSTED_ROOT where None
    :raises AttestationError: no such file, no trusted root, or one that can verify nothing
    """
    path = path or environment.read_path("ROCM_CHANNEL_TRUSTED_ROOT")
    if path is None:
        return None
    fix = "ask who runs the Sigstore instance for its trusted_root.json"
    try:
        data: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise AttestationError(
            f"the trusted root cannot be read: {error.strerror or error}", where=path, fix=fix
        ) from error
    except ValueError as error:
        raise AttestationError("is no trusted root", where=path, found=str(error), fix=fix) from error
    if isinstance(data, dict) and "trustedRoot" in data:
        data = data["trustedRoot"]  # a client's trust configuration holds one
    if not isinstance(data, dict) or "trustedroot" not in str(data.get("mediaType")):
        raise AttestationError("is no trusted root", where=path, wanted="its mediaType", fix=fix)
    for key, meaning in _NEEDED.items():
        if not data.get(key):
            raise AttestationError(
                "the trusted root can verify nothing", where=path, found=f"no {key}", wanted=meaning, fix=fix
            )
    return json.dumps(data)
