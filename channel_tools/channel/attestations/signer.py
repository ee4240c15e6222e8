"""Signing with sigstore's own client, at the public instance or a private one.

Nothing here keeps a key. The signer's identity comes from an OIDC token: of the CI system that the process
runs in, or from SIGSTORE_ID_TOKEN.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from channel_tools.model import environment
from channel_tools.model.errors import AttestationError, ToolMissingError
from channel_tools.model.redaction import redact

if TYPE_CHECKING:
    from sigstore.models import ClientTrustConfig
    from sigstore.sign import Signer as SigstoreSigner

TRIES = 3
PAUSE = 1.0
"""Seconds before the second try; twice that before the third."""
TIMEOUT = 60.0
"""Seconds that a signature may take in all. sigstore's client itself waits for ever."""

_T = TypeVar("_T")
_REACH = "check that the instance runs and that this host reaches it"


def token_from_environment() -> str:
    """An OIDC token for Sigstore: SIGSTORE_ID_TOKEN, else the CI system's.

    :raises AttestationError: there is none
    """
    given = environment.read("SIGSTORE_ID_TOKEN")
    if given:
        return given
    fix = (
        "in GitHub Actions give the job `permissions: id-token: write`, in GitLab CI an `id_tokens: "
        "SIGSTORE_ID_TOKEN` with `aud: sigstore`; elsewhere set SIGSTORE_ID_TOKEN"
    )
    from sigstore.errors import Error
    from sigstore.oidc import detect_credential

    try:
        found = detect_credential()
    except Error as error:
        raise AttestationError(
            "the CI system gives no OIDC token", found=redact(str(error)), fix=fix
        ) from error
    if found is None:
        raise AttestationError(
            "there is no OIDC token to sign with", found="no CI system that gives one", fix=fix
        )
    return found


class Signer:
    """Signs statements with one short-lived certificate after the other.

    :param trust_config: of a private instance (JSON, Sigstore's ``ClientTrustConfig``);
        ROCM_CHANNEL_TRUST_CONFIG where None, the public instance where that is unset
    :param token: gives an OIDC token whenever a new certificate is needed
    :param timeout: seconds for one signature
    :raises ToolMissingError: sigstore is not installed
    :raises AttestationError: the trust configuration cannot be used
    """

    def __init__(
        self,
        trust_config: Path | None = None,
        token: Callable[[], str] = token_from_environment,
        timeout: float = TIMEOUT,
    ) -> None:
        try:
            import sigstore.sign  # noqa: F401
        except ImportError as error:
            raise ToolMissingError(
                "signing needs the Python package sigstore",
                found=str(error),
                fix="in the checkout: pip install -e '.[sign]'",
            ) from error
        self._path = trust_config or environment.read_path("ROCM_CHANNEL_TRUST_CONFIG")
        self._token = token
        self._timeout = timeout
        self._config = self._guarded("the trust configuration cannot be used", self._read_config)
        self._signer: SigstoreSigner | None = None

    @property
    def where(self) -> str:
        return "the public Sigstore" if self._path is None else str(self._path)

    def sign(self, content: bytes) -> bytes:
        """A signed statement: one Sigstore bundle (v0.3) as JSON.

        :param content: of :func:`statement`
        :raises AttestationError: no token, one that is refused, or an instance that does not answer
        """
        return self._guarded("the statement cannot be signed", lambda: self._with_tries(content))

    def trusted_root(self) -> str:
        """Text of the instance's ``trusted_root.json``: what its signatures are checked with."""
        root: str = self._config._inner.trusted_root.to_json()
        return root

    def _read_config(self) -> ClientTrustConfig:
        from sigstore.models import ClientTrustConfig

        if self._path is None:
            return ClientTrustConfig.production()
        config = ClientTrustConfig.from_json(self._path.read_text(encoding="utf-8"))
        config.signing_config.get_tlogs()
        return config

    def _with_tries(self, content: bytes) -> bytes:
        from sigstore.dsse import Statement

        for number in range(1, TRIES + 1):
            try:
                if self._signer is None:
                    self._signer = self._new_signer()
                return self._signer.sign_dsse(Statement(content)).to_json().encode()
            except Exception as error:
                if type(error).__name__ == "ExpiredCertificate":
                    self._signer = None
                elif number == TRIES or not _may_pass(error):
                    raise
                else:
                    time.sleep(number * PAUSE)
        raise AttestationError("the certificate expires before it can be used", where=self.where)

    def _new_signer(self) -> SigstoreSigner:
        from sigstore.oidc import IdentityToken
        from sigstore.sign import Signer as SigstoreSigner
        from sigstore.sign import SigningContext

        return SigstoreSigner(IdentityToken(self._token()), SigningContext.from_trust_config(self._config))

    def _guarded(self, what: str, call: Callable[[], _T]) -> _T:
        """The result of a call into sigstore, in time, and its failures in our words."""
        try:
            return _within(self._timeout, call)
        except AttestationError:
            raise
        except TimeoutError as error:
            raise AttestationError(
                what, where=self.where, found=f"no answer for {self._timeout:g} seconds", fix=_REACH
            ) from error
        except Exception as error:
            raise AttestationError(
                what, where=self.where, found=redact(_reason(error)), fix=_fix(error)
            ) from error


def _within(seconds: float, call: Callable[[], _T]) -> _T:
    done: list[_T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(call())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)  # a hanging request must not keep the process alive
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not done:
        raise TimeoutError
    return done[0]


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _status(error: BaseException) -> int | None:
    """HTTP status behind an exception of sigstore's clients, which hide it."""
    for one in _chain(error):
        response: Any = getattr(one, "response", None)
        if response is not None:
            return int(response.status_code)
    return None


def _may_pass(error: BaseException) -> bool:
    """Can the same request succeed in a moment? Lost connections and the server's own faults can."""
    import requests

    status = _status(error)
    if status is not None:
        return status >= 500 or status == 429
    return any(isinstance(one, requests.ConnectionError | requests.Timeout) for one in _chain(error))


def _reason(error: BaseException) -> str:
    """What sigstore's clients know of a failure; some of their exceptions say nothing."""
    for one in _chain(error):
        response: Any = getattr(one, "response", None)
        if response is not None:
            return f"HTTP {response.status_code} from {response.url}: {response.text[:200].strip()}"
    texts = [str(one) or type(one).__name__ for one in _chain(error)]
    return ": ".join(dict.fromkeys(texts[:2]))


def _fix(error: BaseException) -> str:
    status = _status(error)
    if status in (400, 401, 403):
        return "get a new OIDC token, for the audience sigstore, from an issuer that the instance accepts"
    if any("token" in str(one).lower() for one in _chain(error)):
        return "get a new OIDC token with the audience sigstore"
    if any(isinstance(one, OSError) for one in _chain(error)):
        return _REACH
    return "check the instance and its trust configuration"
