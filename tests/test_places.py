"""Local paths and object stores: other schemes are rejected, and no error repeats the secrets of a URL."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import invoke

from accord.edges import BadInput, MissingExtra, redact_message, secrets
from accord.formats import delete_file, find_files, list_names, open_file, write_file

PASSWORD, TOKEN, SHORT = "hunter22-of-ada", "t0k3n-in-the-query", "pw"
OTHERS = [
    "http://{user}127.0.0.1:9/a.jsonl{query}", "https://{user}127.0.0.1:9/a.jsonl{query}", "ftp://{user}h/a.jsonl",
    "sftp://{user}h/a", "ssh://{user}h/a", "smb://{user}h/a", "github://{user}repo/a", "git://{user}repo", "memory://a",
    "file:///etc/passwd", "local:///etc/passwd", "data://a", "zip://a.zip", "tar://a.tar", "dbfs://{user}a",
    "webhdfs://{user}h/a", "hdfs://{user}h/a", "reference://a", "cached://a", "hf://{user}a", "S3://{user}bucket/a",
    "simplecache::s3://{user}bucket/a", "s3://bucket/a::http://{user}h/b{query}", "://a", "\x1b[31m://{user}a", "x" * 5000 + "://a",
]  # fmt: skip
OF_STORES = ["s3://{user}bucket/a.jsonl{query}", "gs://{user}bucket/a{query}", "abfs://{user}account/a{query}"]


@pytest.fixture(autouse=True)
def no_secrets_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_registered", set())


def with_secrets(url: str, password: str) -> str:
    return url.replace("{user}", f"ada:{password}@").replace("{query}", f"?X-Amz-Signature={TOKEN}")


def assert_one_clean_line(text: str) -> None:
    assert text.count("\n") <= 1 and "Traceback" not in text and "\x1b" not in text and len(text) < 1000
    assert not any(secret in text for secret in (PASSWORD, TOKEN, f":{SHORT}@"))


@pytest.mark.parametrize("password", [PASSWORD, SHORT])
@pytest.mark.parametrize("url", OTHERS, ids=lambda url: url[:40])
@pytest.mark.attack
def test_other_schemes_are_rejected(url: str, password: str) -> None:
    named = with_secrets(url, password)
    for use in (find_files, list_names, open_file, delete_file, lambda name: write_file(name, b"")):
        with pytest.raises(BadInput, match="is not supported; name a local path, or s3://, gs:// or az://") as caught:
            use(named)
        assert_one_clean_line(str(caught.value))


@pytest.mark.parametrize("password", [PASSWORD, SHORT])
@pytest.mark.parametrize("url", OF_STORES)
@pytest.mark.attack
def test_stores_reject_credentials_in_the_url(url: str, password: str) -> None:
    with pytest.raises(BadInput, match="with a user or a password") as caught:
        find_files(with_secrets(url, password))
    assert_one_clean_line(str(caught.value))


@pytest.mark.parametrize("url", ["s3://[::1/a", "s3://", "s3:///", "s3://b c\0/a", "gs://a", "az://a", "abfs://c@a/b"])
@pytest.mark.attack
def test_malformed_store_urls_are_one_line_errors(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with pytest.raises((BadInput, MissingExtra)) as caught:
        find_files(url)
    assert_one_clean_line(str(caught.value).replace("\0", ""))


@pytest.mark.parametrize("password", [PASSWORD, SHORT])
@pytest.mark.parametrize("url", [*OTHERS[:3], *OF_STORES], ids=lambda url: url[:40])
@pytest.mark.parametrize(
    "command", [["import", "{}"], ["score", "{}", "--out", "o.jsonl"], ["score", "a.jsonl", "--out", "{}"],
                ["export", "o.jsonl", "--scores", "{}"], ["follow", "{}", "--out", "o.jsonl", "--once"],
                ["export", "{}"], ["store", "backup", "{}"], ["report", "--out", "{}"], ["init", "{}"]],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.attack
def test_commands_never_repeat_the_secrets_of_a_url(
    command: list[str], url: str, password: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = with_secrets(url, password)
    result = invoke(*(each.replace("{}", named) for each in command), code=None)
    output = result.stderr
    assert not any(secret in output for secret in (PASSWORD, TOKEN, f":{SHORT}@")), output


@pytest.mark.parametrize(
    ("text", "shown"),
    [("at ftp://a:b@c@host/x", "at ftp://[secret]@host/x"), ("no file http:/ada:b@host/x", "no file http:/[secret]@host/x"),
     ("s3://b/x?sig=a&sv=2", "s3://b/x?sig=[secret]&sv=2"), ("C:/ada@home stays", "C:/ada@home stays"),
     ("https://host/a?version=2 and b@c.test", "https://host/a?version=2 and b@c.test")],
)  # fmt: skip
def test_messages_hide_the_secrets_of_urls(text: str, shown: str) -> None:
    assert redact_message(text) == shown
