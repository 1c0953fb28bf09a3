"""Every operation that botocore knows is served or refused, and none is taken for another one.

Each is sent with all its parameters, and with those alone that it must have. The bucket and its object are as before
afterwards.
"""

import datetime
import os

import pytest

boto3 = pytest.importorskip("boto3")
from botocore.exceptions import BotoCoreError, ClientError  # noqa: E402
from s3api import bucket, client, refused, s3, send, signed  # noqa: E402, F401

pytestmark = pytest.mark.skipif(not os.environ.get("SHINGLE_ENDPOINT"), reason="set SHINGLE_ENDPOINT to a server's")

KEY, DATA, META = "there", b"as it was", {"kept": "yes"}

# Operations that are served and change something: sent with what they must have alone, they do so.
CHANGING = {
    "CreateBucket", "DeleteBucket", "PutObject", "CopyObject", "DeleteObject", "DeleteObjects", "CreateMultipartUpload",
    "UploadPart", "UploadPartCopy", "CompleteMultipartUpload", "AbortMultipartUpload",
}  # fmt: skip
READING = {
    "ListBuckets", "HeadBucket", "GetBucketLocation", "GetObject", "HeadObject", "GetObjectAttributes", "ListObjects",
    "ListObjectsV2", "ListParts", "ListMultipartUploads", "GetBucketVersioning", "GetBucketTagging", "GetBucketPolicy",
    "GetBucketCors", "GetBucketLifecycleConfiguration", "GetBucketEncryption", "GetObjectLockConfiguration",
    "GetObjectTagging", "ListObjectVersions", "GetBucketAcl", "GetObjectAcl", "GetPublicAccessBlock",
    "GetBucketOwnershipControls", "GetBucketPolicyStatus", "GetBucketWebsite", "GetBucketReplication", "GetBucketLogging",
    "GetBucketNotificationConfiguration", "GetBucketNotification", "GetBucketRequestPayment",
    "GetBucketAccelerateConfiguration",
}  # fmt: skip
# botocore sends these to a host name of their own.
ELSEWHERE = {"WriteGetObjectResponse"}


def value_of(shape, name, depth=0):
    """Some value of that shape: the first that is listed, or a plain one."""
    if shape.type_name == "structure":
        members = shape.members.items() if depth < 6 else ()
        if getattr(shape, "is_tagged_union", False):
            members = list(members)[:1]
        return {member: value_of(inner, member, depth + 1) for member, inner in members}
    if shape.type_name == "list":
        return [value_of(shape.member, name, depth + 1)]
    if shape.type_name == "map":
        return {"name": value_of(shape.value, name, depth + 1)}
    if shape.type_name in ("integer", "long", "float", "double"):
        return 1
    if shape.type_name == "boolean":
        return True
    if shape.type_name == "timestamp":
        return datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    if shape.type_name == "blob":
        return b"<Made><Up/></Made>"
    return (getattr(shape, "enum", None) or ["x"])[0]


def arguments_of(model, bucket, required_only):
    arguments = {}
    for name, shape in model.input_shape.members.items() if model.input_shape else ():
        if required_only and name not in model.input_shape.required_members:
            continue
        known = {"Bucket": bucket, "Key": KEY, "CopySource": f"{bucket}/{KEY}", "RenameSource": f"{bucket}/{KEY}"}
        arguments[name] = known.get(name) or value_of(shape, name)
    return arguments


def call(s3, operation, arguments):
    """The status of the answer, or `None` if botocore does not send that."""
    try:
        method = next(name for name, of in s3.meta.method_to_api_mapping.items() if of == operation)
        return getattr(s3, method)(**arguments)["ResponseMetadata"]["HTTPStatusCode"]
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]
    except BotoCoreError as error:
        print(operation, error)
        return None


def as_before(s3, bucket):
    found = s3.get_object(Bucket=bucket, Key=KEY)
    assert (found["Body"].read(), found["Metadata"]) == (DATA, META)
    assert [item["Key"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]] == [KEY]
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


@pytest.fixture
def kept(s3, bucket):  # noqa: F811
    s3.put_object(Bucket=bucket, Key=KEY, Body=DATA, Metadata=META)
    return bucket


def test_every_operation_is_served_or_refused_and_none_is_another(s3, kept):  # noqa: F811
    unsent = set()
    # Made-up values need not be valid ones.
    free = client(parameter_validation=False)
    operations = s3.meta.service_model.operation_names
    assert len(operations) > 100 and CHANGING | READING < set(operations)
    for operation in operations:
        if operation in ELSEWHERE:
            continue
        model = s3.meta.service_model.operation_model(operation)
        for required_only in (True, False):
            if required_only and operation in CHANGING:
                continue
            status = call(free, operation, arguments_of(model, kept, required_only))
            if status is None:
                unsent.add(operation)
            elif operation not in READING:
                assert status >= 400, (operation, required_only)
            as_before(s3, kept)
    # Those that botocore does not send to a server of one's own.
    assert unsent <= {"CreateSession", "ListDirectoryBuckets", "SelectObjectContent"}, unsent


def test_names_that_nobody_knows_change_nothing(s3, kept):  # noqa: F811
    target, fresh = f"/{kept}/{KEY}", f"/{kept}-not-there"
    for method, path, query in (
        ("PUT", target, "encryption="),
        ("PUT", target, "annotation="),
        ("PUT", target, "madeUp"),
        ("PUT", target, "append"),
        ("PUT", target, "restore"),
        ("PUT", target, "versionId=x"),
        ("PUT", target, "partNumber=1"),
        ("PUT", target, "x-id=UpdateObjectEncryption"),
        ("PUT", f"/{kept}/new", "renameObject"),
        ("PUT", fresh, "madeUp"),
        ("DELETE", target, "annotation="),
        ("DELETE", target, "acl="),
        ("DELETE", f"/{kept}", "metadataConfiguration="),
        ("POST", target, "uploads=&madeUp=1"),
        ("GET", f"/{kept}", "list-type=3"),
        ("GET", target, "madeUp"),
    ):
        status, _, answer = signed(method, path, b"<Made/>" if method == "PUT" else b"", query=query)
        assert (status, b"NotImplemented" in answer) == (501, True), (method, path, query, status, answer)
        as_before(s3, kept)
    refused(s3.head_bucket, status=404, Bucket=fresh[1:])


def test_another_owner_is_told_so(s3, kept):  # noqa: F811
    refused(s3.delete_object, "AccessDenied", 403, Bucket=kept, Key=KEY, ExpectedBucketOwner="111122223333")
    owner = s3.list_buckets()["Owner"]["ID"]
    s3.head_object(Bucket=kept, Key=KEY, ExpectedBucketOwner=owner)
    as_before(s3, kept)


def test_a_presigned_url_lives_a_week_at_most(s3, kept):  # noqa: F811
    for seconds, expected in ((604_800, 200), (604_801, 400)):
        url = client(signature_version="s3v4").generate_presigned_url(
            "get_object", Params={"Bucket": kept, "Key": KEY}, ExpiresIn=seconds
        )
        status, _, answer = send("GET", url)
        assert status == expected, answer
