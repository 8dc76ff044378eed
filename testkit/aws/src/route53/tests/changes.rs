//! How a change comes to be in sync, and batches that meet.

use serde_json::json;

use super::{batch, cname, desk, document, get};

const D0: &str = "d0.cloudfront.net";

#[test]
fn a_change_is_pending_until_the_delay_is_over() {
    let mut desk = desk();
    desk.switch("route53", json!({ "insyncDelay": 30 }));
    let answer = batch(&mut desk, "Z1", &[cname("CREATE", "a.example.com", D0)]).ok();
    assert_eq!(answer.root(), "ChangeResourceRecordSetsResponse");
    assert_eq!(answer.text("Status"), "PENDING");
    assert_eq!(answer.text("Comment"), "c");
    let id = answer.text("Id");
    let path = id.trim_start_matches('/').to_owned();
    desk.advance(29);
    assert_eq!(get(&mut desk, &path).ok().text("Status"), "PENDING");
    desk.advance(1);
    let info = get(&mut desk, &path).ok();
    assert_eq!(
        (info.root().as_str(), info.text("Status").as_str()),
        ("GetChangeResponse", "INSYNC")
    );
    assert_eq!(info.text("Id"), id);
}

#[test]
fn a_forgotten_or_foreign_change_is_no_change() {
    let mut desk = desk();
    let answer = batch(&mut desk, "Z1", &[cname("CREATE", "a.example.com", D0)]).ok();
    let path = answer.text("Id").trim_start_matches('/').to_owned();
    desk.mutate("route53", json!({ "settle": true }));
    assert_eq!(get(&mut desk, &path).text("Status"), "INSYNC");
    desk.mutate("route53", json!({ "forgetChanges": true }));
    assert_eq!(
        get(&mut desk, &path).error(),
        (404, "NoSuchChange".to_owned())
    );
}

#[test]
fn a_stale_read_of_a_change_is_behind() {
    let mut desk = desk();
    desk.switch("route53", json!({ "insyncDelay": 0 }));
    let answer = batch(&mut desk, "Z1", &[cname("CREATE", "a.example.com", D0)]).ok();
    assert_eq!(answer.text("Status"), "INSYNC");
    let path = answer.text("Id").trim_start_matches('/').to_owned();
    desk.fault(json!({ "operation": "GetChange", "times": 1, "effect": "stale" }));
    assert_eq!(get(&mut desk, &path).text("Status"), "PENDING");
    assert_eq!(get(&mut desk, &path).text("Status"), "INSYNC");
}

#[test]
fn a_second_batch_before_the_first_is_answered_is_refused_and_told() {
    let mut desk = desk();
    let bodies = ["a", "b"].map(|label| {
        let name = format!("{label}.example.com");
        document(&[cname("CREATE", &name, D0)])
    });
    let path = "/2013-04-01/hostedzone/Z1/rrset";
    let bodies = bodies.each_ref().map(String::as_str);
    let [first, second] = desk.two_at_once("route53", path, bodies);
    assert_eq!(first.status, 200);
    assert_eq!(second.error(), (400, "PriorRequestNotComplete".to_owned()));
    assert_eq!(desk.broken(), ["batchesAtOnce"]);
    batch(&mut desk, "Z1", &[cname("CREATE", "b.example.com", D0)]).ok();
}

#[test]
fn too_many_calls_are_throttled() {
    let mut desk = desk();
    desk.switch("route53", json!({ "rate": 2 }));
    let mut status = || get(&mut desk, "hostedzone").status;
    assert_eq!([status(), status(), status()], [200, 200, 400]);
    desk.advance(1);
    let answer = get(&mut desk, "hostedzone").ok();
    assert_eq!(answer.status, 200);
}
