"""Prints the requests that botocore sends for some calls, as JSON.

The unit tests of `wire` build the same requests and compare method, address, headers, body and
signature with `requests.json`, which this script wrote. Nothing is sent. The text of a JSON body is
normalised before it is signed: keys in order, no spaces, no escapes. An XML body gets its type.
"""

import datetime
import json

import botocore.auth
import botocore.session
from botocore.config import Config

NOW = datetime.datetime(2024, 2, 29, 12, 36, 0)
KEY, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "to/ken+=="
ODD = "a b+c/d&e=ü€*~'"
# Neither signed nor part of the protocol.
IGNORED = {"user-agent", "content-length", "expect", "amz-sdk-invocation-id", "amz-sdk-request"}

CASES = [
    ("query", "sts", "AssumeRole", "eu-west-1", True, {
        "RoleArn": "arn:aws:iam::222222222222:role/dns",
        "RoleSessionName": "pontoon",
        "ExternalId": ODD,
    }),
    ("query_in_china", "sts", "GetCallerIdentity", "cn-north-1", False, {}),
    ("query_in_gov", "sts", "GetCallerIdentity", "us-gov-west-1", False, {}),
    ("query_map_and_structures", "sns", "CreateTopic", "us-east-1", False, {
        "Name": "topic",
        "Attributes": {"DisplayName": ODD, "Policy": ""},
        "Tags": [{"Key": "one", "Value": "1"}, {"Key": "two", "Value": ODD}],
    }),
    ("query_named_list", "rds", "DescribeDBInstances", "eu-west-1", False, {
        "Filters": [{"Name": "engine", "Values": ["mysql", "postgres"]}],
        "MaxRecords": 20,
    }),
    ("query_list", "rds", "ModifyDBInstance", "eu-west-1", True, {
        "DBInstanceIdentifier": "db",
        "VpcSecurityGroupIds": ["sg-1", "sg-2"],
        "DBSecurityGroups": [],
        "ApplyImmediately": True,
    }),
    ("ec2", "ec2", "DescribeVolumes", "eu-west-1", True, {
        "VolumeIds": ["vol-1", "vol-2"],
        "Filters": [{"Name": "tag:k", "Values": ["a", ODD]}],
        "MaxResults": 500,
    }),
    ("ec2_tags", "ec2", "CreateTags", "us-gov-west-1", False, {
        "Resources": ["vol-1"],
        "Tags": [{"Key": "empty", "Value": ""}, {"Key": "pontoon.io/object", "Value": "a/b"}],
    }),
    ("ec2_volumes", "ec2", "DescribeVolumes", "eu-west-1", True, {
        "Filters": [{"Name": "volume-id", "Values": ["vol-1", "vol-2"]}],
        "MaxResults": 500,
        "NextToken": ODD,
    }),
    ("ec2_volumes_of_instances", "ec2", "DescribeVolumes", "eu-central-1", True, {
        "Filters": [{"Name": "attachment.instance-id", "Values": ["i-1", "i-2"]}],
        "MaxResults": 500,
    }),
    ("ec2_volume_changes", "ec2", "DescribeVolumesModifications", "eu-west-1", False, {
        "Filters": [{"Name": "volume-id", "Values": ["vol-1"]}],
        "MaxResults": 500,
    }),
    ("ec2_snapshots", "ec2", "DescribeSnapshots", "cn-north-1", False, {
        "OwnerIds": ["self"],
        "Filters": [
            {"Name": "tag:a/run", "Values": ["r"]},
            {"Name": "tag:odd", "Values": ["a b+c/d&e=ü€\\*~'"]},
        ],
        "MaxResults": 500,
    }),
    ("ec2_create_snapshot", "ec2", "CreateSnapshot", "eu-west-1", True, {
        "VolumeId": "vol-1",
        "Description": ODD,
        "TagSpecifications": [{
            "ResourceType": "snapshot",
            "Tags": [{"Key": "a/run", "Value": "r"}, {"Key": "odd", "Value": ODD}],
        }],
    }),
    ("ec2_delete_tags", "ec2", "DeleteTags", "eu-west-1", False, {
        "Resources": ["vol-1"],
        "Tags": [{"Key": "a"}, {"Key": "b/c"}],
    }),
    ("ec2_dry_run", "ec2", "DescribeVolumes", "eu-west-1", False, {
        "MaxResults": 500,
        "DryRun": True,
    }),
    ("ec2_dry_run_of_snapshot", "ec2", "CreateSnapshot", "eu-west-1", False, {
        "VolumeId": "vol-1",
        "Description": "",
        "DryRun": True,
    }),
    ("json_1_1", "acm", "DescribeCertificate", "us-east-1", False, {
        "CertificateArn": "arn:aws:acm:us-east-1:000000000000:certificate/x",
    }),
    ("json_1_0", "dynamodb", "PutItem", "eu-central-1", True, {
        "TableName": "t",
        "Item": {"name": {"S": ODD}, "tags": {"L": [{"N": "1"}, {"BOOL": True}]}},
    }),
    ("rest_json_get", "lambda", "GetFunction", "eu-west-1", True, {
        "FunctionName": "arn:aws:lambda:eu-west-1:000000000000:function:f",
        "Qualifier": "$LATEST",
    }),
    ("rest_json_post", "lambda", "AddPermission", "cn-northwest-1", False, {
        "FunctionName": "f",
        "StatementId": "s",
        "Action": "lambda:InvokeFunction",
        "Principal": "apigateway.amazonaws.com",
        "SourceArn": ODD,
    }),
    ("rest_json_list_in_query", "lambda", "UntagResource", "eu-west-1", False, {
        "Resource": "arn:aws:lambda:eu-west-1:000000000000:function:f",
        "TagKeys": ["a", ODD],
    }),
    ("rest_json_odd_path", "apigatewayv2", "GetStage", "eu-west-1", True, {
        "ApiId": "api",
        "StageName": ODD,
    }),
    ("rest_json_patch", "apigatewayv2", "UpdateStage", "eu-west-1", False, {
        "ApiId": "api",
        "StageName": "$default",
        "Description": "",
        "StageVariables": {"k": ODD},
    }),
    ("rest_xml", "route53", "ChangeTagsForResource", "eu-west-1", True, {
        "ResourceType": "hostedzone",
        "ResourceId": "Z1",
        "AddTags": [{"Key": "a<b", "Value": "\"&'ü"}, {"Key": "empty", "Value": ""}],
        "RemoveTagKeys": ["old"],
    }),
    ("rest_xml_query", "route53", "ListResourceRecordSets", "us-east-1", False, {
        "HostedZoneId": "Z1",
        "StartRecordName": "\\052.example.com.",
        "StartRecordType": "A",
    }),
    ("rest_xml_nested", "cloudfront", "CreateInvalidation", "eu-west-1", False, {
        "DistributionId": "E1",
        "InvalidationBatch": {
            "Paths": {"Quantity": 2, "Items": ["/*", "/a b"]},
            "CallerReference": "r",
        },
    }),
    ("s3_key", "s3", "GetObject", "eu-west-1", True, {"Bucket": "bucket", "Key": "a b/ü+c//d"}),
    ("s3_signed_body", "s3", "PutObject", "eu-west-1", False, {
        "Bucket": "bucket",
        "Key": "k",
        "Body": b"content",
        "ContentType": "text/plain",
    }),
    ("s3_unsigned_body", "s3", "PutObject", "eu-west-1", True, {
        "Bucket": "bucket",
        "Key": "k",
        "Body": b"content",
        "ContentType": "text/plain",
    }),
]


