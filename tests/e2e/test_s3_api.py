"""Every S3 operation that is served, through clients nobody here wrote: boto3, and the aws command.

The server is found by SHINGLE_ENDPOINT, SHINGLE_ACCESS_KEY and SHINGLE_SECRET_KEY. Each test makes a bucket of its own
and removes it, so the suite can be run against a server in use.
"""

import base64
import datetime
import hashlib
import http.client
import os
import random
import shutil
import subprocess
import urllib.parse
import urllib.request
import uuid
import zlib

import pytest

boto3 = pytest.importorskip("boto3")
from boto3.s3.transfer import TransferConfig  # noqa: E402
from botocore.auth import SigV4Auth  # noqa: E402
from botocore.awsrequest import AWSRequest  # noqa: E402
from botocore.config import Config  # noqa: E402
from botocore.credentials import Credentials  # noqa: E402
from botocore.exceptions import ClientError  # noqa: E402

ENDPOINT = os.environ.get("SHINGLE_ENDPOINT", "")
ACCESS_KEY = os.environ.get("SHINGLE_ACCESS_KEY", "")
SECRET_KEY = os.environ.get("SHINGLE_SECRET_KEY", "")
REGION = os.environ.get("SHINGLE_REGION", "us-east-1")
MIB = 1 << 20

pytestmark = pytest.mark.skipif(
    not (ENDPOINT and ACCESS_KEY and SECRET_KEY),
    reason="set SHINGLE_ENDPOINT, SHINGLE_ACCESS_KEY and SHINGLE_SECRET_KEY to a running server's",
)


def client(**options):
    keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    keys.update({name: options.pop(name) for name in list(options) if name.startswith("aws_")})
    config = Config(
        s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, connect_timeout=10, read_timeout=60, **options
    )
    return boto3.client("s3", endpoint_url=ENDPOINT, region_name=REGION, config=config, **keys)


@pytest.fixture(scope="session")
def s3():
    return client()


@pytest.fixture
def bucket(s3):
    name = f"test-{uuid.uuid4().hex[:16]}"
    s3.create_bucket(Bucket=name)
    yield name
    for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket=name):
        for upload in page.get("Uploads", []):
            s3.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
        keys = [{"Key": item["Key"]} for item in page.get("Contents", [])]
        if keys:
            s3.delete_objects(Bucket=name, Delete={"Objects": keys})
    s3.delete_bucket(Bucket=name)


def refused(call, code=None, status=None, **arguments):
    """Calls, and holds the error against what is expected; `code` may be several."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    response = caught.value.response
    if code is not None:
        assert response["Error"]["Code"] in (code if isinstance(code, tuple) else (code,)), response
    if status is not None:
        assert response["ResponseMetadata"]["HTTPStatusCode"] == status, response
    return response


def body(size, seed=1):
    return random.Random(seed).randbytes(size)


def md5(data):
    return hashlib.md5(data).hexdigest()


def b64(data):
    return base64.b64encode(data).decode()


def signed(method, path, data=b"", headers=None, query=""):
    """A request signed by hand, for what boto3 does not send."""
    url = f"{ENDPOINT}{path}{'?' + query if query else ''}"
    headers = dict(headers or {})
    headers.setdefault("X-Amz-Content-SHA256", hashlib.sha256(data).hexdigest())
    request = AWSRequest(method=method, url=url, data=data, headers=headers)
    SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "s3", REGION).add_auth(request)
    return send(method, url, data, dict(request.headers))


def send(method, url, data=b"", headers=None):
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    try:
        target = parts.path + ("?" + parts.query if parts.query else "")
        connection.request(method, target, body=data or None, headers=headers or {})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


# Buckets


def test_a_bucket_is_created_found_listed_and_deleted(s3):
    name = f"test-{uuid.uuid4().hex[:16]}"
    s3.create_bucket(Bucket=name)
    s3.head_bucket(Bucket=name)
    assert name in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    assert s3.get_bucket_location(Bucket=name)["LocationConstraint"] in (None, REGION)
    s3.delete_bucket(Bucket=name)
    refused(s3.head_bucket, status=404, Bucket=name)
    refused(s3.delete_bucket, "NoSuchBucket", 404, Bucket=name)


def test_a_bucket_that_is_made_again_keeps_its_objects(s3, bucket):
    """In us-east-1 that succeeds, in other regions it is 409."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    if REGION == "us-east-1":
        s3.create_bucket(Bucket=bucket)
    else:
        refused(s3.create_bucket, "BucketAlreadyOwnedByYou", 409, Bucket=bucket)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


