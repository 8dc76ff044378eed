//! What a batch may do, in Route 53's words.

use rstest::rstest;

use super::{alias, batch, change, cname, desk, get};

const D0: &str = "d0.cloudfront.net";

fn told(name: &str) -> String {
    format!("[name='{name}', type='CNAME']")
}

#[rstest]
#[case::create_over_another(
    cname("CREATE", "a.example.com", D0),
    format!("[Tried to create resource record set {} but it already exists]", told("a.example.com."))
)]
#[case::delete_of_nothing(
    cname("DELETE", "b.example.com", D0),
    format!("[Tried to delete resource record set {} but it was not found]", told("b.example.com."))
)]
#[case::delete_with_another_ttl(
    change("DELETE", "a.example.com", "CNAME", 60, &[D0]),
    format!(
        "[Tried to delete resource record set {} but the values provided do not match the current values]",
        told("a.example.com.")
    )
)]
#[case::outside_of_the_zone(
    cname("CREATE", "a.example.org", D0),
    "[RRSet with DNS name a.example.org. is not permitted in zone example.com.]".to_owned()
)]
#[case::a_cname_at_the_apex(
    cname("CREATE", "example.com", D0),
    "[RRSet of type CNAME with DNS name example.com. is not permitted at apex in zone example.com.]".to_owned()
)]
#[case::a_cname_beside_another_type(
    cname("UPSERT", "t.example.com", D0),
    "[RRSet of type CNAME with DNS name t.example.com. is not permitted as it conflicts with other records with the same DNS name in zone example.com.]".to_owned()
)]
#[case::another_type_beside_a_cname(
    change("CREATE", "a.example.com", "TXT", 60, &["\"x\""]),
    "[RRSet of type TXT with DNS name a.example.com. is not permitted because a conflicting RRSet of type CNAME with the same DNS name already exists in zone example.com.]".to_owned()
)]
#[case::an_alias_out_of_cloudfront(
    alias("CREATE", "example.com", "A", "d0.example.org"),
    "[Tried to create an alias that targets d0.example.org., type A in zone Z2FDTNDATAQYW2, but the alias target name does not lie within the target zone]".to_owned()
)]
#[case::the_last_name_servers(
    change("DELETE", "example.com", "NS", 172_800, &["ns-1.awsdns-01.org.", "ns-2.awsdns-02.com."]),
    "[A HostedZone must contain at least one NS record for the zone itself.]".to_owned()
)]
fn a_batch_is_refused_for(#[case] wrong: String, #[case] message: String) {
    let mut desk = desk();
    let first = [
        cname("CREATE", "a.example.com", D0),
        change("CREATE", "t.example.com", "TXT", 60, &["\"x\""]),
    ];
    batch(&mut desk, "Z1", &first).ok();
    let answer = batch(&mut desk, "Z1", &[wrong]);
    assert_eq!(answer.error(), (400, "InvalidChangeBatch".to_owned()));
    assert_eq!(answer.text("Message"), message);
}

#[test]
fn a_refused_batch_changes_nothing_and_tells_every_fault() {
    let mut desk = desk();
    let changes = [
        cname("CREATE", "a.example.com", D0),
        cname("DELETE", "b.example.com", D0),
        cname("DELETE", "c.example.com", D0),
    ];
    let answer = batch(&mut desk, "Z1", &changes);
    let message = answer.text("Message");
    assert_eq!(
        message.matches("but it was not found").count(),
        2,
        "{message}"
    );
    let listed = get(&mut desk, "hostedzone/Z1/rrset").ok();
    assert_eq!(listed.texts("Type"), ["NS", "SOA"]);
}

#[test]
fn a_type_changes_by_delete_and_create_in_one_batch() {
    let mut desk = desk();
    batch(&mut desk, "Z1", &[cname("CREATE", "a.example.com", D0)]).ok();
    let changes = [
        cname("DELETE", "a.example.com", D0),
        alias("CREATE", "a.example.com", "A", D0),
        alias("CREATE", "a.example.com", "AAAA", D0),
    ];
    batch(&mut desk, "Z1", &changes).ok();
    let listed = get(&mut desk, "hostedzone/Z1/rrset?name=a.example.com").ok();
    assert_eq!(listed.texts("Type"), ["A", "AAAA"]);
    assert_eq!(
        listed.texts("DNSName"),
        ["d0.cloudfront.net.", "d0.cloudfront.net."]
    );
    assert_eq!(listed.texts("TTL"), Vec::<String>::new());
}