class Captured(Exception):
    pass


def request_of(name, service, operation, region, has_token, params):
    config = Config(
        s3={"addressing_style": "path", "payload_signing_enabled": name != "s3_unsigned_body"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        retries={"total_max_attempts": 1},
    )
    client = botocore.session.Session().create_client(
        service,
        region_name=region,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        aws_session_token=TOKEN if has_token else None,
        config=config,
    )

    def normalise(request, **_):
        for header in list(request.headers.keys()):
            if header.lower().startswith("amz-sdk-"):
                del request.headers[header]
        if service in ("route53", "cloudfront") and request.data:
            request.headers["Content-Type"] = "application/xml"  # botocore names none
        if "json" in request.headers.get("Content-Type", "") and request.data:
            body = json.loads(request.data)
            text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            request.data = text.encode()

    sent = []

    def capture(request, **_):
        sent.append(request)
        raise Captured

    client.meta.events.register("before-sign.*.*", normalise)
    client.meta.events.register("before-send.*.*", capture)
    try:
        client._make_api_call(operation, params)
    except Captured:
        pass
    [request] = sent
    body = request.body or b""
    body = body.encode() if isinstance(body, str) else body
    text = body.read() if hasattr(body, "read") else body
    headers = {
        key.lower(): value.decode() if isinstance(value, bytes) else value
        for key, value in request.headers.items()
        if key.lower() not in IGNORED
    }
    return {
        "case": name,
        "region": region,
        "token": has_token,
        "method": request.method,
        "url": request.url,
        "headers": dict(sorted(headers.items())),
        "body": bytes(text).decode(),
    }


botocore.auth.get_current_datetime = lambda: NOW
requests = [request_of(*case) for case in CASES]
print(json.dumps(requests, indent=1, ensure_ascii=False))
