"""Ranges and conditions of reads, writes and deletions."""

import datetime

import pytest

from s3api import MIB, body, bucket, pytestmark, refused, s3  # noqa: F401: fixtures


@pytest.mark.parametrize(
    "asked, first, last",
    [
        ("bytes=0-0", 0, 0),
        ("bytes=100-199", 100, 199),
        ("bytes=4090-4100", 4090, 4100),
        ("bytes=2000000-", 2000000, 2097168),
        ("bytes=-17", 2097152, 2097168),
        ("bytes=-99999999", 0, 2097168),
        ("bytes=5-99999999", 5, 2097168),
    ],
)
def test_ranges(s3, bucket, asked, first, last):
    data = body(2 * MIB + 17)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    got = s3.get_object(Bucket=bucket, Key="k", Range=asked)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert got["ContentRange"] == f"bytes {first}-{last}/{len(data)}"
    assert got["ContentLength"] == last - first + 1
    assert got["Body"].read() == data[first : last + 1]


@pytest.mark.parametrize("asked", ["bytes=17-", "bytes=99-100", "bytes=-0"])
def test_a_range_outside_the_object_is_not_satisfiable(s3, bucket, asked):
    s3.put_object(Bucket=bucket, Key="k", Body=body(17))
    refused(s3.get_object, "InvalidRange", 416, Bucket=bucket, Key="k", Range=asked)


@pytest.mark.parametrize("asked", ["bytes=0-0,5-6", "bytes=5-2", "bytes=0-99999999999999999999", "lines=1-2"])
def test_a_range_that_is_none_is_passed_over(s3, bucket, asked):
    s3.put_object(Bucket=bucket, Key="k", Body=body(17))
    for call in (s3.get_object, s3.head_object):
        got = call(Bucket=bucket, Key="k", Range=asked)
        assert (got["ResponseMetadata"]["HTTPStatusCode"], got["ContentLength"]) == (200, 17)


def test_a_head_takes_a_range(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=body(100))
    head = s3.head_object(Bucket=bucket, Key="k", Range="bytes=10-19")
    assert head["ContentLength"] == 10


def test_conditions_on_reading(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    modified = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    hour = datetime.timedelta(hours=1)
    here = {"Bucket": bucket, "Key": "k"}
    for call in (s3.get_object, s3.head_object):
        call(IfMatch=etag, **here)
        call(IfNoneMatch='"0"', **here)
        call(IfModifiedSince=modified - hour, **here)
        call(IfUnmodifiedSince=modified, **here)
        refused(call, status=412, IfMatch='"0"', **here)
        refused(call, status=304, IfNoneMatch=etag, **here)
        refused(call, status=304, IfModifiedSince=modified, **here)
        refused(call, status=412, IfUnmodifiedSince=modified - hour, **here)


def test_conditions_on_writing(s3, bucket):
    here = {"Bucket": bucket, "Key": "k"}
    refused(s3.put_object, "NoSuchKey", 404, IfMatch='"0"', Body=b"0", **here)
    etag = s3.put_object(IfNoneMatch="*", Body=b"1", **here)["ETag"]
    refused(s3.put_object, "PreconditionFailed", 412, IfNoneMatch="*", Body=b"2", **here)
    refused(s3.put_object, "PreconditionFailed", 412, IfMatch='"0"', Body=b"2", **here)
    s3.put_object(IfMatch=etag, Body=b"3", **here)
    assert s3.get_object(**here)["Body"].read() == b"3"


def test_conditions_on_deleting(s3, bucket):
    here = {"Bucket": bucket, "Key": "k"}
    etag = s3.put_object(Body=b"1", **here)["ETag"]
    refused(s3.delete_object, "PreconditionFailed", 412, IfMatch='"0"', **here)
    for condition in ("*", '"0"'):
        refused(s3.delete_object, "NoSuchKey", 404, IfMatch=condition, Bucket=bucket, Key="missing")
    some = [{"Key": "k", "ETag": '"0"'}, {"Key": "other"}, {"Key": "missing", "ETag": etag}]
    wrong = s3.delete_objects(Bucket=bucket, Delete={"Objects": some})
    errors = [(item["Key"], item["Code"]) for item in wrong["Errors"]]
    assert errors == [("k", "PreconditionFailed"), ("missing", "NoSuchKey")]
    assert [item["Key"] for item in wrong["Deleted"]] == ["other"]
    assert s3.get_object(**here)["Body"].read() == b"1"
    s3.delete_object(IfMatch=etag, **here)
    refused(s3.head_object, status=404, **here)
