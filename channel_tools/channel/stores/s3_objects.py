"""Single requests to an S3 service, each with its errors, conditions and checks."""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import PurePosixPath
from typing import Any, cast

import boto3
import botocore.session
from botocore import exceptions as aws
from botocore.config import Config

from channel_tools.channel.layout import CONTROL
from channel_tools.channel.stores.content import changed_meanwhile, check_key
from channel_tools.channel.stores.s3_errors import code, is_busy, is_changed, is_missing, s3_errors, status
from channel_tools.channel.stores.s3_reader import S3Reader
from channel_tools.model.clock import elapsed
from channel_tools.model.errors import StorageError
from channel_tools.model.redaction import redact

PROBE_KEY = f"{CONTROL}conditions"
CONTENT_TYPES = {
    ".json": "application/json",
    ".sigs": "application/json",
    ".html": "text/html; charset=utf-8",
    ".zst": "application/zstd",
}
"""By suffix. No ``Content-Encoding``: clients unpack ``.zst`` themselves."""

Json = dict[str, Any]


def make_client() -> Any:
    """An S3 client by the usual AWS configuration.

    :raises AccessError: a profile that is not there, or has no credentials
    :raises StorageError: a configuration that no client can be made by
    """
    with s3_errors("S3"), _configuration_errors():
        session = botocore.session.Session()
        chosen = session.get_config_variable("max_attempts")
        return boto3.session.Session(botocore_session=session).client(
            "s3",
            config=Config(
                connect_timeout=10,
                read_timeout=60,
                max_pool_connections=16,
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                **({} if chosen else {"retries": {"total_max_attempts": 5}}),
            ),
        )


@contextmanager
def _configuration_errors() -> Iterator[None]:
    try:
        yield
    except ValueError as error:  # of an endpoint that is no address
        raise StorageError(
            "the configuration for S3 cannot be used",
            found=redact(str(error)),
            fix="check AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION, and the AWS tools' own files",
        ) from error


@dataclass(frozen=True)
class Place:
    """Where an object is to be: ``key`` with the channel's prefix, ``where`` for messages, and headers."""

    client: Any
    bucket: str
    key: str
    where: str
    headers: Json

    @property
    def target(self) -> Json:
        return {"Bucket": self.bucket, "Key": self.key}


