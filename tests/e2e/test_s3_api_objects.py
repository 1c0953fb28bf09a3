"""Objects and copies of them: bytes, keys, headers, metadata."""

import datetime

import pytest

from s3api import MIB, body, bucket, md5, pytestmark, refused, s3  # noqa: F401: fixtures


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 65537, MIB, 3 * MIB + 17])
def test_what_is_put_is_got(s3, bucket, size):
    data = body(size, seed=size)
    put = s3.put_object(Bucket=bucket, Key="key", Body=data)
    assert put["ETag"] == f'"{md5(data)}"'
    got = s3.get_object(Bucket=bucket, Key="key")
    assert got["Body"].read() == data
    assert got["ETag"] == put["ETag"] and got["ContentLength"] == size
    assert got["AcceptRanges"] == "bytes"
    head = s3.head_object(Bucket=bucket, Key="key")
    assert head["ETag"] == put["ETag"] and head["ContentLength"] == size
    age = datetime.datetime.now(datetime.timezone.utc) - head["LastModified"]
    assert abs(age.total_seconds()) < 600


@pytest.mark.parametrize(
    "key", ["a", "a/b/c", "a//b", "/leading", "trailing/", "spaces and + & = ?", "ünïcödé/日本語", "%41%2F", "x" * 1024, "."]
)
def test_keys_of_all_kinds(s3, bucket, key):
    s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()
    assert [item["Key"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]] == [key]


def test_a_key_above_1024_bytes_is_refused(s3, bucket):
    refused(s3.put_object, "KeyTooLongError", 400, Bucket=bucket, Key="x" * 1025, Body=b"")


def test_an_object_is_replaced(s3, bucket):
    for text in (b"first", b"second and longer"):
        s3.put_object(Bucket=bucket, Key="k", Body=text)
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == text


def test_what_is_not_there_is_not_found(s3, bucket):
    refused(s3.get_object, "NoSuchKey", 404, Bucket=bucket, Key="none")
    refused(s3.head_object, "404", 404, Bucket=bucket, Key="none")


def test_delete_is_idempotent(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for _ in range(2):
        assert s3.delete_object(Bucket=bucket, Key="k")["ResponseMetadata"]["HTTPStatusCode"] == 204
    refused(s3.get_object, "NoSuchKey", 404, Bucket=bucket, Key="k")


def test_many_are_deleted_at_once(s3, bucket):
    keys = [f"k{number}" for number in range(20)]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys[:10] + ["none"]]})
    assert sorted(item["Key"] for item in answer["Deleted"]) == sorted(keys[:10] + ["none"])
    assert "Errors" not in answer
    quiet = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys[10:]], "Quiet": True})
    assert "Deleted" not in quiet
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_headers_and_user_metadata_come_back(s3, bucket):
    expires = datetime.datetime(2031, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc)
    given = {
        "ContentType": "text/x-test; charset=utf-8",
        "CacheControl": "max-age=60",
        "ContentDisposition": 'attachment; filename="a b"',
        "ContentEncoding": "gzip",
        "ContentLanguage": "de, en",
        "Metadata": {"one": "1", "two-words": "some text"},
    }
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Expires=expires, **given)
    for call in (s3.head_object, s3.get_object):
        got = call(Bucket=bucket, Key="k")
        for name, value in given.items():
            assert got[name] == value, name
        assert got["ExpiresString"] == "Mon, 03 Feb 2031 04:05:06 GMT"
    assert s3.head_object(Bucket=bucket, Key="k")["Metadata"] == given["Metadata"]


def test_a_response_takes_the_headers_that_were_asked_for(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    got = s3.get_object(Bucket=bucket, Key="k", ResponseContentType="text/csv", ResponseCacheControl="no-store")
    assert got["ContentType"] == "text/csv" and got["CacheControl"] == "no-store"


def test_metadata_above_two_kib_is_refused(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"n": "v" * 2000})
    refused(s3.put_object, "MetadataTooLarge", 400, Bucket=bucket, Key="k", Body=b"x", Metadata={"n": "v" * 2048})


def test_a_copy_keeps_metadata_or_takes_new(s3, bucket):
    data = body(3 * MIB + 1)
    s3.put_object(Bucket=bucket, Key="from ü", Body=data, ContentType="text/x-a", Metadata={"n": "old"})
    source = {"Bucket": bucket, "Key": "from ü"}
    copied = s3.copy_object(Bucket=bucket, Key="to", CopySource=source)
    assert copied["CopyObjectResult"]["ETag"] == f'"{md5(data)}"'
    got = s3.get_object(Bucket=bucket, Key="to")
    assert got["Body"].read() == data and got["ContentType"] == "text/x-a" and got["Metadata"] == {"n": "old"}
    s3.copy_object(Bucket=bucket, Key="to", CopySource=source, MetadataDirective="REPLACE", ContentType="text/x-b",
                   Metadata={"m": "new"})
    got = s3.get_object(Bucket=bucket, Key="to")
    assert got["Body"].read() == data and got["ContentType"] == "text/x-b" and got["Metadata"] == {"m": "new"}


def test_a_copy_onto_itself_must_change_something(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    source = {"Bucket": bucket, "Key": "k"}
    refused(s3.copy_object, "InvalidRequest", 400, Bucket=bucket, Key="k", CopySource=source)
    s3.copy_object(Bucket=bucket, Key="k", CopySource=source, MetadataDirective="REPLACE", Metadata={"n": "1"})
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == b"x" and got["Metadata"] == {"n": "1"}


def test_conditions_on_a_copy(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    modified = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    hour = datetime.timedelta(hours=1)
    there = {"Bucket": bucket, "Key": "to", "CopySource": {"Bucket": bucket, "Key": "k"}}
    refused(s3.copy_object, "PreconditionFailed", 412, CopySourceIfMatch='"0"', **there)
    refused(s3.copy_object, "PreconditionFailed", 412, CopySourceIfNoneMatch=etag, **there)
    refused(s3.copy_object, "PreconditionFailed", 412, CopySourceIfUnmodifiedSince=modified - hour, **there)
    refused(s3.copy_object, "PreconditionFailed", 412, CopySourceIfModifiedSince=modified, **there)
    s3.copy_object(CopySourceIfMatch=etag, **there)
    missing = {"Bucket": bucket, "Key": "none"}
    refused(s3.copy_object, "NoSuchKey", 404, Bucket=bucket, Key="to", CopySource=missing)