def test_a_bucket_with_an_object_is_not_deleted(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    refused(s3.delete_bucket, "BucketNotEmpty", 409, Bucket=bucket)


@pytest.mark.parametrize("name", ["ab", "Upper-case", "under_score", "192.168.1.1", "-dash", "a..b", "a.-b", "a-.b", "x" * 64])
def test_names_that_are_no_bucket_names_are_refused(name):
    status, _, text = signed("PUT", f"/{name}")
    assert status == 400 and b"InvalidBucketName" in text, text


def test_a_bucket_that_is_not_there_is_named_so(s3):
    for call in (s3.list_objects_v2, s3.list_objects, s3.list_multipart_uploads):
        refused(call, "NoSuchBucket", 404, Bucket="no-such-bucket-here")
    refused(s3.put_object, "NoSuchBucket", 404, Bucket="no-such-bucket-here", Key="k", Body=b"x")
    refused(s3.get_object, "NoSuchBucket", 404, Bucket="no-such-bucket-here", Key="k")


# Objects


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


# Ranges and conditions


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


# Digests


def test_content_md5_is_checked(s3, bucket):
    data = b"some data"
    right, wrong = hashlib.md5(data).digest(), hashlib.md5(b"other").digest()
    s3.put_object(Bucket=bucket, Key="k", Body=data, ContentMD5=b64(right))
    refused(s3.put_object, "BadDigest", 400, Bucket=bucket, Key="other", Body=data, ContentMD5=b64(wrong))
    refused(s3.put_object, "InvalidDigest", 400, Bucket=bucket, Key="other", Body=data, ContentMD5="no digest")
    refused(s3.head_object, status=404, Bucket=bucket, Key="other")


CHECKSUMS = {
    "CRC32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "SHA1": lambda data: hashlib.sha1(data).digest(),
    "SHA256": lambda data: hashlib.sha256(data).digest(),
    # Known answers of the two that Python has no function for, of b"123456789".
    "CRC32C": lambda data: (0xE3069283).to_bytes(4, "big"),
    "CRC64NVME": lambda data: (0xAE8B14860A799888).to_bytes(8, "big"),
}


@pytest.mark.parametrize("name", sorted(CHECKSUMS))
def test_checksums_are_verified_kept_and_returned(s3, bucket, name):
    data, field = b"123456789", f"Checksum{name}"
    digest = CHECKSUMS[name](data)
    put = s3.put_object(Bucket=bucket, Key="k", Body=data, **{field: b64(digest)})
    assert put[field] == b64(digest)
    for call in (s3.get_object, s3.head_object):
        assert call(Bucket=bucket, Key="k", ChecksumMode="ENABLED")[field] == b64(digest)
    wrong = bytes([digest[0] ^ 1]) + digest[1:]
    refused(s3.put_object, ("BadDigest", "InvalidRequest", "XAmzContentChecksumMismatch"), 400, Bucket=bucket, Key="k",
            Body=b"123456789", **{field: b64(wrong)})


def test_a_checksum_in_a_trailer_is_kept(s3, bucket):
    """What SDKs send by default over TLS: aws-chunked, unsigned, the checksum after the body."""
    data = b"123456789" * 1000
    crc = b64(zlib.crc32(data).to_bytes(4, "big"))
    for trailer, status in ((crc, 200), (b64(b"\0\0\0\1"), 400)):
        halves = (data[:5000], data[5000:])
        framed = b"".join(f"{len(half):x}\r\n".encode() + half + b"\r\n" for half in halves)
        framed += b"0\r\nx-amz-checksum-crc32:" + trailer.encode() + b"\r\n\r\n"
        headers = {
            "X-Amz-Content-SHA256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
            "Content-Encoding": "aws-chunked",
            "X-Amz-Trailer": "x-amz-checksum-crc32",
            "X-Amz-Decoded-Content-Length": str(len(data)),
        }
        answer = signed("PUT", f"/{bucket}/{status}", framed, headers)
        assert answer[0] == status, answer
    head = s3.head_object(Bucket=bucket, Key="200", ChecksumMode="ENABLED")
    assert head["ChecksumCRC32"] == crc and head["ContentLength"] == len(data)
    assert "ContentEncoding" not in head
    refused(s3.head_object, status=404, Bucket=bucket, Key="400")


def test_a_body_of_unknown_length_goes_up(s3, bucket):
    data = body(6 * MIB)
    uploader = client(request_checksum_calculation="when_supported")

    class Pipe:
        def __init__(self):
            self.at = 0

        def read(self, size=-1):
            size = len(data) if size is None or size < 0 else size
            piece = data[self.at : self.at + size]
            self.at += len(piece)
            return piece

    uploader.upload_fileobj(Pipe(), bucket, "piped")
    assert s3.get_object(Bucket=bucket, Key="piped")["Body"].read() == data


# Signatures


def test_unsigned_requests_are_refused(bucket):
    for method, path in (("GET", "/"), ("GET", f"/{bucket}"), ("GET", f"/{bucket}/k"), ("PUT", f"/{bucket}/k"),
                         ("DELETE", f"/{bucket}")):
        status, _, text = send(method, ENDPOINT + path)
        assert status == 403 and b"AccessDenied" in text, (method, path, status, text)


def test_wrong_keys_are_refused(bucket):
    wrong = client(aws_secret_access_key="wrong")
    refused(wrong.list_buckets, "SignatureDoesNotMatch", 403)
    unknown = client(aws_access_key_id="NOSUCHKEY")
    refused(unknown.list_buckets, ("InvalidAccessKeyId", "AccessDenied", "NotSignedUp"), 403)


def test_a_body_other_than_the_signed_one_is_refused(s3, bucket):
    headers = {"X-Amz-Content-SHA256": hashlib.sha256(b"signed").hexdigest()}
    status, _, text = signed("PUT", f"/{bucket}/k", b"forged", headers)
    assert status == 400, text
    refused(s3.head_object, status=404, Bucket=bucket, Key="k")


def test_presigned_urls(bucket):
    # Without being told, boto3 signs URLs for us-east-1 by version 2.
    s3 = client(signature_version="s3v4")
    put = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "a b/ü"}, ExpiresIn=60)
    assert send("PUT", put, b"presigned")[0] == 200
    get = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b/ü"}, ExpiresIn=60)
    status, _, data = send("GET", get)
    assert (status, data) == (200, b"presigned")
    status, _, text = send("GET", get.replace("X-Amz-Expires=60", "X-Amz-Expires=61"))
    assert status == 403, text
    old = client(signature_version="s3").generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b/ü"})
    assert send("GET", old)[0] == 400, "signature version 2"


