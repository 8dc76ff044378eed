use std::collections::BTreeMap;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::body::SdkBody;
use rstest::rstest;

use super::*;
use crate::Refusal;

/// As EC2 writes it: an attached volume, a free one, and one of another service.
const VOLUMES: &str = include_str!("tests/volumes.xml");
const CHANGES: &str = include_str!("tests/volume_changes.xml");
const SNAPSHOTS: &str = include_str!("tests/snapshots.xml");
const SNAPSHOT: &str = include_str!("tests/snapshot.xml");

fn answer(body: &str) -> Answer {
    let status = 200_u16.try_into().expect("a status");
    let call = Call::new(Operation::DescribeVolumes, "");
    let body = SdkBody::from(body.to_owned());
    Answer::new(&call, HttpResponse::new(status, body))
}

fn volumes(body: &str) -> Result<Page<Volume>, Error> {
    page(&answer(body), "volumeSet", volume::read)
}

fn tags<const N: usize>(pairs: [(&str, &str); N]) -> Tags {
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    BTreeMap::from(pairs)
}

#[test]
fn an_attached_volume_has_all_its_fields() {
    let page = volumes(VOLUMES).unwrap();
    let expected = Volume {
        id: "vol-0a1b2c3d4e5f60718".to_owned(),
        state: VolumeState::InUse,
        zone: "eu-west-1a".to_owned(),
        size_gib: 100,
        encrypted: true,
        kms_key: Some("arn:aws:kms:eu-west-1:000000000000:key/k".to_owned()),
        multi_attach: true,
        volume_type: "io2".to_owned(),
        tags: tags([("ebs.csi.aws.com/cluster", "true"), ("empty", "")]),
        attachments: vec![Attachment {
            instance: "i-0123456789abcdef0".to_owned(),
            device: "/dev/xvdba".to_owned(),
            state: AttachmentState::Attached,
            delete_on_termination: true,
        }],
    };
    assert_eq!(page.items[0], expected);
    assert_eq!(page.next.as_deref(), Some("AAAA+/=="));
}

#[test]
fn a_volume_without_tags_and_attachments_is_read() {
    let page = volumes(VOLUMES).unwrap();
    let free = &page.items[1];
    assert!(free.is_free());
    assert_eq!((free.tags.len(), free.attachments.len()), (0, 0));
    assert_eq!((free.encrypted, free.kms_key.as_deref()), (false, None));
}

#[test]
fn a_volume_of_another_service_has_an_attachment_without_instance() {
    let page = volumes(VOLUMES).unwrap();
    let [attachment] = page.items[2].attachments.as_slice() else {
        panic!("{page:?}");
    };
    assert_eq!(attachment.instance, "");
    assert_eq!(attachment.state, AttachmentState::Busy);
}

#[rstest]
#[case::free("available", "", true)]
#[case::creating("creating", "", false)]
#[case::in_use("in-use", "", false)]
#[case::deleting("deleting", "", false)]
#[case::deleted("deleted", "", false)]
#[case::failed("error", "", false)]
#[case::new_state("resting", "", false)]
#[case::detaching("available", "detaching", false)]
#[case::detached("available", "detached", false)]
fn only_an_available_volume_without_attachments_is_free(
    #[case] state: &str,
    #[case] attachment: &str,
    #[case] free: bool,
) {
    let attachment = match attachment {
        "" => String::new(),
        state => format!("<item><instanceId>i-1</instanceId><status>{state}</status></item>"),
    };
    let body = format!(
        "<DescribeVolumesResponse><volumeSet><item><volumeId>vol-1</volumeId><size>1</size>\
         <availabilityZone>a</availabilityZone><status>{state}</status>\
         <attachmentSet>{attachment}</attachmentSet></item></volumeSet></DescribeVolumesResponse>"
    );
    let page = volumes(&body).unwrap();
    assert_eq!(page.items[0].is_free(), free);
    assert_eq!(page.items[0].state.as_str(), state);
}

