"""A channel in a bucket: against an S3 server (moto), and a proxy that fails as services and networks do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from channel_tools.channel.stores.opening import open_store
from channel_tools.channel.stores.s3_objects import make_client
from channel_tools.channel.stores.s3_store import S3Store
from channel_tools.channel.stores.store import IMMUTABLE, NO_CACHE, SHORT
from channel_tools.model.errors import (
    AccessError,
    ChannelError,
    ConflictError,
    DamagedFileError,
    StorageError,
)
from tests.integration.faulty_proxy import Fault, Proxy, faulty_proxy
from tests.integration.s3 import S3Server, s3_server  # noqa: F401
from tests.unit.store_contract import KEY, StoreContract, digest, put

MIB = 1 << 20
SESSION = boto3.session.Session()
REPODATA = "linux-64/repodata.json"


class TestContract(StoreContract):
    @pytest.fixture
    def store(self, s3_server: S3Server) -> S3Store:  # noqa: F811
        return s3_server.store()

    @pytest.fixture
    def other(self, s3_server: S3Server) -> S3Store:  # noqa: F811
        return s3_server.store("")


@pytest.fixture
def proxy(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:  # noqa: F811
    with faulty_proxy(s3_server.endpoint) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", running.endpoint)
        yield running


@pytest.fixture
def bucket(s3_server: S3Server) -> str:  # noqa: F811
    return s3_server.bucket()


def quick_client(**options: Any) -> Any:
    """A client that does not wait long and tries twice."""
    config = {"read_timeout": 0.7, "connect_timeout": 1, "retries": {"total_max_attempts": 2}, **options}
    return SESSION.client(
        "s3",
        endpoint_url=os.environ["AWS_ENDPOINT_URL_S3"],
        region_name="us-east-1",
        aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        config=Config(request_checksum_calculation="when_required", **config),
    )


@pytest.fixture
def faulty(proxy: Proxy, bucket: str) -> S3Store:
    """A store behind the proxy that has been written to once."""
    store = S3Store(bucket, "ch", client=quick_client(), part_size=5 * MIB, parallel=2)
    store.replace(REPODATA, b"old", expect=None, cache=SHORT)
    proxy.asked.clear()
    proxy.headers.clear()
    return store


@pytest.fixture
def big(tmp_path: Path) -> Path:
    path = tmp_path / "big.conda"
    path.write_bytes(os.urandom(18 * MIB))
    return path


def sha(path: Path) -> str:
    return digest(path.read_bytes())


def test_the_address_names_bucket_and_prefix(bucket: str) -> None:
    store = open_store(f"s3://{bucket}/team/internal/")
    assert store.address == f"s3://{bucket}/team/internal"
    put(store, KEY, b"x")
    assert S3Store(bucket, "team").read(f"internal/{KEY}") == b"x"
    assert open_store(f"s3://{bucket}").address == f"s3://{bucket}"


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (REPODATA, "application/json"),
        ("linux-64/repodata.json.zst", "application/zstd"),
        ("linux-64/repodata_shards.msgpack.zst", "application/zstd"),
        ("index.html", "text/html; charset=utf-8"),
        (f"{KEY}.sigs", "application/json"),
        (KEY, "application/octet-stream"),
    ],
)
def test_headers_that_clients_see(s3_server: S3Server, key: str, kind: str) -> None:  # noqa: F811
    store = s3_server.store()
    etag = store.replace(key, b"x", expect=None, cache=SHORT)
    head = store.client.head_object(Bucket=store.bucket, Key=f"internal/{key}")
    assert (head["ContentType"], head["CacheControl"], head["ETag"]) == (kind, SHORT, etag)
    assert not head.get("ContentEncoding")
    put(store, f"a/{key}", b"x")
    head = store.client.head_object(Bucket=store.bucket, Key=f"internal/a/{key}")
    assert head["CacheControl"] == IMMUTABLE


def test_the_clock_is_the_services(faulty: S3Store, proxy: Proxy) -> None:
    faulty.read(REPODATA)
    before = len(proxy.asked)
    assert abs(faulty.now() - time.time()) < 3
    assert len(proxy.asked) == before, "the last answer told the time"


def test_an_object_of_another_tool_is_compared_by_its_bytes(faulty: S3Store) -> None:
    faulty.client.put_object(Bucket=faulty.bucket, Key=f"ch/{KEY}", Body=b"one")
    assert not put(faulty, KEY, b"one")
    with pytest.raises(ChannelError, match="other content"):
        put(faulty, KEY, b"two")


class TestParts:
    def test_a_large_file_goes_in_parts(self, faulty: S3Store, proxy: Proxy, big: Path) -> None:
        assert faulty.put_new(KEY, big, sha256=sha(big))
        assert proxy.count("partNumber=") == 4
        assert faulty.read(KEY) == big.read_bytes()
        assert not faulty.put_new(KEY, big, sha256=sha(big))
        assert proxy.count("partNumber=") == 4, "nothing is sent again"
        assert not faulty.stray(0)
        assert not list(faulty.list(".channel/uploads/"))
        head = faulty.client.head_object(Bucket=faulty.bucket, Key=f"ch/{KEY}")
        assert head["CacheControl"] == IMMUTABLE

    def test_an_upload_that_broke_off_goes_on(self, faulty: S3Store, proxy: Proxy, big: Path) -> None:
        proxy.faults.append(Fault("partNumber=3", "status"))
        with pytest.raises(StorageError):
            faulty.put_new(KEY, big, sha256=sha(big))
        assert faulty.stat(KEY) is None
        assert faulty.stray(0) == [KEY]
        proxy.faults.clear()
        proxy.asked.clear()
        assert faulty.put_new(KEY, big, sha256=sha(big))
        sent = [asked for asked, _ in proxy.asked if "partNumber=" in asked]
        assert not any("partNumber=1&" in s or "partNumber=2&" in s for s in sent), sent
        assert 1 <= len(sent) <= 2
        assert faulty.read(KEY) == big.read_bytes()
        assert not faulty.stray(0) and not list(faulty.list(".channel/uploads/"))

    def test_other_content_never_goes_on(self, faulty: S3Store, proxy: Proxy, big: Path) -> None:
        """Not even content whose first parts are the same."""
        proxy.faults.append(Fault("partNumber=4", "status", times=2))
        with pytest.raises(StorageError):
            faulty.put_new(KEY, big, sha256=sha(big))
        changed = big.read_bytes()[:-1] + b"!"
        big.write_bytes(changed)
        assert faulty.put_new(KEY, big, sha256=digest(changed))
        assert faulty.read(KEY) == changed
        assert not put(faulty, KEY, changed)
        assert faulty.stray(0) == [KEY], "of the first content"
        assert not faulty.stray(), "a fresh note keeps it"
        assert faulty.clear_stray(0) == [KEY]
        assert not faulty.stray(0) and not list(faulty.list(".channel/uploads/"))
        assert faulty.read(KEY) == changed

    def test_an_upload_that_was_dropped_starts_again(self, faulty: S3Store, proxy: Proxy, big: Path) -> None:
        proxy.faults.append(Fault("partNumber=3", "status", times=2))
        with pytest.raises(StorageError):
            faulty.put_new(KEY, big, sha256=sha(big))
        (upload,) = faulty.client.list_multipart_uploads(Bucket=faulty.bucket)["Uploads"]
        faulty.client.abort_multipart_upload(
            Bucket=faulty.bucket, Key=upload["Key"], UploadId=upload["UploadId"]
        )
        assert faulty.put_new(KEY, big, sha256=sha(big))
        assert faulty.read(KEY) == big.read_bytes()

    def test_a_wrong_sha256_stores_nothing(self, faulty: S3Store, big: Path) -> None:
        with pytest.raises(DamagedFileError):
            faulty.put_new(KEY, big, sha256=digest(b""))
        assert faulty.stat(KEY) is None and not faulty.stray(0)

    def test_a_key_taken_meanwhile(self, faulty: S3Store, proxy: Proxy, big: Path) -> None:
        """The other content comes between the look at the key and the completion of the upload."""
        for content, outcome in ((b"other", ChannelError), (big.read_bytes(), None)):
            key = f"noarch/{len(content)}.conda"

            original = faulty.client.complete_multipart_upload

            def complete(
                *, _key: str = key, _content: bytes = content, _call: Any = original, **options: Any
            ) -> Any:
                faulty.client.put_object(
                    Bucket=faulty.bucket,
                    Key=f"ch/{_key}",
                    Body=_content,
                    Metadata={"sha256": digest(_content)},
                )
                return _call(**options)

            faulty.client.complete_multipart_upload = complete
            if outcome is None:
                assert not faulty.put_new(key, big, sha256=sha(big))
            else:
                with pytest.raises(outcome, match="other content"):
                    faulty.put_new(key, big, sha256=sha(big))
            faulty.client.complete_multipart_upload = original
            assert faulty.read(key) == content
            assert not faulty.stray(0) and not list(faulty.list(".channel/uploads/"))

    def test_a_killed_upload_goes_on_in_the_next_process(
        self, faulty: S3Store, proxy: Proxy, big: Path
    ) -> None:
        proxy.faults.append(Fault("partNumber=3", "hang", seconds=30))
        script = f"""
