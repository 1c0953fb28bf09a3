"""Uploads in parts."""

import hashlib

import pytest
from boto3.s3.transfer import TransferConfig

from s3api import CHECKSUMS, MIB, b64, body, bucket, md5, pytestmark, refused, s3  # noqa: F401: fixtures


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


def test_pages_of_uploads_end_though_a_key_lies_behind_all_that_a_marker_passes_over(s3, bucket):
    keys = ["a/1", "a/\U0010ffffx", "b"]
    for key in keys:
        s3.create_multipart_upload(Bucket=bucket, Key=key)
    for limit in (1, 2, 1000):
        found, marker = [], {}
        for _ in range(6):
            page = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/", MaxUploads=limit, **marker)
            found += [item["Prefix"] for item in page.get("CommonPrefixes", [])] + [item["Key"] for item in page.get("Uploads", [])]
            if not page["IsTruncated"]:
                break
            marker = {"KeyMarker": page["NextKeyMarker"]}
            if page.get("NextUploadIdMarker"):
                marker["UploadIdMarker"] = page["NextUploadIdMarker"]
        assert found == ["a/", "b"], (limit, found)