# Listing


def fill(s3, bucket, keys):
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())


TREE = ["a/1", "a/2", "b", "c/x/1", "c/x/2", "c/y", "d", "ü/1"]


def test_lists_are_in_order_and_tell_sizes_and_etags(s3, bucket):
    fill(s3, bucket, reversed(TREE))
    for call in (s3.list_objects, s3.list_objects_v2):
        listed = call(Bucket=bucket)
        assert [item["Key"] for item in listed["Contents"]] == TREE
        assert not listed["IsTruncated"]
        for item in listed["Contents"]:
            assert item["Size"] == len(item["Key"].encode())
            assert item["ETag"] == f'"{md5(item["Key"].encode())}"'


@pytest.mark.parametrize(
    "prefix, delimiter, keys, prefixes",
    [
        ("", "/", ["b", "d"], ["a/", "c/", "ü/"]),
        ("c/", "/", ["c/y"], ["c/x/"]),
        ("c/", "", ["c/x/1", "c/x/2", "c/y"], []),
        ("c", "/", [], ["c/"]),
        ("none", "/", [], []),
        ("", "x/", ["a/1", "a/2", "b", "c/y", "d", "ü/1"], ["c/x/"]),
    ],
)
def test_prefix_and_delimiter(s3, bucket, prefix, delimiter, keys, prefixes):
    fill(s3, bucket, TREE)
    for call in (s3.list_objects, s3.list_objects_v2):
        listed = call(Bucket=bucket, Prefix=prefix, Delimiter=delimiter)
        assert [item["Key"] for item in listed.get("Contents", [])] == keys
        assert [item["Prefix"] for item in listed.get("CommonPrefixes", [])] == prefixes


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("delimiter", ["", "/"])
@pytest.mark.parametrize("name", ["list_objects", "list_objects_v2"])
def test_pages_join_to_the_whole(s3, bucket, name, delimiter, size):
    fill(s3, bucket, TREE)
    found = []
    for page in s3.get_paginator(name).paginate(Bucket=bucket, Delimiter=delimiter, PaginationConfig={"PageSize": size}):
        names = [item["Key"] for item in page.get("Contents", [])]
        names += [item["Prefix"] for item in page.get("CommonPrefixes", [])]
        assert len(names) <= size
        found += sorted(names, key=str.encode)
    assert found == (["a/", "b", "c/", "d", "ü/"] if delimiter else TREE)