class S3Objects:
    """The objects of a bucket below ``prefix``, which has no slash at its ends."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self.client = client
        self.bucket = bucket
        self.prefix = prefix
        self.address = f"s3://{bucket}/{prefix}".rstrip("/")
        self._clock: tuple[float, float] | None = None
        self._conditions_hold = False
        self._probing = threading.Lock()
        client.meta.events.register("after-call.s3", self._take_date)

    def now(self) -> float:
        """Time of the service by its last answer, to a second, and what has passed since."""
        if self._clock is None or elapsed() - self._clock[1] > 60:
            with s3_errors(self.address):
                self.client.head_bucket(Bucket=self.bucket)
        if self._clock is None:
            raise StorageError("the S3 service does not tell the time (no Date header)", where=self.address)
        return self._clock[0] + elapsed() - self._clock[1]

    def full(self, key: str) -> str:
        return f"{self.prefix}/{key}" if self.prefix else key

    def where(self, key: str) -> str:
        return f"{self.address}/{key}"

    def target(self, key: str) -> Json:
        check_key(key, self.address)
        return {"Bucket": self.bucket, "Key": self.full(key)}

    def place(self, key: str, sha256: str, cache: str) -> Place:
        """A place for that content; each has its own call id, by which :meth:`conditionally` knows it."""
        headers = {
            "CacheControl": cache,
            "ContentType": CONTENT_TYPES.get(PurePosixPath(key).suffix, "application/octet-stream"),
            "Metadata": {"sha256": sha256, "call": secrets.token_hex(8)},
        }
        target = self.target(key)
        return Place(self.client, target["Bucket"], target["Key"], self.where(key), headers)

    def reader(self, key: str) -> S3Reader:
        return S3Reader(self.client, self.target(key), self.where(key))

    def head(self, key: str) -> Json | None:
        """Headers and metadata of an object; None when it is not there."""
        target = self.target(key)
        with s3_errors(self.where(key)):
            try:
                return cast(Json, self.client.head_object(**target))
            except aws.ClientError as error:
                if is_missing(error):
                    return None
                raise

    def put(self, key: str, content: bytes, sha256: str, cache: str, condition: Json) -> str:
        """Write one object in one request, under a condition; its etag.

        :raises ConflictError: the condition does not hold
        :raises StorageError: also when other bytes arrived than were sent; those are removed again
        """
        place = self.place(key, sha256, cache)
        call = {**place.target, **place.headers, **digests(content), **condition}
        answer = self.conditionally(key, place, lambda: self.client.put_object(Body=content, **call))
        etag = str(answer["ETag"])
        if not arrived_whole(etag, content, answer):
            self.delete(key, {"IfMatch": etag})
            raise damaged_on_the_way(place.where)
        return etag

    def conditionally(self, key: str, place: Place, request: Callable[[], Json]) -> Json:
        """Make a conditional request; when only its answer was lost, the etag of what it wrote.

        :raises ConflictError: the condition does not hold
        """
        with s3_errors(place.where):
            for attempt in range(6):
                try:
                    return request()
                except aws.ClientError as error:
                    if is_busy(error) and attempt < 5:
                        time.sleep(0.05 * 2**attempt)
                        continue
                    lost = code(error) == "NoSuchUpload"
                    if not (lost or is_changed(error) or is_busy(error) or is_missing(error)):
                        raise
                    head = self.head(key)
                    if head is not None and head["Metadata"].get("call") == place.headers["Metadata"]["call"]:
                        return {"ETag": head["ETag"]}
                    if lost:
                        raise
                    raise changed_meanwhile(place.where) from error
        raise changed_meanwhile(place.where)

    def delete(self, key: str, condition: Json) -> None:
        """Delete an object, if it is there.

        :raises ConflictError: the condition does not hold
        """
        target = self.target(key)
        with s3_errors(self.where(key)):
            try:
                self.client.delete_object(**target, **condition)
            except aws.ClientError as error:
                if is_missing(error):
                    return
                if status(error) != 501:
                    raise
                self.client.delete_object(**target)  # a service without conditional deletes

    def check_conditions(self) -> None:
        """Refuse, before the first write, a service that ignores conditions: publishers would overwrite
        each other.

        :raises StorageError: it does
        """
        with self._probing:
            if self._conditions_hold:
                return
            free, other = {"IfNoneMatch": "*"}, {"IfMatch": f'"{"0" * 32}"'}
            with s3_errors(self.where(PROBE_KEY)):
                if self._writes(free) and self._writes(free):
                    raise _ignored("If-None-Match", self.address)
                if self._writes(other):
                    raise _ignored("If-Match", self.address)
            self._conditions_hold = True

    def _writes(self, condition: Json) -> bool:
        try:
            self.client.put_object(**self.target(PROBE_KEY), Body=b"", **condition)
        except aws.ClientError as error:
            if is_changed(error) or is_busy(error):
                return False
            raise
        return True

    def _take_date(self, http_response: Any, **_: Any) -> None:
        date = http_response.headers.get("Date")
        if date:
            with suppress(ValueError, TypeError):  # no date is none that could be trusted
                self._clock = (parsedate_to_datetime(date).timestamp(), elapsed())


def digests(data: bytes) -> Json:
    """Headers by which a service notices that bytes were lost or changed on the way."""
    return {
        "ContentMD5": _base64(_md5(data).digest()),
        "ChecksumSHA256": _base64(hashlib.sha256(data).digest()),
    }


def arrived_whole(etag: str, data: bytes, answer: Json) -> bool:
    """Did the bytes arrive as they were sent, as far as the service's answer tells?

    An etag is the MD5 of what arrived, unless the service encrypts with a key of the owner's.
    """
    plain = etag.strip('"')
    encrypted = "kms" in str(answer.get("ServerSideEncryption")) or "SSECustomerAlgorithm" in answer
    return encrypted or len(plain) != 32 or is_part(etag, data)


def is_part(etag: str, data: bytes) -> bool:
    """Has a stored part these bytes? Not known, and so False, where an etag is no MD5."""
    return bool(etag.strip('"') == _md5(data).hexdigest())


def damaged_on_the_way(where: str) -> StorageError:
    return StorageError(
        "arrived damaged at the S3 service, and was removed again", where=where, fix="try again"
    )


def _md5(data: bytes) -> Any:
    return hashlib.md5(data, usedforsecurity=False)


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode("ascii")


def _ignored(header: str, address: str) -> StorageError:
    return StorageError(
        f"the S3 service ignores the condition {header}, so publishers would overwrite each other",
        where=address,
        fix="use a service with conditional writes, or a folder channel",
    )