from pathlib import Path
from channel_tools.channel.stores.s3_store import S3Store
store = S3Store({faulty.bucket!r}, "ch", part_size=5 << 20, parallel=1)
store.put_new({KEY!r}, Path({str(big)!r}), sha256={sha(big)!r})
"""
        process = subprocess.Popen([sys.executable, "-c", script])
        while not proxy.count("partNumber=3"):
            time.sleep(0.02)
        process.kill()
        process.wait()
        proxy.faults.clear()
        proxy.asked.clear()
        assert faulty.put_new(KEY, big, sha256=sha(big))
        assert proxy.count("partNumber=") == 2
        assert faulty.read(KEY) == big.read_bytes()


class TestCopy:
    def test_on_the_server(self, faulty: S3Store, proxy: Proxy, big: Path) -> None:
        faulty.put_new(KEY, big, sha256=sha(big))
        proxy.asked.clear()
        prod = S3Store(faulty.bucket, "prod", client=faulty.client)
        assert prod.copy_from(faulty, KEY, KEY, sha256=sha(big))
        assert sum(length for _, length in proxy.asked) < 2000
        assert not proxy.count(f"GET .*/ch/{KEY}")
        assert prod.read(KEY) == big.read_bytes()
        assert not prod.copy_from(faulty, KEY, KEY, sha256=sha(big))
        head = prod.client.head_object(Bucket=prod.bucket, Key=f"prod/{KEY}")
        assert head["CacheControl"] == IMMUTABLE
        assert head["Metadata"]["sha256"] == sha(big)

    def test_in_several_parts(self, faulty: S3Store, big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("channel_tools.channel.stores.s3_upload.COPY_PART", 5 * MIB)
        faulty.put_new(KEY, big, sha256=sha(big))
        prod = S3Store(faulty.bucket, "prod", client=faulty.client)
        assert prod.copy_from(faulty, KEY, KEY, sha256=sha(big))
        assert prod.read(KEY) == big.read_bytes()

    def test_that_fails_leaves_nothing(self, faulty: S3Store, proxy: Proxy) -> None:
        put(faulty, KEY, b"x" * 100)
        prod = S3Store(faulty.bucket, "prod", client=faulty.client)
        proxy.faults.append(Fault("partNumber=1", "status"))
        with pytest.raises(StorageError):
            prod.copy_from(faulty, KEY, KEY, sha256=digest(b"x" * 100))
        assert not list(prod.list()) and not prod.stray(0)

    def test_between_two_services(self, faulty: S3Store, s3_server: S3Server) -> None:  # noqa: F811
        put(faulty, KEY, b"x" * 100)
        prod = S3Store(s3_server.bucket(), "prod", client=s3_server.client())
        assert prod.endpoint != faulty.endpoint
        assert prod.copy_from(faulty, KEY, KEY, sha256=digest(b"x" * 100))
        assert prod.read(KEY) == b"x" * 100


class TestFaults:
    """One clear error, and the old state stays."""

    @pytest.mark.parametrize(
        ("fault", "error", "words"),
        [
            (Fault("", "status", 403, "AccessDenied", "no"), AccessError, ["refused access", "AWS_PROFILE"]),
            (Fault("", "status", 401, "Unauthorized", "who"), AccessError, ["refused access"]),
            (Fault("", "status", 400, "ExpiredToken", "old"), AccessError, ["not valid any more"]),
            (Fault("", "status", 404, "NoSuchBucket", "none"), StorageError, ["no such bucket"]),
            (Fault("", "status", 412, "PreconditionFailed", "no"), ConflictError, ["somebody else"]),
            (Fault("", "status", 500), StorageError, ["2 tries", "status 500", "try again later"]),
            (Fault("", "status", 503, "SlowDown", "slow"), StorageError, ["2 tries", "SlowDown"]),
            (Fault("", "status", 400, "BadDigest", "x"), StorageError, ["arrived damaged"]),
            (Fault("", "status", 301, "PermanentRedirect", "x"), StorageError, ["another region"]),
            (Fault("", "status", 418, "Teapot", "x"), StorageError, ["Teapot", "418"]),
            (Fault("", "hang"), StorageError, ["did not answer in time"]),
            (Fault("", "drop"), StorageError, ["broke off"]),
        ],
        ids=lambda value: f"{value.kind} {value.code} {value.status}" if isinstance(value, Fault) else "",
    )
    def test_writing(
        self, faulty: S3Store, proxy: Proxy, fault: Fault, error: type[Exception], words: list[str]
    ) -> None:
        found = faulty.read_with_etag(REPODATA)
        assert found is not None
        fault.pattern = "^PUT"
        proxy.faults.append(fault)
        with pytest.raises(error) as caught:
            faulty.replace(REPODATA, b"new", expect=found[1], cache=SHORT)
        text = str(caught.value)
        assert all(word in text for word in words), text
        assert f"s3://{faulty.bucket}/ch/{REPODATA}" in text
        assert "secret-of-the-tests" not in text
        assert faulty.read_with_etag(REPODATA) == found

    @pytest.mark.parametrize(
        ("fault", "error"),
        [
            (Fault("", "status", 403, "AccessDenied"), AccessError),
            (Fault("", "status", 404, "NoSuchBucket"), StorageError),
            (Fault("", "status", 500), StorageError),
            (Fault("", "hang"), StorageError),
        ],
        ids=["403", "no bucket", "500", "time-out"],
    )
    def test_reading(self, faulty: S3Store, proxy: Proxy, fault: Fault, error: type[Exception]) -> None:
        fault.pattern = "^(GET|HEAD)"
        proxy.faults.append(fault)
        faulty = S3Store(faulty.bucket, "ch", client=quick_client(retries={"total_max_attempts": 1}))
        with pytest.raises(error):
            faulty.read(REPODATA)
        with pytest.raises(error):
            list(faulty.list())
        if fault.code != "NoSuchBucket":  # an answer to HEAD has no body to tell it from a missing object
            with pytest.raises(error):
                faulty.stat(REPODATA)

    @pytest.mark.parametrize("kind", ["status", "hang", "drop"])
    def test_a_passing_failure_is_not_noticed(self, faulty: S3Store, proxy: Proxy, kind: str) -> None:
        proxy.faults.append(Fault("", kind, times=1))
        assert put(faulty, KEY, b"x")
        proxy.faults.append(Fault("", kind, times=1))
        assert faulty.read(KEY) == b"x"

    def test_a_busy_service_is_asked_again(self, faulty: S3Store, proxy: Proxy) -> None:
        proxy.faults.append(Fault("^PUT", "status", 409, "ConditionalRequestConflict", times=2))
        assert put(faulty, KEY, b"x")

    def test_a_lost_answer_to_a_write_that_was_done(self, faulty: S3Store, proxy: Proxy, big: Path) -> None:
        """Its repetition finds the object there, and knows by the call's id that it is its own."""
        proxy.faults.append(Fault("^PUT", "lose answer", times=1))
        assert put(faulty, KEY, b"x")
        proxy.faults.append(Fault("^PUT", "lose answer", times=1))
        found = faulty.read_with_etag(REPODATA)
        assert found is not None
        etag = faulty.replace(REPODATA, b"new", expect=found[1], cache=SHORT)
        assert faulty.read_with_etag(REPODATA) == (b"new", etag)
        proxy.faults.append(Fault("^POST.*uploadId", "lose answer", times=1))
        assert faulty.put_new("noarch/big.conda", big, sha256=sha(big))
        assert faulty.read("noarch/big.conda") == big.read_bytes()

    def test_a_lost_answer_and_another_writer(self, faulty: S3Store, proxy: Proxy) -> None:
        found = faulty.read_with_etag(REPODATA)
        assert found is not None
        proxy.faults.append(Fault("^PUT", "drop", times=1))
        other = faulty.replace(REPODATA, b"theirs", expect=found[1], cache=SHORT)
        proxy.faults.append(Fault("^PUT", "drop", times=1))
        with pytest.raises(ConflictError):
            faulty.replace(REPODATA, b"mine", expect=found[1], cache=SHORT)
        assert faulty.read_with_etag(REPODATA) == (b"theirs", other)

    def test_a_truncated_upload_is_noticed_and_removed(
        self, faulty: S3Store, proxy: Proxy, big: Path, tmp_path: Path
    ) -> None:
        proxy.faults.append(Fault(f"^PUT.*{KEY}", "cut upload"))
        small = tmp_path / "small"
        small.write_bytes(os.urandom(100_000))
        for path in (small, big):
            with pytest.raises(StorageError, match="damaged"):
                faulty.put_new(KEY, path, sha256=sha(path))
            assert faulty.stat(KEY) is None

    def test_an_answer_that_breaks_off_is_read_on(self, faulty: S3Store, proxy: Proxy, big: Path) -> None:
        faulty.put_new(KEY, big, sha256=sha(big))
        proxy.faults.append(Fault(f"^GET.*{KEY}", "cut answer", times=2))
        assert faulty.read(KEY) == big.read_bytes()
        proxy.faults.append(Fault(f"^GET.*{KEY}", "cut answer", times=3))
        with faulty.open(KEY) as stream:
            assert digest(stream.read()) == sha(big)

    def test_an_answer_that_always_breaks_off(self, faulty: S3Store, proxy: Proxy) -> None:
        put(faulty, KEY, b"xy")
        proxy.faults.append(Fault(f"^GET.*{KEY}", "cut answer"))
        proxy.faults.insert(0, Fault(f"^GET.*{KEY}", "drop", skip=1))
        with pytest.raises(StorageError):
            faulty.read(KEY)

    def test_a_service_that_ignores_conditions_is_refused(self, bucket: str, proxy: Proxy) -> None:
        for header, name in (("if-none-match", "If-None-Match"), ("if-match", "If-Match")):
            proxy.drop_headers = frozenset({header})
            store = S3Store(bucket, header, client=quick_client())
            with pytest.raises(StorageError, match=f"ignores the condition {name}"):
                put(store, KEY, b"x")
            assert not list(store.list())

    def test_conditions_are_tried_once(self, faulty: S3Store, proxy: Proxy) -> None:
        put(faulty, KEY, b"x")
        assert len(proxy.asked) == 1


