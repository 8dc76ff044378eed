"""Asks the emulator through boto3 whether the wire form of its EC2 is AWS's.

Usage: boto3_ec2_check.py <url of the emulator>. It ends with 0 if all holds; else with the first thing
that does not.
"""

from boto3_check import ACCOUNT, advance, client, control, is_time, refused, same, status_of

VOLUME = "vol-0123456789abcdef0"
MISSING = "vol-0fedcba9876543210"
NODE, FAR = "i-0123456789abcdef0", "i-0123456789abcdef1"
ZONE = "us-east-1a"

ec2 = client("ec2")


def seed():
    control("POST", "reset")
    control("POST", "clock", {"factor": 0})
    control("PUT", f"ec2/instances/{NODE}", {"az": ZONE})
    control("PUT", f"ec2/instances/{FAR}", {"az": "us-east-1b"})
    control("PUT", f"ec2/volumes/{VOLUME}", {"az": ZONE, "size": 20, "tags": {"team": "a & b"}})


def described(**arguments):
    [volume] = ec2.describe_volumes(**arguments)["Volumes"]
    return volume


def volumes():
    tags = [{"Key": "team", "Value": "new"}]
    made = ec2.create_volume(
        AvailabilityZone=ZONE,
        Size=8,
        VolumeType="io2",
        Iops=100,
        Encrypted=True,
        MultiAttachEnabled=True,
        TagSpecifications=[{"ResourceType": "volume", "Tags": tags}],
    )
    same((made["State"], made["Size"], made["Iops"]), ("creating", 8, 100), "a new volume")
    same((made["Encrypted"], made["MultiAttachEnabled"]), (True, True), "its options")
    same((made["VolumeType"], made["Tags"], made["Attachments"]), ("io2", tags, []), "type and tags")
    assert made["KmsKeyId"], made
    is_time(made["CreateTime"])
    id_ = made["VolumeId"]
    advance(1)
    same(described(VolumeIds=[id_])["State"], "available", "State after its time")
    same(status_of(ec2.delete_volume(VolumeId=id_)), 200, "status of a Delete")
    advance(1)
    refused(ec2.delete_volume, "InvalidVolume.NotFound", 400, kind="ClientError", VolumeId=id_)
    call = ec2.describe_volumes
    refused(call, "InvalidVolume.NotFound", 400, f"'{MISSING}'", "ClientError", VolumeIds=[MISSING])
    by_id = [{"Name": "volume-id", "Values": [VOLUME, MISSING]}]
    same(described(Filters=by_id)["Tags"], [{"Key": "team", "Value": "a & b"}], "found by filter")
    by_tag = [{"Name": "tag:team", "Values": ["a*"]}]
    same(described(Filters=by_tag)["VolumeId"], VOLUME, "found by tag")


def attachments():
    asked = {"VolumeId": VOLUME, "InstanceId": NODE, "Device": "/dev/xvdba"}
    made = ec2.attach_volume(**asked)
    for member, value in {**asked, "State": "attaching", "DeleteOnTermination": False}.items():
        same(made[member], value, member)
    is_time(made["AttachTime"])
    advance(2)
    volume = described(VolumeIds=[VOLUME])
    same((volume["State"], volume["Attachments"][0]["State"]), ("in-use", "attached"), "states")
    refused(ec2.attach_volume, "VolumeInUse", 400, kind="ClientError", **asked)
    filters = [{"Name": "attachment.instance-id", "Values": [FAR]}]
    root = described(Filters=filters)["Attachments"][0]
    same((root["InstanceId"], root["DeleteOnTermination"]), (FAR, True), "a root volume")
    gone = ec2.detach_volume(VolumeId=VOLUME, InstanceId=NODE)
    same(gone["State"], "detaching", "State of a Detach")
    advance(2)
    volume = described(VolumeIds=[VOLUME])
    same((volume["State"], volume["Attachments"]), ("available", []), "states after the Detach")
    refused(ec2.detach_volume, "IncorrectState", 400, kind="ClientError", VolumeId=VOLUME)
    far = {**asked, "InstanceId": FAR}
    refused(ec2.attach_volume, "InvalidVolume.ZoneMismatch", 400, kind="ClientError", **far)
    control("POST", f"ec2/volumes/{VOLUME}/stick")
    ec2.attach_volume(**asked)
    same(ec2.detach_volume(VolumeId=VOLUME)["State"], "busy", "State of a stuck Detach")
    control("POST", f"ec2/volumes/{VOLUME}/release")
    advance(2)
    same(described(VolumeIds=[VOLUME])["State"], "available", "State after the release")


