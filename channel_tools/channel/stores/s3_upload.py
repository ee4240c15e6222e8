"""Large objects in parts: sent, taken up again after a break, or copied on the server.

A note, ``.channel/uploads/<hash of key and content>.json``, remembers an upload that was begun, so that the
same content for the same key goes on where an earlier try broke off, and other content never does. An
object made of parts appears when the upload is completed, on the condition that its key is still free.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from botocore import exceptions as aws

from channel_tools.channel.layout import CONTROL
from channel_tools.channel.stores.content import check_sha256, chunks
from channel_tools.channel.stores.s3_errors import code, s3_errors
from channel_tools.channel.stores.s3_objects import (
    Json,
    Place,
    S3Objects,
    arrived_whole,
    damaged_on_the_way,
    digests,
    is_part,
)
from channel_tools.channel.stores.store import NO_CACHE
from channel_tools.model.errors import ConflictError, DamagedFileError, StorageError

NOTES = f"{CONTROL}uploads/"
NOTE = {"upload": str, "part_size": int, "call": str}
"""What a note says: the upload's id, bytes of a part, and the id of the call that the object will carry."""

MAX_PARTS = 10_000
COPY_PART = 256 << 20
"""Bytes that the server copies in one request: few enough to answer before a time-out."""


def upload_file(
    objects: S3Objects, key: str, path: Path, sha256: str, cache: str, *, part_size: int, parallel: int
) -> None:
    """Send a file in parts, or those parts that an earlier try did not send.

    :param part_size: bytes of a part
    :param parallel: parts sent at a time
    :raises ConflictError: the key was taken meanwhile
    :raises DamagedFileError: the file has another sha256
    """
    name = f"{NOTES}{hashlib.sha256(f'{key} {sha256}'.encode()).hexdigest()[:32]}.json"
    place = objects.place(key, sha256, cache)
    upload, part_size, there = _resume(objects, name, place) or _begin(objects, name, place, part_size)
    try:
        parts = _send(place, upload, path, part_size, sha256, there, parallel)
        _complete(objects, key, place, upload, parts, path.stat().st_size)
    except (ConflictError, DamagedFileError):
        _abort(place, upload)
        objects.delete(name, {})
        raise
    objects.delete(name, {})


def copy_object(
    objects: S3Objects, key: str, source: Json, head: Json, where: str, sha256: str, cache: str
) -> None:
    """Have the server copy an object, as long as it is the one of ``head``.

    :param source: ``Bucket`` and ``Key`` of it
    :raises ConflictError: the key was taken meanwhile, or the source changed
    """
    size = int(head["ContentLength"])
    place = objects.place(key, sha256, cache)
    upload = _create(place)
    spans = _spans(size, COPY_PART)
    parts = []
    try:
        for number, (first, length) in enumerate(spans, 1):
            span = {"CopySourceRange": f"bytes={first}-{first + length - 1}"} if len(spans) > 1 else {}
            call = {**place.target, "UploadId": upload, "PartNumber": number, **span}
            with s3_errors(where):
                answer = objects.client.upload_part_copy(
                    CopySource=source, CopySourceIfMatch=head["ETag"], **call
                )
            parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
        _complete(objects, key, place, upload, parts, size)
    except BaseException:
        _abort(place, upload)
        raise


def unfinished(objects: S3Objects, limit: float) -> Iterator[tuple[str, str]]:
    """Key and id of each upload that was begun before ``limit`` (seconds since 1970) and is not complete.

    One that a note from after ``limit`` names is left for the next try to go on with.
    """
    skip = len(objects.full(""))
    kept = {entry["upload"] for entry in _notes(objects, limit)}
    with s3_errors(objects.address):
        pages = objects.client.get_paginator("list_multipart_uploads").paginate(
            Bucket=objects.bucket, Prefix=objects.full("")
        )
        for page in pages:
            for entry in page.get("Uploads", ()):
                if entry["Initiated"].timestamp() <= limit and entry["UploadId"] not in kept:
                    yield entry["Key"][skip:], entry["UploadId"]


def _notes(objects: S3Objects, limit: float) -> Iterator[Json]:
    pages = objects.client.get_paginator("list_objects_v2").paginate(
        Bucket=objects.bucket, Prefix=objects.full(NOTES)
    )
    with s3_errors(objects.where(NOTES)):
        for page in pages:
            for entry in page.get("Contents", ()):
                if entry["LastModified"].timestamp() > limit:
                    note = _read_note(objects, entry["Key"][len(objects.full("")) :])
                    if note is not None:
                        yield note


def abort(objects: S3Objects, key: str, upload: str) -> None:
    """Drop an upload and its parts."""
    _abort(objects.place(key, "", NO_CACHE), upload)