def test_no_such_bucket(s3_server: S3Server) -> None:  # noqa: F811
    store = S3Store("no-such-bucket-here")
    with pytest.raises(StorageError, match="no such bucket"):
        store.read("channel.json")
    with pytest.raises(StorageError, match="no such bucket"):
        put(store, KEY, b"x")


def test_a_service_that_is_not_there(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(StorageError, match="cannot be reached") as caught:
        S3Store("bucket").read("channel.json")
    assert "AWS_ENDPOINT_URL_S3" in str(caught.value)


def test_no_credentials(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(AccessError, match="no S3 credentials") as caught:
        S3Store("bucket").read("channel.json")
    assert caught.value.exit_code == 46
    assert "AWS_ACCESS_KEY_ID" in str(caught.value)


def test_a_profile_that_is_not_there(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(AccessError, match="nobody"):
        open_store("s3://bucket/x")


def test_a_profile_gives_endpoint_and_credentials(
    s3_server: S3Server,  # noqa: F811
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"[profile site]\nregion = eu-west-1\nendpoint_url = {s3_server.endpoint}\nmax_attempts = 2\n"
        "aws_access_key_id = AKIAPROFILEPROFILE00\naws_secret_access_key = x\n"
    )
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "site")
    client = make_client()
    assert client.meta.endpoint_url == s3_server.endpoint
    assert client.meta.region_name == "eu-west-1"
    assert client.meta.config.retries["total_max_attempts"] == 2
    store = S3Store(bucket, client=client)
    assert put(store, KEY, b"x")
    store.replace("yanked.json", b"{}", expect=None, cache=NO_CACHE)
