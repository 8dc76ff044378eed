//! A service in one region only, with a signing name that differs from its name.

use aws_emulator::protocol::{ApiError, Protocol};
use aws_emulator::wire::{Request, Response};
use aws_emulator::{Call, ControlError, Emulator, Moment, Operation, Service, Violation};
use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{World, document};

struct Global;

impl Service for Global {
    fn name(&self) -> &'static str {
        "global"
    }

    fn signing_name(&self) -> &'static str {
        "world"
    }

    fn protocol(&self) -> Protocol {
        Protocol::RestXml {
            namespace: "urn:global",
        }
    }

    fn regions(&self) -> Option<&'static [&'static str]> {
        Some(&["us-east-1"])
    }

    fn operation(&self, _request: &Request) -> Option<Operation> {
        Some(Operation {
            name: "Look".to_owned(),
            resource: None,
        })
    }

    fn call(&mut self, call: &Call<'_>, _request: &Request) -> Result<Response, ApiError> {
        Ok(Response::xml(
            200,
            format!("<Region>{}</Region>", call.region),
        ))
    }

    fn mutate(&mut self, _moment: &Moment<'_>, _change: Value) -> Result<Value, ControlError> {
        Err(ControlError::invalid("global holds nothing to edit"))
    }

    fn state(&self, _moment: &Moment<'_>) -> Value {
        json!({})
    }

    fn violations(&self) -> Vec<Violation> {
        Vec::new()
    }

    fn reset(&mut self) {}
}

#[rstest]
#[case::its_own("us-east-1", 200, "Region", "us-east-1")]
#[case::another("eu-west-1", 403, "Code", "SignatureDoesNotMatch")]
#[tokio::test]
async fn a_global_service_answers_in_its_region_only(
    #[case] region: &str,
    #[case] status: u16,
    #[case] element: &str,
    #[case] text: &str,
) {
    let client = World::start().await.http;
    let emulator = Emulator::builder()
        .service(Box::new(Global))
        .start()
        .await
        .unwrap();
    let credential = format!("test/20260101/{region}/world/aws4_request");
    let header =
        format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=00");
    let request = client
        .get(emulator.url())
        .header("authorization", header)
        .header("x-amz-date", "20260101T000000Z");
    let (got, answer) = document(request.send().await.unwrap()).await;
    assert_eq!((got, answer.text(element).as_str()), (status, text));
    let log = emulator.control(Method::GET, "log", Value::Null).unwrap();
    assert_eq!(log["entries"][0]["service"], "global");
}
