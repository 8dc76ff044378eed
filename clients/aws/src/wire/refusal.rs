//! AWS's error responses, in the forms of all protocols.

use std::fmt;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::error::metadata::{ErrorMetadata, ProvideErrorMetadata};
use serde_json::Value;

/// The code and the message of an error response.
#[derive(Debug)]
pub(crate) struct WireRefusal(ErrorMetadata);

impl WireRefusal {
    /// Reads an error response. Its code is in a header, in a JSON object or in an `Error` element;
    /// none, if it is not from AWS, for example a page of a proxy.
    pub(super) fn read(response: &HttpResponse) -> Self {
        let body = response.body().bytes().unwrap_or_default();
        let text = String::from_utf8_lossy(body);
        let named = response.headers().get("x-amzn-errortype");
        let (code, message) = of_body(&text);
        let named = named.map(bare).filter(|code| !code.is_empty());
        let code = named.or(code);
        let mut read = ErrorMetadata::builder();
        if let Some(code) = code.filter(|code| !code.is_empty()) {
            read = read.code(code);
        }
        if let Some(message) = message {
            read = read.message(message);
        }
        Self(read.build())
    }
}

impl fmt::Display for WireRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for WireRefusal {}

impl ProvideErrorMetadata for WireRefusal {
    fn meta(&self) -> &ErrorMetadata {
        &self.0
    }
}

/// Code and message in a body: JSON, or XML.
///
/// | protocol | code | message |
/// |---|---|---|
/// | json, rest-json | `__type` or `code` | `message` |
/// | query | `ErrorResponse/Error/Code` | `Message` beside it |
/// | ec2 | `Response/Errors/Error/Code` | `Message` beside it |
/// | rest-xml | `ErrorResponse/Error/Code`, in S3 `Error/Code` | `Message` beside it |
fn of_body(text: &str) -> (Option<String>, Option<String>) {
    if let Ok(body) = serde_json::from_str::<Value>(text) {
        let first = |names: &[&str]| {
            let found = names.iter().find_map(|&name| body.get(name)?.as_str());
            found.map(str::to_owned)
        };
        let code = first(&["__type", "code", "Code"]);
        let message = first(&["message", "Message", "errorMessage"]);
        return (code.map(|code| bare(&code)), message);
    }
    let Ok(document) = roxmltree::Document::parse(text) else {
        return (None, None);
    };
    let mut all = document.descendants();
    let Some(error) = all.find(|node| node.tag_name().name() == "Error") else {
        return (None, None);
    };
    let child = |name: &str| {
        let mut children = error.children();
        let found = children.find(|node| node.tag_name().name() == name)?;
        found.text().map(|text| text.trim().to_owned())
    };
    (child("Code"), child("Message"))
}

/// A code without the namespace before it and the address after it:
/// `aws.protocoltests#FooError:http://…` is `FooError`.
fn bare(code: &str) -> String {
    let code = code.split_once(':').map_or(code, |(code, _)| code);
    let code = code.rsplit('#').next().unwrap_or(code);
    code.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use aws_smithy_types::body::SdkBody;
    use rstest::rstest;

    use super::*;

    const QUERY: &str = "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error>\
        <Type>Sender</Type><Code>AccessDenied</Code><Message>no</Message></Error>\
        <RequestId>1</RequestId></ErrorResponse>";
    const EC2: &str = "<Response><Errors><Error><Code>InvalidVolume.NotFound</Code>\
        <Message>no</Message></Error></Errors><RequestID>1</RequestID></Response>";
    const S3: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
        <Error><Code>NoSuchBucket</Code><Message>no</Message></Error>";

    #[rstest]
    #[case::json(None, r#"{"__type":"ns#NotFound","message":"no"}"#, Some("NotFound"))]
    #[case::capital(None, r#"{"__type":"NotFound","Message":"no"}"#, Some("NotFound"))]
    #[case::header(Some("Busy:http://x/"), r#"{"message":"no"}"#, Some("Busy"))]
    #[case::header_first(Some("Busy"), r#"{"code":"x","message":"no"}"#, Some("Busy"))]
    #[case::empty_header(Some(""), r#"{"code":"Busy","message":"no"}"#, Some("Busy"))]
    #[case::only_an_address(Some(":http://x/"), r#"{"code":"Busy","message":"no"}"#, Some("Busy"))]
    #[case::query(None, QUERY, Some("AccessDenied"))]
    #[case::ec2(None, EC2, Some("InvalidVolume.NotFound"))]
    #[case::s3(None, S3, Some("NoSuchBucket"))]
    fn every_protocol_has_code_and_message(
        #[case] header: Option<&'static str>,
        #[case] body: &str,
        #[case] code: Option<&str>,
    ) {
        let mut response = response(body);
        if let Some(header) = header {
            response.headers_mut().insert("x-amzn-errortype", header);
        }
        let read = WireRefusal::read(&response);
        assert_eq!((read.code(), read.message()), (code, Some("no")));
    }

    #[rstest]
    #[case::nothing("")]
    #[case::page("<html><body>Bad Gateway</body></html>")]
    #[case::text("no healthy upstream")]
    #[case::list("[]")]
    fn a_page_of_a_proxy_has_no_code(#[case] body: &str) {
        let read = WireRefusal::read(&response(body));
        assert_eq!((read.code(), read.message()), (None, None));
    }

    fn response(body: &str) -> HttpResponse {
        let status = 400_u16.try_into().expect("a status");
        HttpResponse::new(status, SdkBody::from(body))
    }
}
