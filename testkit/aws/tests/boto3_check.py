"""Asks the emulator through boto3, a client that is not ours, whether its wire form is AWS's.

Every operation is called once with success and once for each main error, and the fields boto3
reads out of the answers are compared. Usage: boto3_check.py <url of the emulator>. It ends with 0
if all holds; else with the first thing that does not.
"""

import datetime
import json
import sys
import urllib.request

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

URL = sys.argv[1]
ACCOUNT = "000000000000"
OTHER = "222222222222"
CERTIFICATE = f"arn:aws:acm:us-east-1:{ACCOUNT}:certificate/wild"
ROLE = f"arn:aws:iam::{OTHER}:role/dns"
# One attempt a call: a retry would hide an answer.
ONCE = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=20)


def client(service, key="test", secret="test", token=None, region="us-east-1"):
    return boto3.client(
        service,
        endpoint_url=URL,
        region_name=region,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token,
        config=ONCE,
    )


def control(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{URL}/_emu/{path}", data=data, method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def mutate(service, **change):
    return control("POST", "mutate", {"service": service, **change})


def advance(seconds):
    control("POST", "clock", {"advance": seconds})


def same(is_, should, what):
    assert is_ == should, f"{what}: {is_!r} should be {should!r}"


def refused(call, code, status, told=None, kind=None, **arguments):
    """The call must end with this error: code, status, part of the text, boto3's own class."""
    try:
        call(**arguments)
    except ClientError as error:
        same(error.response["Error"]["Code"], code, "code")
        metadata = error.response["ResponseMetadata"]
        same(metadata["HTTPStatusCode"], status, f"status of {code}")
        assert metadata["RequestId"], "a refusal carries its request id"
        text = error.response["Error"]["Message"]
        assert told is None or told in text, f"{code}: {text!r} should tell {told!r}"
        same(type(error).__name__, kind or code, "boto3's class of the error")
        return error
    raise AssertionError(f"{code} was expected, and the call succeeded")


def status_of(answer):
    return answer["ResponseMetadata"]["HTTPStatusCode"]


def is_time(value):
    assert isinstance(value, datetime.datetime) and value.tzinfo, f"{value!r} is no time"


cloudfront = client("cloudfront")
route53 = client("route53")
acm = client("acm")
sts = client("sts")
dynamodb = client("dynamodb")


def seed():
    control("POST", "reset")
    control("POST", "clock", {"factor": 0})
    mutate("acm", certificate={"arn": CERTIFICATE, "names": ["*.example.com", "example.com"]})
    group = {"name": "default", "id": "cg0", "endpoint": "d0.cloudfront.net", "default": True}
    mutate("cloudfront", group=group)
    parameters = [{"name": "p", "required": True, "default": "1"}, {"name": "q"}]
    mutate("cloudfront", distribution={"id": "E1", "certificate": CERTIFICATE, "parameters": parameters})
    mutate("cloudfront", distribution={"id": "E2"})
    mutate("cloudfront", distribution={"id": "E3", "mode": "direct"})
    mutate("route53", zone={"id": "Z1", "name": "example.com"})
    mutate("route53", zone={"id": "Z2", "name": "example.org", "account": OTHER})
    mutate("sts", roles=[{"arn": ROLE, "externalId": "handshake"}])


# CloudFront: tenants

TENANT = {
    "DistributionId": "E1",
    "Name": "acme",
    "Domains": [{"Domain": "a.example.com"}, {"Domain": "b.example.com"}],
    "Tags": {"Items": [{"Key": "team", "Value": "a & b"}, {"Key": "empty", "Value": ""}]},
    "Customizations": {
        "WebAcl": {"Action": "override", "Arn": "arn:aws:wafv2:us-east-1:000000000000:global/webacl/x/1"},
        "Certificate": {"Arn": CERTIFICATE},
        "GeoRestrictions": {"RestrictionType": "whitelist", "Locations": ["DE", "FR"]},
    },
    "Parameters": [{"Name": "p", "Value": "<1>"}],
    "ConnectionGroupId": "cg0",
    "Enabled": True,
}


def tenants():
    made = cloudfront.create_distribution_tenant(**TENANT)
    same(status_of(made), 201, "status of a Create")
    tenant = made["DistributionTenant"]
    id_, etag = tenant["Id"], made["ETag"]
    same(tenant["Name"], "acme", "Name")
    same(tenant["DistributionId"], "E1", "DistributionId")
    same(tenant["Arn"], f"arn:aws:cloudfront::{ACCOUNT}:distribution-tenant/{id_}", "Arn")
    domains = [{"Domain": host, "Status": "active"} for host in ("a.example.com", "b.example.com")]
    same(tenant["Domains"], domains, "Domains")
    for member in ("Customizations", "Parameters", "ConnectionGroupId", "Enabled"):
        same(tenant[member], TENANT[member], member)
    tags = {tag["Key"]: tag["Value"] for tag in tenant["Tags"]["Items"]}
    same(tags, {"team": "a & b", "empty": ""}, "Tags")
    same(tenant["Status"], "InProgress", "Status")
    is_time(tenant["CreatedTime"])
    is_time(tenant["LastModifiedTime"])

    advance(10)
    for identifier in (id_, "acme", tenant["Arn"]):
        read = cloudfront.get_distribution_tenant(Identifier=identifier)
        same(status_of(read), 200, "status of a Get")
        same((read["DistributionTenant"]["Id"], read["ETag"]), (id_, etag), f"Get by {identifier}")
    same(read["DistributionTenant"]["Status"], "Deployed", "Status after the delay")
    read = cloudfront.get_distribution_tenant_by_domain(Domain="a.example.com")
    same((read["DistributionTenant"]["Id"], read["ETag"]), (id_, etag), "Get by domain")

    updated = cloudfront.update_distribution_tenant(
        Id=id_,
        IfMatch=etag,
        DistributionId="E1",
        Domains=[{"Domain": "a.example.com"}],
        Customizations={},
        Parameters=[],
        ConnectionGroupId="cg0",
        Enabled=False,
    )
    same(status_of(updated), 200, "status of an Update")
    tenant = updated["DistributionTenant"]
    assert updated["ETag"] != etag, "an Update makes a new ETag"
    same(tenant["Customizations"], {}, "Customizations emptied")
    same(tenant["Parameters"], [], "Parameters emptied")
    same((tenant["Enabled"], tenant["Status"]), (False, "InProgress"), "a disabled tenant")

    create = cloudfront.create_distribution_tenant
    other = {**TENANT, "Name": "other", "Domains": [{"Domain": "c.example.com"}]}
    refused(create, "EntityAlreadyExists", 409, **{**other, "Name": "acme"})
    refused(create, "CNAMEAlreadyExists", 409, **{**other, "Domains": TENANT["Domains"]})
    refused(create, "InvalidArgument", 400, **{**other, "Domains": [{"Domain": "C.example.com"}]})
    unproved = {**other, "Domains": [{"Domain": "c.example.net"}]}
    refused(create, "InvalidArgument", 400, told="Could not verify Domain Name ownership", **unproved)
    refused(create, "EntityNotFound", 404, told="distribution", **{**other, "DistributionId": "E9"})
    refused(create, "EntityNotFound", 404, told="connection group", **{**other, "ConnectionGroupId": "cg9"})
    refused(create, "InvalidAssociation", 409, **{**other, "DistributionId": "E3"})
    reserved = {"Items": [{"Key": "aws:x", "Value": ""}]}
    refused(create, "InvalidTagging", 400, **{**other, "Tags": reserved})
    control("PUT", "switches", {"cloudfront": {"tenantLimit": 1}})
    refused(create, "EntityLimitExceeded", 400, **other)
    control("PUT", "switches", {"cloudfront": {"tenantLimit": 100}})

    get = cloudfront.get_distribution_tenant
    refused(get, "EntityNotFound", 404, Identifier="nobody")
    refused(cloudfront.get_distribution_tenant_by_domain, "EntityNotFound", 404, Domain="x.example.com")
    update = cloudfront.update_distribution_tenant
    refused(update, "PreconditionFailed", 412, Id=id_, IfMatch=etag)
    refused(update, "InvalidIfMatchVersion", 400, Id=id_, IfMatch="")
    refused(update, "EntityNotFound", 404, Id="dt_0", IfMatch=etag)

    delete, etag = cloudfront.delete_distribution_tenant, updated["ETag"]
    refused(delete, "PreconditionFailed", 412, Id=id_, IfMatch="E0")
    refused(delete, "ResourceNotDisabled", 409, Id=id_, IfMatch=etag)
    advance(10)
    same(status_of(delete(Id=id_, IfMatch=etag)), 204, "status of a Delete")
    refused(delete, "EntityNotFound", 404, Id=id_, IfMatch=etag)


def lists_of_tenants():
    names = ["one", "two", "three"]
    for at, name in enumerate(names):
        body = {**TENANT, "Name": name, "Domains": [{"Domain": f"n{at}.example.com"}]}
        cloudfront.create_distribution_tenant(**body)
    control("PUT", "switches", {"cloudfront": {"pageSize": 2}})
    page = cloudfront.list_distribution_tenants()
    same([one["Name"] for one in page["DistributionTenantList"]], names[:2], "first page")
    summary = page["DistributionTenantList"][0]
    assert summary["ETag"] and "Tags" not in summary and "Parameters" not in summary, summary
    same(summary["Customizations"], TENANT["Customizations"], "Customizations of a summary")
    same(summary["ConnectionGroupId"], "cg0", "group of a summary")
    is_time(summary["LastModifiedTime"])
    rest = cloudfront.list_distribution_tenants(
        AssociationFilter={"DistributionId": "E1"}, Marker=page["NextMarker"], MaxItems=100
    )
    same([one["Name"] for one in rest["DistributionTenantList"]], names[2:], "last page")
    assert "NextMarker" not in rest, rest
    none = cloudfront.list_distribution_tenants(AssociationFilter={"DistributionId": "E2"})
    same(none["DistributionTenantList"], [], "a distribution without tenants")
    call, by = cloudfront.list_distribution_tenants, {"ConnectionGroupId": "cg9"}
    refused(call, "EntityNotFound", 404, AssociationFilter=by)
    pages = cloudfront.get_paginator("list_distribution_tenants").paginate()
    same(sum(len(page["DistributionTenantList"]) for page in pages), 3, "all pages")


# CloudFront: groups


def groups():
    made = cloudfront.create_connection_group(
        Name="edge", Ipv6Enabled=False, Enabled=True, Tags={"Items": [{"Key": "k", "Value": "v"}]}
    )
    same(status_of(made), 201, "status of a Create")
    group, etag = made["ConnectionGroup"], made["ETag"]
    id_ = group["Id"]
    same((group["Name"], group["Ipv6Enabled"], group["Enabled"]), ("edge", False, True), "a group")
    same((group["IsDefault"], group["Status"]), (False, "InProgress"), "a new group")
    same(group["Tags"]["Items"], [{"Key": "k", "Value": "v"}], "its tags")
    assert group["RoutingEndpoint"].endswith(".cloudfront.net"), group
    is_time(group["CreatedTime"])
    read = cloudfront.get_connection_group(Identifier="edge")
    same((read["ConnectionGroup"]["Id"], read["ETag"]), (id_, etag), "Get by name")

    call = cloudfront.list_connection_groups
    page = call(MaxItems=1)
    same([one["Id"] for one in page["ConnectionGroups"]], ["cg0"], "first page")
    same(page["ConnectionGroups"][0]["RoutingEndpoint"], "d0.cloudfront.net", "default endpoint")
    same(page["ConnectionGroups"][0]["IsDefault"], True, "IsDefault")
    rest = call(Marker=page["NextMarker"])
    same([one["ETag"] for one in rest["ConnectionGroups"]], [etag], "last page")

    create = cloudfront.create_connection_group
    refused(create, "EntityAlreadyExists", 409, Name="edge")
    refused(create, "InvalidArgument", 400, Name="-")
    refused(cloudfront.get_connection_group, "EntityNotFound", 404, Identifier="nobody")
    body = {**TENANT, "Name": "user", "Domains": [{"Domain": "u.example.com"}], "ConnectionGroupId": id_}
    user = cloudfront.create_distribution_tenant(**body)
    update, delete = cloudfront.update_connection_group, cloudfront.delete_connection_group
    refused(update, "PreconditionFailed", 412, Id=id_, IfMatch="E0")
    refused(update, "InvalidIfMatchVersion", 400, Id=id_, IfMatch="")
    refused(update, "ResourceInUse", 409, Id=id_, IfMatch=etag, Enabled=False)
    refused(delete, "ResourceNotDisabled", 409, Id=id_, IfMatch=etag)
    off = cloudfront.update_distribution_tenant(
        Id=user["DistributionTenant"]["Id"], IfMatch=user["ETag"], ConnectionGroupId=id_, Enabled=False
    )
    changed = update(Id=id_, IfMatch=etag, Ipv6Enabled=True, Enabled=False)
    same(status_of(changed), 200, "status of an Update")
    same(changed["ConnectionGroup"]["Ipv6Enabled"], True, "Ipv6Enabled")
    advance(10)
    refused(delete, "CannotDeleteEntityWhileInUse", 409, Id=id_, IfMatch=changed["ETag"])
    cloudfront.delete_distribution_tenant(Id=user["DistributionTenant"]["Id"], IfMatch=off["ETag"])
    same(status_of(delete(Id=id_, IfMatch=changed["ETag"])), 204, "status of a Delete")
    refused(delete, "EntityNotFound", 404, Id=id_, IfMatch=changed["ETag"])


# CloudFront: the rest


def managed_certificates():
    body = {
        "DistributionId": "E2",
        "Name": "managed",
        "Domains": [{"Domain": "m.example.com"}],
        "ManagedCertificateRequest": {
            "ValidationTokenHost": "self-hosted",
            "PrimaryDomainName": "m.example.com",
            "CertificateTransparencyLoggingPreference": "disabled",
        },
    }
    made = cloudfront.create_distribution_tenant(**body)
    domains = made["DistributionTenant"]["Domains"]
    same(domains, [{"Domain": "m.example.com", "Status": "inactive"}], "a domain without certificate")
    get = cloudfront.get_managed_certificate_details
    details = get(Identifier=made["DistributionTenant"]["Id"])["ManagedCertificateDetails"]
    same(details["CertificateStatus"], "pending-validation", "CertificateStatus")
    same(details["ValidationTokenHost"], "self-hosted", "ValidationTokenHost")
    (token,) = details["ValidationTokenDetails"]
    same(token["Domain"], "m.example.com", "domain of the token")
    assert token["RedirectFrom"] and token["RedirectTo"], token
    mutate("cloudfront", managed={"tenant": "managed", "status": "issued"})
    details = get(Identifier="managed")["ManagedCertificateDetails"]
    same(details["CertificateStatus"], "issued", "CertificateStatus")
    attached = cloudfront.update_distribution_tenant(
        Id=made["DistributionTenant"]["Id"],
        IfMatch=made["ETag"],
        Customizations={"Certificate": {"Arn": details["CertificateArn"]}},
    )
    same(attached["DistributionTenant"]["Domains"][0]["Status"], "active", "an attached certificate")
    described = acm.describe_certificate(CertificateArn=details["CertificateArn"])["Certificate"]
    same((described["Status"], described["ManagedBy"]), ("ISSUED", "CLOUDFRONT"), "in ACM")
    refused(get, "EntityNotFound", 404, Identifier="nobody")
    mutate("cloudfront", managed={"tenant": "managed", "status": "none"})
    refused(get, "EntityNotFound", 404, Identifier="managed")


def distributions():
    read = cloudfront.get_distribution(Id="E1")
    config = read["Distribution"]["DistributionConfig"]
    assert read["ETag"], read
    same(config["ConnectionMode"], "tenant-only", "ConnectionMode")
    viewer = config["ViewerCertificate"]
    same(viewer["CloudFrontDefaultCertificate"], False, "CloudFrontDefaultCertificate")
    same(viewer["ACMCertificateArn"], CERTIFICATE, "ACMCertificateArn")
    required, optional = config["TenantConfig"]["ParameterDefinitions"]
    same(required["Name"], "p", "Name of a parameter")
    schema = {"DefaultValue": "1", "Required": True}
    same(required["Definition"]["StringSchema"], schema, "its schema")
    same(optional["Definition"]["StringSchema"], {"Required": False}, "a schema without default")
    default = cloudfront.get_distribution(Id="E2")["Distribution"]["DistributionConfig"]
    same(default["ViewerCertificate"], {"CloudFrontDefaultCertificate": True}, "own certificate")
    direct = cloudfront.get_distribution(Id="E3")["Distribution"]["DistributionConfig"]
    same(direct["ConnectionMode"], "direct", "ConnectionMode")
    refused(cloudfront.get_distribution, "NoSuchDistribution", 404, Id="E9")


def invalidations():
    body = {**TENANT, "Name": "cached", "Domains": [{"Domain": "i.example.com"}]}
    tenant = cloudfront.create_distribution_tenant(**body)["DistributionTenant"]["Id"]
    create = cloudfront.create_invalidation_for_distribution_tenant

    def batch(reference, *paths, quantity=None):
        items = {"Quantity": quantity or len(paths), "Items": list(paths)}
        return {"CallerReference": reference, "Paths": items}

    made = create(Id=tenant, InvalidationBatch=batch("r1", "/*", "/a"))
    same(status_of(made), 201, "status of a Create")
    invalidation = made["Invalidation"]
    assert made["Location"].endswith(invalidation["Id"]), made["Location"]
    same(invalidation["Status"], "InProgress", "Status")
    same(invalidation["InvalidationBatch"], batch("r1", "/*", "/a"), "InvalidationBatch")
    is_time(invalidation["CreateTime"])
    again = create(Id=tenant, InvalidationBatch=batch("r1", "/*", "/a"))
    same(again["Invalidation"]["Id"], invalidation["Id"], "the same CallerReference")
    get = cloudfront.get_invalidation_for_distribution_tenant
    advance(10)
    read = get(DistributionTenantId=tenant, Id=invalidation["Id"])
    same(read["Invalidation"]["Status"], "Completed", "Status after the delay")
    many = [f"/{at}" for at in range(3001)]
    refused(create, "BatchTooLarge", 413, Id=tenant, InvalidationBatch=batch("r2", *many))
    uneven = batch("r3", "/a", quantity=2)
    refused(create, "InconsistentQuantities", 400, Id=tenant, InvalidationBatch=uneven)
    refused(create, "EntityNotFound", 404, Id="dt_0", InvalidationBatch=batch("r4", "/a"))
    for at in range(15):
        create(Id=tenant, InvalidationBatch=batch(f"w{at}", "/*"))
    full = batch("w15", "/*")
    refused(create, "TooManyInvalidationsInProgress", 400, Id=tenant, InvalidationBatch=full)
    refused(get, "NoSuchInvalidation", 404, DistributionTenantId=tenant, Id="I0")


def domains():
    theirs = {"name": "theirs", "distribution": "E8", "domains": ["taken.example.com"]}
    mutate("cloudfront", account=OTHER, tenant=theirs)
    resource = {"DistributionId": "E1"}
    call = cloudfront.list_domain_conflicts
    answer = call(Domain="taken.example.com", DomainControlValidationResource=resource)
    (conflict,) = answer["DomainConflicts"]
    same(conflict["Domain"], "taken.example.com", "Domain")
    same(conflict["ResourceType"], "distribution-tenant", "ResourceType")
    same(conflict["AccountId"], "******222222", "AccountId")
    assert conflict["ResourceId"].startswith("*"), conflict
    none = call(Domain="free.example.com", DomainControlValidationResource=resource)
    same(none["DomainConflicts"], [], "no conflict")
    wrong = {"DistributionTenantId": "dt_0"}
    refused(call, "EntityNotFound", 404, Domain="a.example.com", DomainControlValidationResource=wrong)
    refused(call, "InvalidArgument", 400, Domain="a.example.com", DomainControlValidationResource={})

    body = {**TENANT, "Name": "dns", "Domains": [{"Domain": "v.example.com"}]}
    cloudfront.create_distribution_tenant(**body)
    verify = cloudfront.verify_dns_configuration
    (found,) = verify(Identifier="dns")["DnsConfigurationList"]
    same((found["Domain"], found["Status"]), ("v.example.com", "invalid-configuration"), "no record")
    assert found["Reason"], found
    put = [{"name": "v.example.com", "type": "CNAME", "values": ["d0.cloudfront.net"]}]
    mutate("route53", records={"zone": "Z1", "put": put})
    (found,) = verify(Identifier="dns", Domain="v.example.com")["DnsConfigurationList"]
    same(found, {"Domain": "v.example.com", "Status": "valid-configuration"}, "a right record")
    refused(verify, "EntityNotFound", 404, Identifier="nobody")
    refused(verify, "InvalidArgument", 400, Identifier="dns", Domain="x.example.com")


def tags():
    body = {**TENANT, "Name": "tagged", "Domains": [{"Domain": "t.example.com"}]}
    arn = cloudfront.create_distribution_tenant(**body)["DistributionTenant"]["Arn"]
    items = [{"Key": "team", "Value": "x"}, {"Key": "pontoon.io/object", "Value": "web/acme"}]
    same(status_of(cloudfront.tag_resource(Resource=arn, Tags={"Items": items})), 204, "Tag")
    keys = {"Items": ["empty", "none"]}
    same(status_of(cloudfront.untag_resource(Resource=arn, TagKeys=keys)), 204, "Untag")
    listed = cloudfront.list_tags_for_resource(Resource=arn)["Tags"]["Items"]
    same({tag["Key"]: tag["Value"] for tag in listed}, {tag["Key"]: tag["Value"] for tag in items}, "Tags")
    missing = f"arn:aws:cloudfront::{ACCOUNT}:distribution-tenant/dt_0"
    call = cloudfront.tag_resource
    refused(call, "NoSuchResource", 404, Resource=missing, Tags={"Items": items})
    refused(cloudfront.list_tags_for_resource, "NoSuchResource", 404, Resource=missing)
    reserved = {"Items": [{"Key": "aws:x", "Value": ""}]}
    refused(call, "InvalidTagging", 400, Resource=arn, Tags=reserved)


# Route 53


def cname(action, name, value="d0.cloudfront.net", ttl=300):
    record = {"Name": name, "Type": "CNAME", "TTL": ttl, "ResourceRecords": [{"Value": value}]}
    return {"Action": action, "ResourceRecordSet": record}


def change(zone, *changes):
    return route53.change_resource_record_sets(
        HostedZoneId=zone, ChangeBatch={"Comment": "c", "Changes": list(changes)}
    )


def records():
    owner = {
        "Name": "_pontoon-owner.r.example.com",
        "Type": "TXT",
        "TTL": 300,
        "ResourceRecords": [{"Value": '"heritage=pontoon,owner=c1,resource=web/acme"'}],
    }
    target = {"HostedZoneId": "Z2FDTNDATAQYW2", "DNSName": "d0.cloudfront.net", "EvaluateTargetHealth": False}
    alias = {"Name": "example.com", "Type": "A", "AliasTarget": target}
    made = change(
        "Z1",
        cname("CREATE", "r.example.com"),
        {"Action": "CREATE", "ResourceRecordSet": owner},
        {"Action": "UPSERT", "ResourceRecordSet": alias},
        cname("CREATE", "*.w.example.com"),
    )
    info = made["ChangeInfo"]
    same((info["Status"], info["Comment"]), ("PENDING", "c"), "ChangeInfo")
    assert info["Id"].startswith("/change/C"), info
    is_time(info["SubmittedAt"])
    same(route53.get_change(Id=info["Id"])["ChangeInfo"]["Status"], "PENDING", "Status")
    advance(5)
    same(route53.get_change(Id=info["Id"])["ChangeInfo"]["Status"], "INSYNC", "Status later")

    listed = route53.list_resource_record_sets(HostedZoneId="/hostedzone/Z1")
    sets = {(one["Name"], one["Type"]): one for one in listed["ResourceRecordSets"]}
    same(listed["IsTruncated"], False, "IsTruncated")
    same(sets[("r.example.com.", "CNAME")]["ResourceRecords"], [{"Value": "d0.cloudfront.net"}], "a CNAME")
    same(sets[("r.example.com.", "CNAME")]["TTL"], 300, "TTL")
    value = sets[("_pontoon-owner.r.example.com.", "TXT")]["ResourceRecords"][0]["Value"]
    same(value, owner["ResourceRecords"][0]["Value"], "a TXT value")
    kept = {**target, "DNSName": "d0.cloudfront.net."}
    same(sets[("example.com.", "A")]["AliasTarget"], kept, "AliasTarget")
    assert "TTL" not in sets[("example.com.", "A")], "an alias has no TTL"
    assert ("\\052.w.example.com.", "CNAME") in sets, "a wildcard is escaped"
    page = route53.list_resource_record_sets(HostedZoneId="Z1", MaxItems="2")
    same((page["IsTruncated"], page["MaxItems"]), (True, "2"), "first page")
    start = {"StartRecordName": page["NextRecordName"], "StartRecordType": page["NextRecordType"]}
    rest = route53.list_resource_record_sets(HostedZoneId="Z1", **start)
    same(len(page["ResourceRecordSets"]) + len(rest["ResourceRecordSets"]), len(sets), "all pages")

    def wrong(told, *changes):
        error = refused(lambda: change("Z1", *changes), "InvalidChangeBatch", 400)
        same(error.response["Error"]["Message"], told, "text")

    told = "[name='r.example.com.', type='CNAME']"
    wrong(f"[Tried to create resource record set {told} but it already exists]", cname("CREATE", "r.example.com"))
    mismatch = "but the values provided do not match the current values"
    wrong(f"[Tried to delete resource record set {told} {mismatch}]", cname("DELETE", "r.example.com", ttl=60))
    told = "[name='x.example.com.', type='CNAME']"
    wrong(f"[Tried to delete resource record set {told} but it was not found]", cname("DELETE", "x.example.com"))
    apex = "RRSet of type CNAME with DNS name example.com. is not permitted at apex in zone example.com."
    wrong(f"[{apex}]", cname("CREATE", "example.com"))
    change("Z1", cname("DELETE", "r.example.com"), {"Action": "DELETE", "ResourceRecordSet": owner})


def zones():
    page = route53.list_hosted_zones()
    same([one["Id"] for one in page["HostedZones"]], ["/hostedzone/Z1"], "own zones only")
    same((page["IsTruncated"], page["MaxItems"]), (False, "100"), "one page")
    zone = route53.get_hosted_zone(Id="Z1")
    same(zone["HostedZone"]["Name"], "example.com.", "Name")
    same(zone["HostedZone"]["Config"]["PrivateZone"], False, "PrivateZone")
    assert zone["DelegationSet"]["NameServers"], zone
    refused(route53.get_hosted_zone, "NoSuchHostedZone", 404, Id="Z9")
    refused(route53.get_hosted_zone, "AccessDenied", 403, kind="ClientError", Id="Z2")
    refused(route53.get_change, "NoSuchChange", 404, Id="C9")
    batch = {"Changes": [cname("CREATE", "a.example.org")]}
    call = route53.change_resource_record_sets
    refused(call, "NoSuchHostedZone", 404, HostedZoneId="Z9", ChangeBatch=batch)
    effect = {"error": {"status": 400, "code": "PriorRequestNotComplete"}}
    control("POST", "faults", {"service": "route53", "times": 1, "effect": effect})
    refused(call, "PriorRequestNotComplete", 400, HostedZoneId="Z1", ChangeBatch=batch)


# ACM, STS, DynamoDB, and what all have in common


def certificates():
    certificate = acm.describe_certificate(CertificateArn=CERTIFICATE)["Certificate"]
    same(certificate["DomainName"], "*.example.com", "DomainName")
    same(certificate["SubjectAlternativeNames"], ["*.example.com", "example.com"], "names")
    same(certificate["Status"], "ISSUED", "Status")
    is_time(certificate["CreatedAt"])
    missing = CERTIFICATE.replace("wild", "none")
    refused(acm.describe_certificate, "ResourceNotFoundException", 400, CertificateArn=missing)


def sessions():
    same(sts.get_caller_identity()["Account"], ACCOUNT, "Account")
    assume = {"RoleArn": ROLE, "RoleSessionName": "tests", "ExternalId": "handshake"}
    answer = sts.assume_role(**assume, DurationSeconds=900)
    is_time(answer["Credentials"]["Expiration"])
    same(answer["AssumedRoleUser"]["Arn"], f"arn:aws:sts::{OTHER}:assumed-role/dns/tests", "Arn")
    given = answer["Credentials"]
    keys = (given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
    theirs = client("route53", *keys)
    same([one["Id"] for one in theirs.list_hosted_zones()["HostedZones"]], ["/hostedzone/Z2"], "theirs")
    wrong = {**assume, "ExternalId": "guess"}
    refused(sts.assume_role, "AccessDenied", 403, kind="ClientError", **wrong)
    advance(900)
    refused(theirs.list_hosted_zones, "ExpiredToken", 403, kind="ClientError")


def tables():
    rows = [{"name": f"n{at}", "domain": f"n{at}.example.com"} for at in range(5)]
    rows[1]["domain"] = {"SS": ["x.example.com", "y.example.com"]}
    mutate("dynamodb", table={"name": "sites", "key": ["name"], "rows": rows})
    control("PUT", "switches", {"dynamodb": {"pageSize": 2}})
    first = dynamodb.scan(TableName="sites", ConsistentRead=True)
    same((first["Count"], first["ScannedCount"]), (2, 2), "first page")
    same(first["LastEvaluatedKey"], {"name": {"S": "n1"}}, "LastEvaluatedKey")
    same(sorted(first["Items"][1]["domain"]["SS"]), ["x.example.com", "y.example.com"], "a set")
    pages = dynamodb.get_paginator("scan").paginate(TableName="sites")
    names = [item["name"]["S"] for page in pages for item in page["Items"]]
    same(names, [row["name"] for row in rows], "all pages")
    refused(dynamodb.scan, "ResourceNotFoundException", 400, TableName="none")


def refusals():
    stranger = client("cloudfront", key="stranger")
    refused(stranger.get_distribution, "InvalidClientTokenId", 403, kind="ClientError", Id="E1")
    elsewhere = client("acm", region="eu-west-1")
    call = elsewhere.describe_certificate
    refused(call, "InvalidSignatureException", 400, kind="ClientError", CertificateArn=CERTIFICATE)
    control("PUT", "switches", {name: {"rate": 0.001} for name in ("cloudfront", "route53", "acm", "dynamodb")})
    calls = {
        "Throttling": [
            lambda: cloudfront.get_distribution(Id="E1"),
            lambda: route53.get_hosted_zone(Id="Z1"),
        ],
        "ThrottlingException": [
            lambda: acm.describe_certificate(CertificateArn=CERTIFICATE),
            lambda: dynamodb.scan(TableName="sites"),
        ],
    }
    for code, several in calls.items():
        for call in several:
            call()
            kind = "ClientError" if code == "Throttling" else "ThrottlingException"
            refused(call, code, 400, told="Rate exceeded", kind=kind)
    control("PUT", "switches", {name: {"rate": 0} for name in ("cloudfront", "route53", "acm", "dynamodb")})
    denied = {"error": {"status": 403, "code": "AccessDenied", "message": "no"}}
    control("POST", "faults", {"service": "cloudfront", "times": 1, "effect": denied})
    refused(cloudfront.get_distribution, "AccessDenied", 403, told="no", Id="E1")


def main():
    seed()
    checks = [
        tenants,
        lists_of_tenants,
        groups,
        managed_certificates,
        distributions,
        invalidations,
        domains,
        tags,
        records,
        zones,
        certificates,
        sessions,
        tables,
        refusals,
    ]
    for check in checks:
        check()
        print(f"{check.__name__} holds")


if __name__ == "__main__":
    main()
