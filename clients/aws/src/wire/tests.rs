use rstest::rstest;
use serde_json::json;

use super::*;

#[rstest]
#[case::plain("a-Z_0.~", "a-Z_0.~")]
#[case::space_and_plus("a b+c", "a%20b%2Bc")]
#[case::slash("a/b", "a%2Fb")]
#[case::unicode("ü€", "%C3%BC%E2%82%AC")]
#[case::reserved("*'()!:@", "%2A%27%28%29%21%3A%40")]
fn only_unreserved_characters_stand_in_a_path(#[case] text: &str, #[case] path: &str) {
    assert_eq!(escaped(text), path);
}

#[test]
fn a_path_parameter_without_a_value_refuses_the_request() {
    let request = Request::new("DELETE", "/v2/apis/{ApiId}/routes/{RouteId}");
    let unset = request.clone().path("ApiId", "a/b");
    let refused = Err("RouteId has no value, or a segment . or ..".to_owned());
    assert_eq!(unset.url("https://x"), refused);
    let empty = unset.clone().path("RouteId", "");
    assert_eq!(empty.url("https://x"), refused);
    let url = unset.path("RouteId", "r").url("https://x/base/");
    assert_eq!(url.as_deref(), Ok("https://x/base/v2/apis/a%2Fb/routes/r"));
}

#[rstest]
#[case::dot("/{Id}", ".", false)]
#[case::dots("/{Id}", "..", false)]
#[case::dots_within("/{Id}", "a..b", true)]
#[case::escaped_slash("/{Id}", "../a", true)]
#[case::first_segment("/{Id+}", "../a", false)]
#[case::middle_segment("/{Id+}", "a/./b", false)]
#[case::last_segment("/{Id+}", "a/..", false)]
#[case::empty_segment("/{Id+}", "a//b...", true)]
fn a_path_parameter_cannot_leave_its_path(
    #[case] path: &str,
    #[case] value: &str,
    #[case] is_valid: bool,
) {
    let url = Request::new("GET", path).path("Id", value).url("https://x");
    assert_eq!(url.is_ok(), is_valid, "{url:?}");
}

#[test]
fn a_request_is_not_printed_with_its_body() {
    let request = Request::json("1.1", "x", &json!({ "password": "s3cret" }));
    assert!(!format!("{request:?}").contains("s3cret"));
}
