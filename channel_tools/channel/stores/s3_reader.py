"""Reading one object as a stream that survives broken connections."""

from __future__ import annotations

import io
import time
from typing import Any

from botocore import exceptions as aws

from channel_tools.channel.stores.s3_errors import s3_errors

TRIES = 4


class S3Reader(io.RawIOBase):
    """The bytes of the object at ``target`` (``Bucket`` and ``Key``).

    A connection that breaks is opened again where it broke, for the same etag.

    :raises StorageError: not there, not readable, or broken more than :data:`TRIES` times in a row
    :raises ConflictError: another object took its place between two connections
    """

    _body: Any = None  # also where the first request failed: Python closes what it forgets

    def __init__(self, client: Any, target: dict[str, str], where: str) -> None:
        self._client = client
        self._target = target
        self._where = where
        self._position = 0
        self.etag = ""
        with s3_errors(where):
            answer = client.get_object(**self._target)
        self.etag = str(answer["ETag"])
        self.size = int(answer["ContentLength"])
        self._body = answer["Body"]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if not view or self._position >= self.size:
            return 0
        with s3_errors(self._where):
            for attempt in range(TRIES):
                try:
                    data = self._body.read(len(view))
                    if not data:
                        raise aws.IncompleteReadError(actual_bytes=self._position, expected_bytes=self.size)
                    view[: len(data)] = data
                    self._position += len(data)
                    return len(data)
                except (aws.HTTPClientError, aws.IncompleteReadError):
                    if attempt == TRIES - 1:
                        raise
                    time.sleep(0.1 * 2**attempt)
                    self._reopen()
        return 0

    def close(self) -> None:
        if not self.closed and self._body is not None:
            self._body.close()
        super().close()

    def _reopen(self) -> None:
        self._body.close()
        answer = self._client.get_object(**self._target, Range=f"bytes={self._position}-", IfMatch=self.etag)
        self._body = answer["Body"]
        skip = self._position if answer["ResponseMetadata"]["HTTPStatusCode"] == 200 else 0
        while skip > 0:  # a service that knows no ranges sends all of it again
            data = self._body.read(min(skip, 1 << 20))
            if not data:
                raise aws.IncompleteReadError(actual_bytes=0, expected_bytes=self.size)
            skip -= len(data)
