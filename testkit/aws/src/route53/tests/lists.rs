//! Lists: pages, order, and reads that are behind.

use serde_json::json;

use super::{batch, change, cname, desk, get};

const D0: &str = "d0.cloudfront.net";

#[test]
fn records_come_page_by_page_in_the_order_of_names_and_types() {
    let mut desk = desk();
    let changes = [
        cname("CREATE", "b.example.com", D0),
        cname("CREATE", "*.example.com", D0),
        change("CREATE", "c.b.example.com", "TXT", 60, &["\"x\""]),
        cname("CREATE", "a.example.com", D0),
    ];
    batch(&mut desk, "Z1", &changes).ok();
    desk.switch("route53", json!({ "pageSize": 4 }));
    let page = get(&mut desk, "hostedzone/Z1/rrset").ok();
    assert_eq!(page.texts("Type"), ["NS", "SOA", "CNAME", "CNAME"]);
    assert_eq!(page.text("IsTruncated"), "true");
    let next = (page.text("NextRecordName"), page.text("NextRecordType"));
    assert_eq!(next, ("b.example.com.".to_owned(), "CNAME".to_owned()));
    let path = format!("hostedzone/Z1/rrset?name={}&type={}", next.0, next.1);
    let rest = get(&mut desk, &path).ok();
    assert_eq!(rest.texts("Name"), ["b.example.com.", "c.b.example.com."]);
    assert_eq!(rest.text("IsTruncated"), "false");
    assert_eq!(page.texts("Name")[2], "\\052.example.com.");
}

#[test]
fn an_answer_holds_no_more_than_asked_for() {
    let mut desk = desk();
    let page = get(&mut desk, "hostedzone/Z1/rrset?maxitems=1").ok();
    assert_eq!(page.texts("Type"), ["NS"]);
    assert_eq!(page.text("MaxItems"), "1");
    let wrong = get(&mut desk, "hostedzone/Z1/rrset?type=NS");
    assert_eq!(wrong.error(), (400, "InvalidInput".to_owned()));
}

#[test]
fn zones_come_page_by_page_and_only_ones_own() {
    let mut desk = desk();
    for (id, account) in [
        ("Z2", "000000000000"),
        ("Z3", "222222222222"),
        ("Z4", "000000000000"),
    ] {
        let zone = json!({ "id": id, "name": format!("{id}.com"), "account": account });
        desk.mutate("route53", json!({ "zone": zone }));
    }
    desk.switch("route53", json!({ "pageSize": 2 }));
    let page = get(&mut desk, "hostedzone").ok();
    assert_eq!(page.texts("Id"), ["/hostedzone/Z1", "/hostedzone/Z2"]);
    let path = format!("hostedzone?marker={}", page.text("NextMarker"));
    let rest = get(&mut desk, &path).ok();
    assert_eq!(rest.texts("Id"), ["/hostedzone/Z4"]);
    assert_eq!(rest.text("IsTruncated"), "false");
}

#[test]
fn a_zone_tells_its_name_and_how_many_records_it_has() {
    let mut desk = desk();
    let zone = get(&mut desk, "hostedzone/Z1").ok();
    assert_eq!(zone.root(), "GetHostedZoneResponse");
    assert_eq!(zone.text("Name"), "example.com.");
    assert_eq!(zone.text("ResourceRecordSetCount"), "2");
    assert_eq!(zone.text("PrivateZone"), "false");
    assert_eq!(zone.texts("NameServer").len(), 2);
}

#[test]
fn reads_are_behind_by_the_read_lag() {
    let mut desk = desk();
    desk.advance(60);
    desk.switch("route53", json!({ "readLag": 10 }));
    batch(&mut desk, "Z1", &[cname("CREATE", "a.example.com", D0)]).ok();
    let names = |desk: &mut crate::desk::Desk| {
        let listed = get(desk, "hostedzone/Z1/rrset?name=a.example.com").ok();
        listed.texts("Name")
    };
    assert_eq!(names(&mut desk), Vec::<String>::new());
    desk.advance(10);
    assert_eq!(names(&mut desk), ["a.example.com."]);
}
