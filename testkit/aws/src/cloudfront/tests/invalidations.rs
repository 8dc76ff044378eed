//! Invalidations.

use serde_json::json;

use super::{create, desk, get, post, refused};
use crate::desk::{Answer, Desk};

fn invalidate(desk: &mut Desk, reference: &str, paths: &[String], quantity: usize) -> Answer {
    let items = paths.join("</Path><Path>");
    let items = format!("<Path>{items}</Path>");
    let inside = format!(
        "<Paths><Quantity>{quantity}</Quantity><Items>{items}</Items></Paths>\
         <CallerReference>{reference}</CallerReference>"
    );
    let path = "distribution-tenant/acme/invalidation";
    post(desk, path, "InvalidationBatch", &inside)
}

fn all(desk: &mut Desk, reference: &str) -> Answer {
    invalidate(desk, reference, &["/*".to_owned()], 1)
}

fn with_tenant() -> Desk {
    let mut desk = desk();
    create(&mut desk, "acme", &["a.example.com"], "").ok();
    desk
}

#[test]
fn an_invalidation_is_in_progress_and_then_completed() {
    let mut desk = with_tenant();
    let made = all(&mut desk, "r1").ok();
    assert_eq!((made.status, made.root().as_str()), (201, "Invalidation"));
    assert_eq!(made.text("Status"), "InProgress");
    assert_eq!(made.text("Path"), "/*");
    assert!(
        made.location.ends_with(&made.text("Id")),
        "{}",
        made.location
    );
    let path = format!("distribution-tenant/acme/invalidation/{}", made.text("Id"));
    desk.advance(10);
    assert_eq!(get(&mut desk, &path).ok().text("Status"), "Completed");
    let missing = get(&mut desk, "distribution-tenant/acme/invalidation/I0");
    assert_eq!(missing.error(), refused(404, "NoSuchInvalidation"));
}

#[test]
fn an_invalidation_can_be_completed_at_once() {
    let mut desk = with_tenant();
    desk.switch("cloudfront", json!({ "writeAnswers": "Deployed" }));
    let made = all(&mut desk, "r1").ok();
    assert_eq!(made.text("Status"), "Completed");
}

#[test]
fn the_same_reference_gives_the_same_invalidation() {
    let mut desk = with_tenant();
    let made = all(&mut desk, "r1").ok();
    let again = all(&mut desk, "r1").ok();
    assert_eq!(again.text("Id"), made.text("Id"));
    let other = invalidate(&mut desk, "r1", &["/x".to_owned()], 1);
    assert_eq!(other.error(), refused(400, "InvalidArgument"));
}

#[test]
fn batches_and_what_is_in_progress_are_bounded() {
    let mut desk = with_tenant();
    let paths = |count: usize| -> Vec<_> { (0..count).map(|at| format!("/{at}")).collect() };
    let large = invalidate(&mut desk, "big", &paths(3001), 3001);
    assert_eq!(large.error(), refused(413, "BatchTooLarge"));
    let uneven = invalidate(&mut desk, "uneven", &paths(2), 3);
    assert_eq!(uneven.error(), refused(400, "InconsistentQuantities"));
    let relative = invalidate(&mut desk, "relative", &["x".to_owned()], 1);
    assert_eq!(relative.error(), refused(400, "InvalidArgument"));
    for at in 0..15 {
        all(&mut desk, &format!("r{at}")).ok();
    }
    let many = all(&mut desk, "r15");
    assert_eq!(many.error(), refused(400, "TooManyInvalidationsInProgress"));
    desk.advance(10);
    all(&mut desk, "r15").ok();
}