def test_a_list_starts_after_what_is_named(s3, bucket):
    fill(s3, bucket, TREE)
    v2 = s3.list_objects_v2(Bucket=bucket, StartAfter="b")
    assert [item["Key"] for item in v2["Contents"]] == TREE[3:] and v2["KeyCount"] == len(TREE) - 3
    v1 = s3.list_objects(Bucket=bucket, Marker="b")
    assert [item["Key"] for item in v1["Contents"]] == TREE[3:]


def test_a_list_of_at_most_no_keys_is_empty(s3, bucket):
    fill(s3, bucket, ["a"])
    assert s3.list_objects_v2(Bucket=bucket, MaxKeys=0)["KeyCount"] == 0


def test_a_token_that_is_none_is_refused(s3, bucket):
    refused(s3.list_objects_v2, "InvalidArgument", 400, Bucket=bucket, ContinuationToken="\u0001?")


def test_keys_are_escaped_if_asked(bucket):
    c = client()
    c.put_object(Bucket=bucket, Key="a b\u0001+ü", Body=b"")
    status, _, text = signed("GET", f"/{bucket}", query="encoding-type=url&list-type=2")
    assert status == 200 and b"<EncodingType>url</EncodingType>" in text
    assert b"%01" in text and b"%C3%BC" in text, text
    assert [item["Key"] for item in c.list_objects_v2(Bucket=bucket)["Contents"]] == ["a b\u0001+ü"]
    # XML, and so DeleteObjects, cannot carry such a key.
    c.delete_object(Bucket=bucket, Key="a b\u0001+ü")


# Copies


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


# Uploads in parts