def snapshots():
    tags = [{"Key": "run", "Value": "r1"}, {"Key": "empty", "Value": ""}]
    specification = [{"ResourceType": "snapshot", "Tags": tags}]
    made = ec2.create_snapshot(VolumeId=VOLUME, Description="d", TagSpecifications=specification)
    same((made["State"], made["VolumeSize"], made["OwnerId"]), ("pending", 20, ACCOUNT), "a snapshot")
    is_time(made["StartTime"])
    filters = [{"Name": "tag:run", "Values": ["r1"]}]
    [found] = ec2.describe_snapshots(Filters=filters, OwnerIds=["self"])["Snapshots"]
    same((found["SnapshotId"], found["Description"]), (made["SnapshotId"], "d"), "found by tag")
    same(sorted(tag["Key"] for tag in found["Tags"]), ["empty", "run"], "Tags")
    advance(30)
    [found] = ec2.describe_snapshots(SnapshotIds=[made["SnapshotId"]])["Snapshots"]
    same((found["State"], found["Progress"]), ("completed", "100%"), "State after its time")
    call, missing = ec2.describe_snapshots, "snap-0fedcba9876543210"
    refused(call, "InvalidSnapshot.NotFound", 400, kind="ClientError", SnapshotIds=[missing])


def tags():
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    ec2.create_tags(Resources=[VOLUME], Tags=tags)
    ec2.delete_tags(Resources=[VOLUME], Tags=[{"Key": "a"}, {"Key": "b", "Value": "other"}])
    found = {tag["Key"]: tag["Value"] for tag in described(VolumeIds=[VOLUME])["Tags"]}
    same(found, {"team": "a & b", "b": "2"}, "Tags")


def modifications():
    call = ec2.describe_volumes_modifications
    code = "InvalidVolumeModification.NotFound"
    refused(call, code, 400, kind="ClientError", VolumeIds=[VOLUME])
    control("PUT", f"ec2/volumes/{VOLUME}", {"modification": "modifying", "size": 30})
    [found] = call(VolumeIds=[VOLUME])["VolumesModifications"]
    sizes = (found["OriginalSize"], found["TargetSize"])
    same((found["ModificationState"], *sizes), ("modifying", 20, 30), "a modification")


def instances():
    [reservation] = ec2.describe_instances(InstanceIds=[NODE])["Reservations"]
    [instance] = reservation["Instances"]
    same(instance["State"], {"Code": 16, "Name": "running"}, "State of an instance")
    same(instance["Placement"]["AvailabilityZone"], ZONE, "its zone")
    [root] = instance["BlockDeviceMappings"]
    same((root["DeviceName"], root["Ebs"]["Status"]), ("/dev/xvda", "attached"), "its root volume")


def pages():
    for n in range(12):
        control("PUT", f"ec2/volumes/vol-1000000{n:x}", {"az": ZONE, "tags": {"page": "yes"}})
    filters = [{"Name": "tag-key", "Values": ["page"]}]
    paginator = ec2.get_paginator("describe_volumes")
    pages = list(paginator.paginate(Filters=filters, PaginationConfig={"PageSize": 5}))
    same([len(page["Volumes"]) for page in pages], [5, 5, 2], "pages")


def refusals():
    call = ec2.create_snapshot
    refused(call, "DryRunOperation", 412, kind="ClientError", VolumeId=VOLUME, DryRun=True)
    control("PUT", "ec2/roles/test", {"deny": ["CreateSnapshot"]})
    code = "UnauthorizedOperation"
    refused(call, code, 403, "ec2:CreateSnapshot", "ClientError", VolumeId=VOLUME, DryRun=True)
    refused(call, code, 403, kind="ClientError", VolumeId=VOLUME)
    control("PUT", "ec2/roles/test", {})
    call = ec2.describe_volumes
    effects = {
        "throttle": ("RequestLimitExceeded", 503),
        "500": ("InternalError", 500),
        "deny": ("UnauthorizedOperation", 403),
        "notFound": ("InvalidVolume.NotFound", 400),
    }
    for effect, (code, status) in effects.items():
        rule = {"action": "DescribeVolumes", "volumeId": VOLUME, "effect": effect, "times": 1}
        control("POST", "faults", rule)
        refused(call, code, status, kind="ClientError", VolumeIds=[VOLUME])
    stranger = client("ec2", key="stranger")
    refused(stranger.describe_volumes, "AuthFailure", 401, kind="ClientError")


def main():
    seed()
    checks = [volumes, attachments, snapshots, tags, modifications, instances, pages, refusals]
    for check in checks:
        check()
        print(f"{check.__name__} holds")


if __name__ == "__main__":
    main()
