//! Tags by ARN.

use http::Method;

use super::{call, create, desk, document, get, refused, tenant};
use crate::desk::{Answer, Desk};

fn tag(desk: &mut Desk, arn: &str, key: &str, value: &str) -> Answer {
    let items = format!("<Items><Tag><Key>{key}</Key><Value>{value}</Value></Tag></Items>");
    let path = format!("tagging?Operation=Tag&Resource={arn}");
    call(desk, Method::POST, &path, None, &document("Tags", &items))
}

#[test]
fn tags_are_added_changed_removed_and_listed() {
    let mut desk = desk();
    let made = create(&mut desk, "acme", &["a.example.com"], super::MARKER).ok();
    let arn = made.text("Arn");
    let answer = tag(&mut desk, &arn, "team", "a").ok();
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    tag(&mut desk, &arn, "team", "b").ok();
    let path = format!("tagging?Operation=Untag&Resource={arn}");
    let keys = document("TagKeys", "<Items><Key>pontoon.io/object</Key></Items>");
    call(&mut desk, Method::POST, &path, None, &keys).ok();
    let listed = get(&mut desk, &format!("tagging?Resource={arn}")).ok();
    assert_eq!(listed.root(), "Tags");
    assert_eq!(listed.texts("Key"), ["pontoon.io/cluster", "team"]);
    assert_eq!(listed.texts("Value"), ["c1", "b"]);
    let read = tenant(&mut desk, "acme");
    assert_eq!(
        (&read.etag, read.text("LastModifiedTime")),
        (&made.etag, made.text("LastModifiedTime"))
    );
}

#[test]
fn a_tag_needs_something_to_hang_on_and_a_key_of_its_own() {
    let mut desk = desk();
    let arn = "arn:aws:cloudfront::000000000000:distribution-tenant/dt_0";
    assert_eq!(
        tag(&mut desk, arn, "a", "b").error(),
        refused(404, "NoSuchResource")
    );
    let theirs = "arn:aws:cloudfront::222222222222:distribution/E1";
    assert_eq!(
        tag(&mut desk, theirs, "a", "b").error(),
        refused(404, "NoSuchResource")
    );
    let own = "arn:aws:cloudfront::000000000000:distribution/E1";
    assert_eq!(
        tag(&mut desk, own, "aws:a", "b").error(),
        refused(400, "InvalidTagging")
    );
    tag(&mut desk, own, "a", "b").ok();
    let group = "arn:aws:cloudfront::000000000000:connection-group/cg0";
    tag(&mut desk, group, "a", "b").ok();
}