def test_an_upload_in_parts(s3, bucket):
    parts = [body(5 * MIB, 1), body(5 * MIB + 3, 2), body(7, 3)]
    begun = s3.create_multipart_upload(Bucket=bucket, Key="k", ContentType="text/x-parts", Metadata={"n": "1"})
    upload = {"Bucket": bucket, "Key": "k", "UploadId": begun["UploadId"]}
    s3.upload_part(PartNumber=2, Body=b"to be replaced", **upload)
    etags = {}
    for number in (3, 1, 2):
        etags[number] = s3.upload_part(PartNumber=number, Body=parts[number - 1], **upload)["ETag"]
        assert etags[number] == f'"{md5(parts[number - 1])}"'
    listed = s3.list_parts(**upload)
    assert [(part["PartNumber"], part["Size"], part["ETag"]) for part in listed["Parts"]] == [
        (number, len(parts[number - 1]), etags[number]) for number in (1, 2, 3)
    ]
    page = s3.list_parts(MaxParts=1, PartNumberMarker=1, **upload)
    assert [part["PartNumber"] for part in page["Parts"]] == [2] and page["IsTruncated"]
    assert page["NextPartNumberMarker"] == 2
    refused(s3.get_object, "NoSuchKey", 404, Bucket=bucket, Key="k")
    named = [{"PartNumber": number, "ETag": etags[number]} for number in (1, 2, 3)]
    done = s3.complete_multipart_upload(MultipartUpload={"Parts": named}, **upload)
    expected = md5(b"".join(hashlib.md5(part).digest() for part in parts)) + "-3"
    assert done["ETag"] == f'"{expected}"'
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == b"".join(parts)
    assert got["ETag"] == done["ETag"] and got["ContentType"] == "text/x-parts" and got["Metadata"] == {"n": "1"}
    second = s3.get_object(Bucket=bucket, Key="k", PartNumber=2)
    assert second["Body"].read() == parts[1] and second["PartsCount"] == 3
    across = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={5 * MIB - 10}-{5 * MIB + 9}")
    assert across["Body"].read() == parts[0][-10:] + parts[1][:10]
    refused(s3.list_parts, "NoSuchUpload", 404, **upload)


@pytest.mark.parametrize("name", ["CRC32", "SHA256"])
def test_checksums_of_parts_are_kept(s3, bucket, name):
    parts = [body(5 * MIB, 1), body(7, 2)]
    digests = [b64(CHECKSUMS[name](part)) for part in parts]
    upload = {"Bucket": bucket, "Key": "k"}
    upload["UploadId"] = s3.create_multipart_upload(ChecksumAlgorithm=name, **upload)["UploadId"]
    named = []
    for number, part in enumerate(parts, 1):
        done = s3.upload_part(PartNumber=number, Body=part, ChecksumAlgorithm=name, **upload)
        assert done[f"Checksum{name}"] == digests[number - 1]
        named.append({"PartNumber": number, "ETag": done["ETag"], f"Checksum{name}": digests[number - 1]})
    s3.complete_multipart_upload(MultipartUpload={"Parts": named}, **upload)
    found = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["ObjectParts", "Checksum", "ETag"])
    assert [(part["Size"], part[f"Checksum{name}"]) for part in found["ObjectParts"]["Parts"]] == [
        (len(part), digest) for part, digest in zip(parts, digests)
    ]
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head[f"Checksum{name}"] == found["Checksum"][f"Checksum{name}"] and head["ETag"].strip('"') == found["ETag"]
    for number, digest in enumerate(digests, 1):
        one = s3.head_object(Bucket=bucket, Key="k", PartNumber=number, ChecksumMode="ENABLED")
        assert one[f"Checksum{name}"] == digest


