//! What an Update changes.

use rstest::rstest;
use serde_json::json;

use super::{create, desk, domains, refused, tenant, update};

const GEO: &str = "<Customizations><GeoRestrictions><RestrictionType>whitelist</RestrictionType>\
    <Locations><Location>DE</Location></Locations></GeoRestrictions></Customizations>";
const PARAMETERS: &str = "<Parameters><member><Name>p</Name><Value>1</Value></member></Parameters>";

#[test]
fn an_update_is_a_new_version_in_progress() {
    let mut desk = desk();
    let made = create(&mut desk, "acme", &["a.example.com"], "").ok();
    desk.advance(10);
    let hosts = domains(&["b.example.com", "a.example.com"]);
    let answer = update(&mut desk, &made.text("Id"), &made.etag, &hosts).ok();
    assert_eq!(
        (answer.status, answer.root().as_str()),
        (200, "DistributionTenant")
    );
    assert_ne!(answer.etag, made.etag);
    assert_eq!(answer.texts("Domain"), ["b.example.com", "a.example.com"]);
    assert_eq!(answer.texts("Status")[2], "InProgress");
    assert_ne!(
        answer.text("LastModifiedTime"),
        made.text("LastModifiedTime")
    );
    assert_eq!(answer.text("CreatedTime"), made.text("CreatedTime"));
    let again = update(&mut desk, &made.text("Id"), &made.etag, &hosts);
    assert_eq!(again.error(), refused(412, "PreconditionFailed"));
}

#[test]
fn old_names_of_list_members_are_understood() {
    let mut desk = desk();
    let more = "<Parameters><Parameter><Name>p</Name><Value>1</Value></Parameter></Parameters>";
    let made = create(&mut desk, "acme", &["a.example.com"], more).ok();
    assert_eq!(made.text("Value"), "1");
    let hosts = "<Domains><DomainItem><Domain>b.example.com</Domain></DomainItem></Domains>";
    let answer = update(&mut desk, "acme", &made.etag, hosts).ok();
    assert_eq!(answer.text("Domain"), "b.example.com");
}

#[rstest] //       update       body                                    locations  parameters
#[case::replace("replace", "<Enabled>true</Enabled>", 0, 0)]
#[case::merge("merge", "<Enabled>true</Enabled>", 1, 1)]
#[case::merge_of_empty_blocks("merge", "<Customizations/><Parameters/>", 0, 0)]
#[case::deep_merge("deepMerge", "<Enabled>true</Enabled>", 1, 1)]
#[case::deep_merge_of_empty_blocks("deepMerge", "<Customizations/><Parameters/>", 1, 1)]
fn what_is_left_out_follows_the_switch(
    #[case] mode: &str,
    #[case] body: &str,
    #[case] locations: usize,
    #[case] parameters: usize,
) {
    let mut desk = desk();
    desk.switch("cloudfront", json!({ "update": mode }));
    let more = format!("{GEO}{PARAMETERS}");
    let made = create(&mut desk, "acme", &["a.example.com"], &more).ok();
    let answer = update(&mut desk, "acme", &made.etag, body).ok();
    assert_eq!(answer.texts("Location").len(), locations);
    assert_eq!(answer.texts("Value").len(), parameters);
    assert_eq!(answer.texts("Domain"), ["a.example.com"]);
}

#[test]
fn only_what_an_update_adds_is_proved_anew() {
    let mut desk = desk();
    let made = create(&mut desk, "acme", &["a.example.com"], "").ok();
    desk.mutate("acm", json!({ "delete": super::ARN }));
    let off = update(&mut desk, "acme", &made.etag, "<Enabled>false</Enabled>").ok();
    assert_eq!(off.texts("Status")[0], "inactive");
    let hosts = domains(&["a.example.com", "b.example.com"]);
    let added = update(&mut desk, "acme", &off.etag, &hosts);
    assert_eq!(added.error(), refused(400, "InvalidArgument"));
    assert_eq!(tenant(&mut desk, "acme").etag, off.etag);
}

#[test]
fn a_dropped_domain_is_free_for_others() {
    let mut desk = desk();
    let made = create(&mut desk, "acme", &["a.example.com", "b.example.com"], "").ok();
    let taken = create(&mut desk, "other", &["b.example.com"], "");
    assert_eq!(taken.error(), refused(409, "CNAMEAlreadyExists"));
    update(&mut desk, "acme", &made.etag, &domains(&["a.example.com"])).ok();
    create(&mut desk, "other", &["b.example.com"], "").ok();
}