#[test]
fn one_record_may_be_named_twice_only_to_replace_it() {
    let mut desk = desk();
    batch(&mut desk, "Z1", &[cname("CREATE", "a.example.com", D0)]).ok();
    let replaced = [
        cname("DELETE", "a.example.com", D0),
        cname("CREATE", "a.example.com", "d1.cloudfront.net"),
    ];
    batch(&mut desk, "Z1", &replaced).ok();
    let twice = [
        cname("UPSERT", "a.example.com", D0),
        cname("UPSERT", "A.example.com.", D0),
    ];
    let answer = batch(&mut desk, "Z1", &twice);
    assert_eq!(
        answer.text("Message"),
        "[The request contains an invalid set of changes for a resource record set 'CNAME a.example.com.']"
    );
}

#[rstest]
#[case::a_full_batch_of_creates("CREATE", 1000, 10, None)]
#[case::one_create_too_many("CREATE", 1001, 10, Some("records limit of 1000"))]
#[case::a_full_batch_of_upserts("UPSERT", 500, 10, None)]
#[case::one_upsert_too_many("UPSERT", 501, 10, Some("records limit of 1000"))]
#[case::as_many_characters_as_fit("CREATE", 160, 200, None)]
#[case::too_many_characters("UPSERT", 81, 200, Some("characters limit of 32000"))]
fn a_batch_has_limits(
    #[case] action: &str,
    #[case] records: usize,
    #[case] length: usize,
    #[case] refused: Option<&str>,
) {
    let mut desk = desk();
    let value = format!("\"{}\"", "x".repeat(length - 2));
    let changes: Vec<_> = (0..records)
        .map(|at| change(action, &format!("n{at}.example.com"), "TXT", 60, &[&value]))
        .collect();
    let answer = batch(&mut desk, "Z1", &changes);
    match refused {
        None => assert_eq!(answer.status, 200, "{}", answer.body),
        Some(told) => assert!(answer.text("Message").contains(told), "{}", answer.body),
    }
}

#[rstest]
#[case::a_value_without_ttl(
    "<Name>a.example.com</Name><Type>CNAME</Type><ResourceRecords><ResourceRecord><Value>d</Value></ResourceRecord></ResourceRecords>",
    "but found none in Change with [Action=CREATE, Name=a.example.com, Type=CNAME, SetIdentifier=null]"
)]
#[case::an_alias_with_ttl(
    "<Name>a.example.com</Name><Type>A</Type><TTL>60</TTL><AliasTarget><HostedZoneId>Z2FDTNDATAQYW2</HostedZoneId><DNSName>d</DNSName><EvaluateTargetHealth>false</EvaluateTargetHealth></AliasTarget>",
    "but found more than one in Change with"
)]
#[case::an_unknown_type(
    "<Name>a.example.com</Name><Type>ALIAS</Type>",
    "Invalid record type 'ALIAS'"
)]
fn what_cannot_be_understood_is_invalid_input(#[case] record: &str, #[case] told: &str) {
    let change = format!(
        "<Change><Action>CREATE</Action><ResourceRecordSet>{record}</ResourceRecordSet></Change>"
    );
    let answer = batch(&mut desk(), "Z1", &[change]);
    assert_eq!(answer.error(), (400, "InvalidInput".to_owned()));
    assert!(answer.text("Message").contains(told), "{}", answer.body);
}

#[test]
fn zones_that_are_missing_or_foreign_are_told_apart() {
    let mut desk = desk();
    let foreign = serde_json::json!({ "id": "Z2", "name": "other.com", "account": "222222222222" });
    desk.mutate("route53", serde_json::json!({ "zone": foreign }));
    let changes = [cname("CREATE", "a.other.com", D0)];
    let missing = batch(&mut desk, "Z9", &changes);
    assert_eq!(missing.error(), (404, "NoSuchHostedZone".to_owned()));
    assert_eq!(missing.text("Message"), "No hosted zone found with ID: Z9");
    let denied = batch(&mut desk, "Z2", &changes);
    assert_eq!(denied.error(), (403, "AccessDenied".to_owned()));
}
