"""What botocore and S3 services say, as errors that tell an operator what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore import exceptions as aws

from channel_tools.model.errors import AccessError, ConflictError, StorageError
from channel_tools.model.redaction import redact

CREDENTIALS = (
    "give credentials by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile (AWS_PROFILE), or this "
    "machine's role"
)
NO_CREDENTIALS = (
    aws.NoCredentialsError,
    aws.PartialCredentialsError,
    aws.CredentialRetrievalError,
    aws.ProfileNotFound,
    aws.TokenRetrievalError,
    aws.UnauthorizedSSOTokenError,
    aws.SSOTokenLoadError,
)
UNREACHABLE = (aws.EndpointConnectionError, aws.ConnectTimeoutError, aws.ProxyConnectionError, aws.SSLError)
BROKEN = (
    aws.ReadTimeoutError,
    aws.ConnectionClosedError,
    aws.IncompleteReadError,
    aws.ResponseStreamingError,
    aws.HTTPClientError,
)
DAMAGED = frozenset(
    {
        "BadDigest",
        "InvalidDigest",
        "IncompleteBody",
        "XAmzContentSHA256Mismatch",
        "XAmzContentChecksumMismatch",
    }
)
CHANGED = frozenset({"PreconditionFailed", "412"})
BUSY = frozenset({"ConditionalRequestConflict", "OperationAborted", "409"})
MISSING = frozenset({"NoSuchKey", "404", "NotFound"})


def code(error: aws.ClientError) -> str:
    """Error code of an answer: ``NoSuchKey``, or the HTTP status where the service gave no code."""
    return str(error.response.get("Error", {}).get("Code") or status(error))


def status(error: aws.ClientError) -> int:
    """HTTP status of an answer; 0 when there was none."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)


def is_changed(error: aws.ClientError) -> bool:
    """Did the condition of a write not hold?"""
    return code(error) in CHANGED or status(error) == 412


def is_missing(error: aws.ClientError) -> bool:
    """Is there no such object? A missing bucket is another matter, where the service tells them apart."""
    return code(error) in MISSING or (status(error) == 404 and code(error) != "NoSuchBucket")


def is_busy(error: aws.ClientError) -> bool:
    """Was it refused only because another write went on just then?"""
    return code(error) in BUSY or status(error) == 409


@contextmanager
def s3_errors(where: str) -> Iterator[None]:
    """Turn errors of botocore in the block into a :class:`StorageError` that names ``where``.

    :raises AccessError: credentials are missing, wrong, or not enough
    :raises ConflictError: a condition that did not hold
    """
    try:
        yield
    except aws.ClientError as error:
        raise _of_answer(error, where) from error
    except (aws.BotoCoreError, aws.HTTPClientError) as error:
        raise _of_client(error, where) from error


def _of_answer(error: aws.ClientError, where: str) -> StorageError | ConflictError:
    name, number = code(error), status(error)
    said = redact(str(error.response.get("Error", {}).get("Message") or ""))
    found = f"status {number}, {name}" + (f": {said}" if said and said != name else "")
    if number in (401, 403) or name in ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"):
        return AccessError(
            f"the S3 service refused access to {error.operation_name}",
            where=where,
            found=found,
            fix=f"{CREDENTIALS}; docs/channel.md has the policy that a publisher needs",
        )
    if name in ("ExpiredToken", "RequestExpired", "InvalidToken", "TokenRefreshRequired"):
        return AccessError(
            "the S3 credentials are not valid any more", where=where, found=found, fix=CREDENTIALS
        )
    if name == "NoSuchBucket":
        return StorageError(
            "there is no such bucket",
            where=where,
            found=found,
            fix="make the bucket, or check name and region",
        )
    if is_changed(error) or is_busy(error):
        return ConflictError("was changed by somebody else meanwhile", where=where, found=found)
    if number in (301, 307) or name in ("AuthorizationHeaderMalformed", "PermanentRedirect"):
        return StorageError(
            "the bucket lies in another region",
            where=where,
            found=found,
            fix="set AWS_REGION to the bucket's",
        )
    if name == "NoSuchUpload":
        return StorageError(
            "an upload in parts was dropped by somebody else", where=where, found=found, fix="try again"
        )
    if name in DAMAGED:
        return StorageError(
            "arrived damaged at the S3 service, which refused it", where=where, found=found, fix="try again"
        )
    if is_missing(error):
        return StorageError("is not there", where=where, found=found)
    if number >= 500 or number == 429 or name == "SlowDown":
        tries = int(error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0)) + 1
        return StorageError(
            f"the S3 service failed in {tries} {'tries' if tries > 1 else 'try'}",
            where=where,
            found=found,
            fix="try again later; nothing that consumers read was changed by this request",
        )
    return StorageError(f"the S3 service refused {error.operation_name}", where=where, found=found)


def _of_client(error: Any, where: str) -> StorageError:
    said = redact(str(error))
    if isinstance(error, NO_CREDENTIALS):
        return AccessError("no S3 credentials", where=where, found=said, fix=CREDENTIALS)
    if isinstance(error, UNREACHABLE):
        return StorageError(
            "the S3 service cannot be reached",
            where=where,
            found=said,
            fix="check the network, and AWS_ENDPOINT_URL_S3 if the service is not AWS",
        )
    if isinstance(error, BROKEN):
        return StorageError(
            "the S3 service did not answer in time, or broke off", where=where, found=said, fix="try again"
        )
    return StorageError("the S3 request could not be made", where=where, found=said)