def test_an_upload_is_listed_and_aborted(s3, bucket):
    begun = [s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"] for key in ("a", "b/1", "b/2")]
    listed = s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert [(item["Key"], item["UploadId"]) for item in listed] == list(zip(("a", "b/1", "b/2"), begun))
    prefixed = s3.list_multipart_uploads(Bucket=bucket, Prefix="b/")["Uploads"]
    assert [item["Key"] for item in prefixed] == ["b/1", "b/2"]
    rolled = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")
    assert [item["Key"] for item in rolled["Uploads"]] == ["a"]
    assert [item["Prefix"] for item in rolled["CommonPrefixes"]] == ["b/"]
    found = []
    for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, PaginationConfig={"PageSize": 1}):
        found += [item["Key"] for item in page.get("Uploads", [])]
    assert found == ["a", "b/1", "b/2"]
    # Keys beside a common prefix are behind it, and it is on one page.
    beside = [{"Bucket": bucket, "Key": key} for key in ("b", "b/2", "b0")]
    beside = [other | {"UploadId": s3.create_multipart_upload(**other)["UploadId"]} for other in beside]
    found = []
    rolled = {"Bucket": bucket, "Delimiter": "/", "PaginationConfig": {"PageSize": 1}}
    for page in s3.get_paginator("list_multipart_uploads").paginate(**rolled):
        found += [item["Key"] for item in page.get("Uploads", [])]
        found += [item["Prefix"] for item in page.get("CommonPrefixes", [])]
    assert found == ["a", "b", "b/", "b0"]
    for other in beside:
        s3.abort_multipart_upload(**other)
    upload = {"Bucket": bucket, "Key": "a", "UploadId": begun[0]}
    s3.upload_part(PartNumber=1, Body=b"x", **upload)
    s3.abort_multipart_upload(**upload)
    refused(s3.abort_multipart_upload, "NoSuchUpload", 404, **upload)
    refused(s3.upload_part, "NoSuchUpload", 404, PartNumber=1, Body=b"x", **upload)
    refused(s3.complete_multipart_upload, "NoSuchUpload", 404,
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": md5(b"x")}]}, **upload)


def test_what_is_wrong_with_an_upload_is_said(s3, bucket):
    upload = {"Bucket": bucket, "Key": "k"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    one = s3.upload_part(PartNumber=1, Body=b"small", **upload)["ETag"]
    two = s3.upload_part(PartNumber=2, Body=b"small", **upload)["ETag"]

    def complete(*parts):
        return {"MultipartUpload": {"Parts": [{"PartNumber": number, "ETag": etag} for number, etag in parts]}, **upload}

    call = s3.complete_multipart_upload
    refused(call, "EntityTooSmall", 400, **complete((1, one), (2, two)))
    refused(call, "InvalidPartOrder", 400, **complete((2, two), (1, one)))
    refused(call, "InvalidPart", 400, **complete((1, '"%s"' % ("0" * 32))))
    refused(call, "InvalidPart", 400, **complete((3, one)))
    refused(s3.upload_part, "InvalidArgument", 400, PartNumber=0, Body=b"x", **upload)
    refused(s3.upload_part, "InvalidArgument", 400, PartNumber=10001, Body=b"x", **upload)
    wrong = {**upload, "UploadId": "no-upload"}
    refused(s3.upload_part, "NoSuchUpload", 404, PartNumber=1, Body=b"x", **wrong)
    call(**complete((2, two)))
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"small"


def test_parts_are_copied_from_objects(s3, bucket):
    data = body(11 * MIB)
    s3.put_object(Bucket=bucket, Key="from", Body=data)
    upload = {"Bucket": bucket, "Key": "to"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    source = {"Bucket": bucket, "Key": "from"}
    first = s3.upload_part_copy(PartNumber=1, CopySource=source, CopySourceRange=f"bytes=0-{6 * MIB - 1}", **upload)
    second = s3.upload_part_copy(PartNumber=2, CopySource=source, CopySourceRange=f"bytes={6 * MIB}-{len(data) - 1}", **upload)
    refused(s3.upload_part_copy, ("InvalidArgument", "InvalidRange"), PartNumber=3, CopySource=source,
            CopySourceRange=f"bytes=0-{len(data)}", **upload)
    parts = [{"PartNumber": number, "ETag": part["CopyPartResult"]["ETag"]} for number, part in ((1, first), (2, second))]
    s3.complete_multipart_upload(MultipartUpload={"Parts": parts}, **upload)
    assert s3.get_object(Bucket=bucket, Key="to")["Body"].read() == data


def test_completion_takes_conditions(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"there")
    upload = {"Bucket": bucket, "Key": "k"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    etag = s3.upload_part(PartNumber=1, Body=b"new", **upload)["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    refused(s3.complete_multipart_upload, "PreconditionFailed", 412, MultipartUpload=parts, IfNoneMatch="*", **upload)
    s3.complete_multipart_upload(MultipartUpload=parts, **upload)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"new"


@pytest.mark.parametrize("threads", [1, 4])
def test_the_transfer_manager_moves_a_large_file(s3, bucket, tmp_path, threads):
    data = body(23 * MIB + 11)
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(data)
    config = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=5 * MIB, max_concurrency=threads)
    s3.upload_file(str(source), bucket, "large", Config=config)
    s3.download_file(bucket, "large", str(back), Config=config)
    assert back.read_bytes() == data


# What is not served


def test_what_is_not_served_is_refused(s3, bucket):
    for call, arguments in (
        (s3.put_bucket_versioning, {"VersioningConfiguration": {"Status": "Enabled"}}),
        (s3.put_bucket_policy, {"Policy": "{}"}),
        (s3.put_object_tagging, {"Key": "k", "Tagging": {"TagSet": []}}),
        (s3.put_object, {"Key": "k", "Body": b"x", "ServerSideEncryption": "AES256"}),
        (s3.put_object, {"Key": "k", "Body": b"x", "ACL": "public-read"}),
    ):
        refused(call, "NotImplemented", 501, Bucket=bucket, **arguments)
    refused(s3.head_object, status=404, Bucket=bucket, Key="k")


def test_everything_is_private(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ACL="private")
    for get, put, here in (
        (s3.get_bucket_acl, s3.put_bucket_acl, {"Bucket": bucket}),
        (s3.get_object_acl, s3.put_object_acl, {"Bucket": bucket, "Key": "k"}),
    ):
        found = get(**here)
        assert [(grant["Grantee"]["ID"], grant["Permission"]) for grant in found["Grants"]] == [
            (found["Owner"]["ID"], "FULL_CONTROL")
        ]
        put(ACL="private", **here)
        put(AccessControlPolicy={"Grants": found["Grants"], "Owner": found["Owner"]}, **here)
        refused(put, "NotImplemented", 501, ACL="public-read", **here)


def test_each_object_has_one_version(s3, bucket):
    for key in ("a", "b", "c"):
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket, PaginationConfig={"PageSize": 2})
    versions = [item for page in pages for item in page["Versions"]]
    assert [(item["Key"], item["VersionId"], item["IsLatest"]) for item in versions] == [
        (key, "null", True) for key in ("a", "b", "c")
    ]
    for item in versions:
        assert s3.get_object(Bucket=bucket, Key=item["Key"], VersionId="null")["Body"].read() == item["Key"].encode()


def test_settings_that_nothing_has_are_told_so(s3, bucket):
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    refused(s3.get_bucket_policy, "NoSuchBucketPolicy", 404, Bucket=bucket)
    refused(s3.get_bucket_lifecycle_configuration, "NoSuchLifecycleConfiguration", 404, Bucket=bucket)


# The aws command


@pytest.fixture
def aws(tmp_path):
    if not shutil.which("aws"):
        pytest.skip("the aws command is not installed")
    environment = dict(
        os.environ,
        AWS_ACCESS_KEY_ID=ACCESS_KEY,
        AWS_SECRET_ACCESS_KEY=SECRET_KEY,
        AWS_DEFAULT_REGION=REGION,
        AWS_CONFIG_FILE=str(tmp_path / "config"),
        AWS_EC2_METADATA_DISABLED="true",
    )

    def run(*arguments):
        command = ["aws", "--endpoint-url", ENDPOINT, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    return run


def test_the_aws_command_copies_lists_syncs_and_removes(aws, bucket, tmp_path):
    tree = tmp_path / "tree"
    for number in range(12):
        path = tree / f"d{number % 3}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body(1000 * number, number))
    (tree / "large").write_bytes(body(9 * MIB))
    aws("s3", "sync", str(tree), f"s3://{bucket}/tree")
    assert "large" in aws("s3", "ls", f"s3://{bucket}/tree/")
    aws("s3", "sync", f"s3://{bucket}/tree", str(tmp_path / "back"))
    for path in sorted(path for path in tree.rglob("*") if path.is_file()):
        assert (tmp_path / "back" / path.relative_to(tree)).read_bytes() == path.read_bytes(), path
    aws("s3", "cp", f"s3://{bucket}/tree/large", f"s3://{bucket}/copy")
    aws("s3", "mv", f"s3://{bucket}/copy", f"s3://{bucket}/moved")
    head = aws("s3api", "head-object", "--bucket", bucket, "--key", "moved")
    assert f'"ContentLength": {9 * MIB}' in head
    aws("s3", "rm", f"s3://{bucket}", "--recursive")
    assert aws("s3", "ls", f"s3://{bucket}") == ""
