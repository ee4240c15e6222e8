"""A channel in a bucket of an S3 service.

Endpoint, region and credentials come from the usual AWS configuration: environment, profile, or the
machine's role. Nothing is written without a condition (``If-None-Match`` or ``If-Match``), and a service that
does not honour conditions is refused. Each object carries its sha256 and the id of the call that wrote it
as metadata: a write whose answer was lost, and which its repetition then finds done, is known by that id.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from botocore import exceptions as aws

from channel_tools.channel.stores import s3_upload
from channel_tools.channel.stores.content import (
    CHUNK,
    changed_meanwhile,
    check_sha256,
    is_listed,
    other_content,
    reading_errors,
    stored_chunks,
    stream_sha256,
    write_chunks,
)
from channel_tools.channel.stores.s3_errors import is_missing, s3_errors
from channel_tools.channel.stores.s3_objects import S3Objects, make_client
from channel_tools.channel.stores.store import IMMUTABLE, Stat, Store
from channel_tools.model.errors import ConflictError, StorageError

PART_SIZE = 32 << 20


class S3Store:
    """Objects below one prefix of a bucket; see :class:`channel_tools.channel.stores.store.Store`.

    :param prefix: empty for the whole bucket
    :param client: of boto3; None for one by the usual AWS configuration
    :param part_size: bytes of a part; files of more than two parts go in parts
    :param parallel: parts sent at a time
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        client: Any = None,
        part_size: int = PART_SIZE,
        parallel: int = 4,
    ) -> None:
        self.client = make_client() if client is None else client
        self.bucket = bucket
        self.prefix = prefix.strip("/")
        self.part_size = part_size
        self.parallel = parallel
        self.objects = S3Objects(self.client, bucket, self.prefix)

    def __repr__(self) -> str:
        return f"S3Store({self.address!r})"

    @property
    def address(self) -> str:
        return self.objects.address

    @property
    def endpoint(self) -> str:
        """Address of the service."""
        return str(self.client.meta.endpoint_url)

    def now(self) -> float:
        return self.objects.now()

    def stat(self, key: str) -> Stat | None:
        head = self.objects.head(key)
        if head is None:
            return None
        return Stat(key, int(head["ContentLength"]), head["ETag"], head["LastModified"].timestamp())

    def read(self, key: str) -> bytes | None:
        found = self.read_with_etag(key)
        return None if found is None else found[0]

    def read_with_etag(self, key: str) -> tuple[bytes, str] | None:
        for _ in range(3):
            try:
                with self.objects.reader(key) as reader:
                    return reader.read(), reader.etag
            except ConflictError:  # replaced while it was read, after a connection broke
                continue
            except StorageError as error:
                if isinstance(error.__cause__, aws.ClientError) and is_missing(error.__cause__):
                    return None
                raise
        raise changed_meanwhile(self.objects.where(key))

    def open(self, key: str) -> IO[bytes]:
        return cast(IO[bytes], io.BufferedReader(self.objects.reader(key), CHUNK))

    def list(self, prefix: str = "") -> Iterator[Stat]:
        skip = len(self.objects.full(""))
        with s3_errors(self.objects.where(prefix)):
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self.objects.full(prefix)
            )
            for page in pages:
                for entry in page.get("Contents", ()):
                    key = entry["Key"][skip:]
                    if is_listed(key, prefix) and not key.endswith("/"):
                        yield Stat(key, entry["Size"], entry["ETag"], entry["LastModified"].timestamp())

    def put_new(self, key: str, content: bytes | Path, *, sha256: str, cache: str = IMMUTABLE) -> bool:
        if isinstance(content, bytes):
            return self._put_small(key, content, sha256, cache, key)
        with reading_errors(content):
            size = content.stat().st_size
        if size > CHUNK and self._is_same(key, sha256, size):
            return False
        if size <= 2 * self.part_size:
            with reading_errors(content):
                data = content.read_bytes()
            return self._put_small(key, data, sha256, cache, content)
        self.objects.check_conditions()
        try:
            s3_upload.upload_file(
                self.objects,
                key,
                content,
                sha256,
                cache,
                part_size=self.part_size,
                parallel=self.parallel,
            )
        except ConflictError:
            if self._is_same(key, sha256, size):
                return False
            raise
        return True

    def replace(self, key: str, content: bytes, *, expect: str | None, cache: str) -> str:
        self.objects.check_conditions()
        condition = {"IfNoneMatch": "*"} if expect is None else {"IfMatch": expect}
        return self.objects.put(key, content, hashlib.sha256(content).hexdigest(), cache, condition)

    def delete(self, key: str, *, expect: str | None = None) -> None:
        if expect is None:
            self.objects.delete(key, {})
            return
        found = self.stat(key)
        if found is None:
            return
        if found.etag != expect:
            raise changed_meanwhile(self.objects.where(key))
        self.objects.delete(key, {"IfMatch": expect})

    def copy_from(self, source: Store, source_key: str, key: str, *, sha256: str) -> bool:
        if not (isinstance(source, S3Store) and source.endpoint == self.endpoint):
            return self._copy_through_here(source, source_key, key, sha256)
        where = source.objects.where(source_key)
        head = source.objects.head(source_key)
        if head is None:
            raise StorageError("is not there", where=where)
        size = int(head["ContentLength"])
        if self._is_same(key, sha256, size):
            return False
        recorded = head["Metadata"].get("sha256")
        if recorded is None:
            with source.open(source_key) as stream:
                recorded = stream_sha256(stream)
        check_sha256(recorded, sha256, where)
        if size == 0:
            return self._put_small(key, b"", sha256, IMMUTABLE, where)
        self.objects.check_conditions()
        try:
            target = source.objects.target(source_key)
            s3_upload.copy_object(self.objects, key, target, head, where, sha256, IMMUTABLE)
        except ConflictError:
            if self._is_same(key, sha256, size):
                return False
            raise
        return True

    def stray(self, older: float = 3600.0) -> Sequence[str]:
        """Keys of uploads in parts that were begun ``older`` seconds ago or before and not completed."""
        return [key for key, _ in s3_upload.unfinished(self.objects, self.now() - older)]

    def clear_stray(self, older: float = 3600.0) -> Sequence[str]:
        """Drop what :meth:`stray` finds, and the notes about such uploads.

        :returns: what was dropped
        """
        limit = self.now() - older
        found = list(s3_upload.unfinished(self.objects, limit))
        for key, upload in found:
            s3_upload.abort(self.objects, key, upload)
        for note in list(self.list(s3_upload.NOTES)):
            if note.modified <= limit:
                self.objects.delete(note.key, {})
        return [key for key, _ in found]

    def _put_small(self, key: str, content: bytes, sha256: str, cache: str, origin: str | Path) -> bool:
        """Store what fits into one request."""
        self.objects.check_conditions()
        check_sha256(hashlib.sha256(content).hexdigest(), sha256, origin)
        try:
            self.objects.put(key, content, sha256, cache, {"IfNoneMatch": "*"})
        except ConflictError:
            if self._is_same(key, sha256, len(content)):
                return False
            raise
        return True

    def _is_same(self, key: str, sha256: str, size: int) -> bool:
        """False when the key is free, True when that content is there.

        :raises ChannelError: another content is there
        """
        head = self.objects.head(key)
        if head is None:
            return False
        recorded = head["Metadata"].get("sha256")
        if int(head["ContentLength"]) == size and recorded is None:
            with self.open(key) as stream:
                recorded = stream_sha256(stream)
        if int(head["ContentLength"]) != size or recorded != sha256:
            raise other_content(self.objects.where(key))
        return True

    def _copy_through_here(self, source: Store, source_key: str, key: str, sha256: str) -> bool:
        with tempfile.TemporaryDirectory(prefix="rocm-channel-copy-") as folder:
            copy = Path(folder, "copy")
            write_chunks(stored_chunks(source, source_key), copy)
            return self.put_new(key, copy, sha256=sha256)
