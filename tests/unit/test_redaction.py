"""No credential gets through, wherever it stands, and ordinary text stays as it is."""

from __future__ import annotations

import base64
import string
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from channel_tools.model.redaction import HIDDEN, redact

TOKENS = st.text(string.ascii_letters + string.digits + "-_", min_size=12, max_size=40)
PASSWORDS = st.text(string.ascii_letters + string.digits + "!$%&*+=:;.,~^-_@", min_size=8, max_size=40)

PLACES = [
    "cannot fetch https://{s}@host/channel/noarch/repodata.json: 403",
    "https://user:{s}@host:8443/x",
    "proxy http://user:{s}@10.0.0.1:3128 refused",
    "https://host/t/{s}/internal/noarch/repodata.json",
    "https://host/api/conda/t/{s}/noarch",
    "GET https://b.host/x?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={s}%2Faws4_request&X-Amz-Date=1",
    "GET https://b.host/x?partNumber=1&X-Amz-Signature={s}&x-id=PutObject",
    "https://host/x?X-Amz-Security-Token={s}",
    "https://host/x?AWSAccessKeyId={s}&Signature={s}&Expires=1",
    "https://host/x?token={s}",
    "https://host/x?access_token={s}#top",
    "aws_secret_access_key={s}",
    'AWS_SESSION_TOKEN="{s}"',
    "{{'api_key': '{s}', 'name': 'x'}}",
    '{{"password": "{s}"}}',
    '{{"X-Api-Key": "{s}"}}',
    "X-API-Key: {s}",
    "> Authorization: Bearer {s}\n> Accept: */*",
    "Authorization: AWS4-HMAC-SHA256 Credential={s}/20260101/us-east-1/s3/aws4_request, Signature={s}",
    "{{'Authorization': 'token {s}'}}",
    "Cookie: session={s}; other=1",
    "X-JFrog-Art-Api: {s}",
    "the server said: bearer a1{s} is not valid",
]


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=25, deadline=None)
@given(secret=TOKENS)
def test_a_credential_in_its_place(place: str, secret: str) -> None:
    if secret.lower() in place.lower():
        return
    text = redact(place.format(s=secret), {})
    assert secret not in text
    assert HIDDEN in text
    assert redact(text, {}) == text


@pytest.mark.parametrize(
    "name",
    [
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "PREFIX_API_KEY",
        "QUETZ_API_KEY",
        "ANACONDA_API_KEY",
        "ARTIFACTORY_TOKEN",
        "CLOUDSMITH_API_KEY",
        "GITHUB_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
        "CI_JOB_TOKEN",
        "TWINE_PASSWORD",
        "client_secret",
    ],
)
@settings(max_examples=25, deadline=None)
@given(secret=PASSWORDS, before=st.text(max_size=20), after=st.text(max_size=20))
@example(secret="p@ss%20word", before="", after="")
def test_the_value_of_a_variable(name: str, secret: str, before: str, after: str) -> None:
    for form in (secret, quote(secret, safe="")):
        text = redact(f"{before} {form} {after}", {name: secret, "OTHER_TOKEN": "abc"})
        assert form not in text or form in f"{before} {HIDDEN} {after}"


def test_a_longer_secret_that_holds_a_shorter_one() -> None:
    assert redact("abcdef123456", {"A_TOKEN": "abcdef", "B_TOKEN": "abcdef123456"}) == HIDDEN


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:p@ss@host/x", f"https://{HIDDEN}@host/x"),
        ("s3://key:secret@bucket/x", f"s3://{HIDDEN}@bucket/x"),
        ("https://host/t/tk-123/ch/linux-64/x.conda", f"https://host/t/{HIDDEN}/ch/linux-64/x.conda"),
        ("key AKIAIOSFODNN7EXAMPLE is not known", f"key {HIDDEN} is not known"),
        ("ASIAIOSFODNN7EXAMPLE", HIDDEN),
        ("ghp_" + "a1" * 18, HIDDEN),
        ("glpat-" + "a1" * 10, HIDDEN),
        ("pfx_" + "a1" * 10, HIDDEN),
        ("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln-_x", HIDDEN),
        ("Basic " + base64.b64encode(b"user:hunter22").decode(), f"Basic {HIDDEN}"),
    ],
)
def test_how_it_is_shown(text: str, shown: str) -> None:
    assert redact(text, {}) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cannot be written: the disk is full",
        "basic information about the bearer of bad news",
        "wrong token: expected a number",
        "max_tokens=4096 tokenizer=fast",
        "git clone ssh://git@github.com/org/repo",
        "/tmp/t/x/y and file:///home/me/t/x",
        "https://host/channel/linux-64/torch-2.11.0-rocm72_gfx942_py312_h0123456_0.conda",
        "mail to release@example.org",
        "s3://bucket/prefix",
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        'the password is asked for, not read ("password")',
        "torch==2.11.0+rocm7.2",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text, {"HOME": "/home/me", "FLAG_TOKEN": "true", "TOKEN": "x"}) == text


def test_variables_that_hold_no_secret_stay() -> None:
    environment = {
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token",
        "SSH_AUTH_SOCK": "/tmp/agent",
        "PATH": "/usr/bin",
    }
    text = "reads /var/run/token by /tmp/agent in /usr/bin"
    assert redact(text, environment) == text


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_taken_and_nothing_is_redacted_twice(text: str) -> None:
    once = redact(text, {})
    assert redact(once, {}) == once


def test_long_text_is_quick() -> None:
    for text in ("a" * 200_000, "://" * 50_000, "x_" * 100_000, "https://h/" + "a/" * 100_000, "'" * 100_000):
        redact(text, {})