#[rstest]
#[case::id("<volumeId>vol-0a1b2c3d4e5f60718</volumeId>", "volumeId")]
#[case::state("<status>in-use</status>", "status")]
#[case::zone("<availabilityZone>eu-west-1a</availabilityZone>", "availabilityZone")]
#[case::size("<size>100</size>", "size")]
#[case::attachments("<attachmentSet/>", "attachmentSet")]
#[case::list("volumeSet", "volumeSet")]
fn an_answer_without_a_required_field_is_unreadable(#[case] field: &str, #[case] name: &str) {
    // The list is renamed, the fields are removed.
    let instead = if field == name { "otherSet" } else { "" };
    let error = volumes(&VOLUMES.replace(field, instead)).unwrap_err();
    assert_eq!(error, answer("").lacks(name));
}

#[test]
fn a_page_of_a_proxy_is_not_an_empty_list() {
    let error = volumes("<html><body>Sign in</body></html>").unwrap_err();
    assert_eq!(error, answer("").lacks("volumeSet"));
}

#[test]
fn the_last_page_has_no_next() {
    let body = VOLUMES.replace("<nextToken>AAAA+/==</nextToken>", "<nextToken/>");
    assert_eq!(volumes(&body).unwrap().next, None);
}

#[test]
fn changes_of_volumes_are_read() {
    let page = page(
        &answer(CHANGES),
        "volumeModificationSet",
        volume_change::read,
    )
    .unwrap();
    let read = page.items.iter();
    let read: Vec<_> = read
        .map(|change| (change.state.as_str(), change.is_in_progress()))
        .collect();
    let expected = [
        ("modifying", true),
        ("optimizing", true),
        ("completed", false),
        ("failed", false),
        ("pausing", true),
    ];
    assert_eq!(read, expected);
    assert_eq!(page.items[0].volume, "vol-0a1b2c3d4e5f60718");
}

#[test]
fn a_listed_snapshot_equals_the_created_one() {
    let page = page(&answer(SNAPSHOTS), "snapshotSet", snapshot::read).unwrap();
    let created = answer(SNAPSHOT);
    let document = created.xml().unwrap();
    let created = snapshot::read(&created, document.root()).unwrap();
    let expected = Snapshot {
        id: "snap-0123456789abcdef0".to_owned(),
        volume: "vol-0a1b2c3d4e5f60718".to_owned(),
        state: SnapshotState::Pending,
        tags: tags([("migration.aqua.io/run", "r"), ("Name", "web-0")]),
    };
    assert_eq!(created, expected);
    assert_eq!(page.items, [expected]);
}

#[rstest]
#[case::with_an_encoded_part(
    "You are not authorized to perform this operation. Encoded authorization failure message: a1B",
    "You are not authorized to perform this operation"
)]
#[case::without("You are not authorized.", "You are not authorized.")]
fn a_denial_has_the_same_text_each_time(#[case] message: &str, #[case] expected: &str) {
    let refusal = |message: &str| {
        Error::Refused(Box::new(Refusal {
            operation: Operation::CreateSnapshot,
            resource: "vol-1".to_owned(),
            code: "UnauthorizedOperation".to_owned(),
            message: message.to_owned(),
            status: 403,
            request_id: None,
        }))
    };
    assert_eq!(without_encoded_part(refusal(message)), refusal(expected));
}

#[rstest]
#[case::volumes(Permission::DescribeVolumes, "ec2:DescribeVolumes")]
#[case::changes(
    Permission::DescribeVolumesModifications,
    "ec2:DescribeVolumesModifications"
)]
#[case::snapshots(Permission::DescribeSnapshots, "ec2:DescribeSnapshots")]
#[case::delete_tags(
    Permission::DeleteTags { resource: "vol-1", keys: &[] },
    "ec2:DeleteTags"
)]
fn a_permission_names_its_operation(#[case] permission: Permission<'_>, #[case] name: &str) {
    assert_eq!(permission.operation().to_string(), name);
}

#[test]
fn a_read_ends_after_five_seconds_and_a_write_after_the_usual_time() {
    for operation in OPERATIONS {
        let longest = call(*operation, "").longest(Duration::from_secs(30));
        let seconds = if operation.writes() { 30 } else { 5 };
        assert_eq!(longest, Duration::from_secs(seconds), "{operation}");
    }
}