def _resume(objects: S3Objects, name: str, place: Place) -> tuple[str, int, dict[int, Json]] | None:
    """Id, part size in bytes, and parts by number, of an upload of this content that broke off."""
    note = _read_note(objects, name)
    if note is None:
        return None
    upload, part_size = note["upload"], note["part_size"]
    place.headers["Metadata"]["call"] = note["call"]
    with s3_errors(place.where):
        try:
            pages = place.client.get_paginator("list_parts").paginate(**place.target, UploadId=upload)
            parts = {part["PartNumber"]: part for page in pages for part in page.get("Parts", ())}
        except aws.ClientError as error:
            if code(error) not in ("NoSuchUpload", "404"):
                raise
            objects.delete(name, {})
            return None
    return upload, part_size, parts


def _read_note(objects: S3Objects, name: str) -> Json | None:
    """A note; None when there is none, or none that can be read."""
    if objects.head(name) is None:
        return None
    try:
        with objects.reader(name) as reader:
            entry = json.loads(reader.read())
        return {name: kind(entry[name]) for name, kind in NOTE.items()}
    except (ValueError, KeyError, TypeError):
        objects.delete(name, {})
        return None


def _begin(objects: S3Objects, name: str, place: Place, part_size: int) -> tuple[str, int, dict[int, Json]]:
    upload = _create(place)
    entry = {"upload": upload, "part_size": part_size, "call": place.headers["Metadata"]["call"]}
    note = json.dumps({"version": 1, **entry}).encode() + b"\n"
    objects.put(name, note, hashlib.sha256(note).hexdigest(), NO_CACHE, {"IfNoneMatch": "*"})
    return upload, part_size, {}


def _create(place: Place) -> str:
    with s3_errors(place.where):
        return str(place.client.create_multipart_upload(**place.target, **place.headers)["UploadId"])


def _send(
    place: Place, upload: str, path: Path, part_size: int, sha256: str, there: dict[int, Json], parallel: int
) -> list[Json]:
    """Send what is not there with the right size and digest; number and etag of all parts."""
    whole = hashlib.sha256()
    done: list[Json] = []
    waiting: deque[Future[Json]] = deque()
    pool = ThreadPoolExecutor(parallel, thread_name_prefix="upload")
    try:
        for number, data in enumerate(_pieces(path, part_size), 1):
            whole.update(data)
            part = there.get(number)
            if part is not None and is_part(str(part["ETag"]), data):
                done.append({"PartNumber": number, "ETag": part["ETag"]})
                continue
            if len(waiting) >= parallel:
                done.append(waiting.popleft().result())
            waiting.append(pool.submit(_send_part, place, upload, number, data))
        done += [future.result() for future in waiting]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    check_sha256(whole.hexdigest(), sha256, path)
    return sorted(done, key=lambda part: int(part["PartNumber"]))


def _send_part(place: Place, upload: str, number: int, data: bytes) -> Json:
    call = {**place.target, "UploadId": upload, "PartNumber": number}
    with s3_errors(place.where):
        answer = place.client.upload_part(Body=data, ContentMD5=digests(data)["ContentMD5"], **call)
    if not arrived_whole(answer["ETag"], data, answer):
        raise StorageError("a part arrived damaged at the S3 service", where=place.where, fix="try again")
    return {"PartNumber": number, "ETag": answer["ETag"]}


def _complete(objects: S3Objects, key: str, place: Place, upload: str, parts: list[Json], size: int) -> None:
    """Make the object of its parts, if its key is still free."""

    def request() -> Json:
        objects.client.complete_multipart_upload(
            **place.target, UploadId=upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
        )
        return {}

    objects.conditionally(key, place, request)
    head = objects.head(key)
    if head is None or int(head["ContentLength"]) != size:
        objects.delete(key, {"IfMatch": head["ETag"]} if head else {})
        raise damaged_on_the_way(place.where)


def _abort(place: Place, upload: str) -> None:
    with s3_errors(place.where):
        try:
            place.client.abort_multipart_upload(**place.target, UploadId=upload)
        except aws.ClientError as error:
            if code(error) not in ("NoSuchUpload", "404"):
                raise


def _spans(size: int, part_size: int) -> list[tuple[int, int]]:
    """Offset and length in bytes of each part, no more of them than S3 takes."""
    part_size = max(part_size, -(-size // MAX_PARTS))
    return [(first, min(part_size, size - first)) for first in range(0, size, part_size)]


def _pieces(path: Path, part_size: int) -> Iterator[bytes]:
    """The file in its parts."""
    buffer = bytearray()
    source = chunks(path)
    for _, length in _spans(path.stat().st_size, part_size):
        while len(buffer) < length and (chunk := next(source, None)):
            buffer += chunk
        yield bytes(buffer[:length])
        del buffer[:length]
    if buffer or next(source, None):
        raise StorageError("grew while it was read", where=path, fix="wait until it is whole")
