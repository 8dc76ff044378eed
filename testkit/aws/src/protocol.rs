//! The error formats of the AWS protocols.

use serde_json::json;

use crate::wire::{Request, Response};
use crate::xml::Element;

/// A service's wire protocol; it decides the format of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Form in, XML out (STS, RDS); errors have this namespace.
    Query {
        /// Namespace of the service's documents.
        namespace: &'static str,
    },
    /// EC2's own dialect of Query, with its own error document.
    Ec2,
    /// XML over paths and methods (CloudFront, Route 53).
    RestXml {
        /// Namespace of the service's documents.
        namespace: &'static str,
    },
    /// JSON 1.0 (DynamoDB): the error type is qualified by the service's shape namespace.
    Json10 {
        /// The text before `#` in `__type`.
        shapes: &'static str,
    },
    /// JSON 1.1 (ACM).
    Json11,
    /// JSON over paths and methods (Lambda, API Gateway): the code is in a header.
    RestJson,
}

impl Protocol {
    /// The most likely protocol of a request that no service recognises.
    pub fn guess(request: &Request) -> Self {
        match request.header("content-type").unwrap_or_default() {
            "application/x-amz-json-1.0" => Self::Json10 {
                shapes: "com.amazon.coral.service",
            },
            "application/x-amz-json-1.1" => Self::Json11,
            "application/json" => Self::RestJson,
            _ => Self::Query {
                namespace: "http://webservices.amazon.com/AWSFault/2005-15-09",
            },
        }
    }

    /// The answer for `error`.
    pub fn error(self, error: &ApiError, request_id: &str) -> Response {
        match self {
            Self::Query { namespace } | Self::RestXml { namespace } => {
                let detail = Element::new("Error")
                    .leaf(
                        "Type",
                        if error.status < 500 {
                            "Sender"
                        } else {
                            "Receiver"
                        },
                    )
                    .leaf("Code", &error.code)
                    .leaf("Message", &error.message);
                let document = Element::new("ErrorResponse")
                    .xmlns(namespace)
                    .child(detail)
                    .leaf("RequestId", request_id);
                Response::xml(error.status, document.document())
            }
            Self::Ec2 => {
                let detail = Element::new("Error")
                    .leaf("Code", &error.code)
                    .leaf("Message", &error.message);
                let errors = Element::new("Errors").child(detail);
                let document = Element::new("Response")
                    .child(errors)
                    .leaf("RequestID", request_id);
                Response::xml(error.status, document.document())
            }
            Self::Json10 { shapes } => {
                let kind = format!("{shapes}#{}", error.code);
                let body = json!({ "__type": kind, "message": error.message });
                Response::json(error.status, "application/x-amz-json-1.0", &body)
                    .with("x-amzn-errortype", error.code.clone())
            }
            Self::Json11 => {
                let body = json!({ "__type": error.code, "message": error.message });
                Response::json(error.status, "application/x-amz-json-1.1", &body)
                    .with("x-amzn-errortype", error.code.clone())
            }
            Self::RestJson => {
                let body = json!({ "message": error.message });
                Response::json(error.status, "application/json", &body)
                    .with("x-amzn-errortype", error.code.clone())
            }
        }
    }

    /// The error for a throttled call.
    pub fn throttled(self) -> ApiError {
        let (status, code) = match self {
            Self::Query { .. } | Self::RestXml { .. } => (400, "Throttling"),
            Self::Ec2 => (503, "RequestLimitExceeded"),
            Self::Json10 { .. } | Self::Json11 => (400, "ThrottlingException"),
            Self::RestJson => (429, "TooManyRequestsException"),
        };
        ApiError::new(status, code, "Rate exceeded")
    }

    /// The error for a call that the caller's permissions do not cover.
    pub fn denied(self) -> ApiError {
        let message = "You are not authorized to perform this operation.";
        let (status, code) = match self {
            Self::Query { .. } | Self::RestXml { .. } => (403, "AccessDenied"),
            Self::Ec2 => (403, "UnauthorizedOperation"),
            Self::Json10 { .. } | Self::Json11 => (400, "AccessDeniedException"),
            Self::RestJson => (403, "AccessDeniedException"),
        };
        ApiError::new(status, code, message)
    }

    /// The error for a failure of the service itself.
    pub fn internal_error(self) -> ApiError {
        let code = match self {
            Self::Query { .. } | Self::RestXml { .. } => "InternalFailure",
            Self::Ec2 => "InternalError",
            Self::Json10 { .. } | Self::Json11 => "InternalServerError",
            Self::RestJson => "ServiceException",
        };
        ApiError::new(500, code, "An internal error has occurred")
    }

    /// The error for a missing resource. Services have codes of their own; for EC2 it is a volume.
    pub fn not_found(self, resource: &str) -> ApiError {
        let (status, code) = match self {
            Self::Query { .. } | Self::RestXml { .. } => (404, "NoSuchResource"),
            Self::Ec2 => {
                let message = format!("The volume '{resource}' does not exist.");
                return ApiError::new(400, "InvalidVolume.NotFound", &message);
            }
            Self::Json10 { .. } | Self::Json11 => (400, "ResourceNotFoundException"),
            Self::RestJson => (404, "ResourceNotFoundException"),
        };
        ApiError::new(status, code, &format!("{resource} does not exist."))
    }

    /// The error for a refused caller: the codes differ between protocols.
    pub fn refusal(self, refusal: &Refusal) -> ApiError {
        let (xml, json, ec2) = refusal.codes();
        let message = refusal.message();
        match self {
            Self::Query { .. } | Self::RestXml { .. } => ApiError::new(xml.0, xml.1, &message),
            Self::Ec2 => ApiError::new(ec2.0, ec2.1, &message),
            Self::Json10 { .. } | Self::Json11 => ApiError::new(400, json, &message),
            Self::RestJson => ApiError::new(403, json, &message),
        }
    }
}

/// An error that a service returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status.
    pub status: u16,
    /// AWS's error code.
    pub code: String,
    /// AWS's message, or our best approximation.
    pub message: String,
}

impl ApiError {
    /// An error in AWS's own terms.
    pub fn new(status: u16, code: &str, message: &str) -> Self {
        Self {
            status,
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }
}

/// Why a request is refused before it reaches a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Not signed at all.
    NoSignature,
    /// The signature is incomplete.
    BadSignature(String),
    /// The key is unknown, or the session token does not belong to it.
    UnknownKey,
    /// The session has expired on the emulator's clock.
    Expired,
    /// Signed for a region that the service does not have.
    WrongRegion(String),
}

impl Refusal {
    fn message(&self) -> String {
        match self {
            Self::NoSignature => "Request is missing Authentication Token".to_owned(),
            Self::BadSignature(wrong) => wrong.clone(),
            Self::UnknownKey => "The security token included in the request is invalid.".to_owned(),
            Self::Expired => "The security token included in the request is expired".to_owned(),
            Self::WrongRegion(region) => {
                format!("Credential should be scoped to a valid region, not '{region}'.")
            }
        }
    }

    /// Status and code in XML, code in JSON, status and code in EC2.
    fn codes(&self) -> ((u16, &'static str), &'static str, (u16, &'static str)) {
        match self {
            Self::NoSignature => {
                let xml = (403, "MissingAuthenticationToken");
                (xml, "MissingAuthenticationTokenException", xml)
            }
            Self::BadSignature(_) => {
                let xml = (400, "IncompleteSignature");
                (xml, "IncompleteSignatureException", xml)
            }
            Self::UnknownKey => (
                (403, "InvalidClientTokenId"),
                "UnrecognizedClientException",
                (401, "AuthFailure"),
            ),
            Self::Expired => (
                (403, "ExpiredToken"),
                "ExpiredTokenException",
                (400, "RequestExpired"),
            ),
            Self::WrongRegion(_) => (
                (403, "SignatureDoesNotMatch"),
                "InvalidSignatureException",
                (401, "AuthFailure"),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, status: u16) -> (String, Option<String>) {
        let answer = protocol.error(&ApiError::new(status, "Bad", "a < b"), "r-1");
        assert_eq!(answer.status, status);
        let kind = answer
            .headers
            .iter()
            .find(|(name, _)| *name == "x-amzn-errortype")
            .map(|(_, kind)| kind.clone());
        (String::from_utf8(answer.body.to_vec()).unwrap(), kind)
    }

    #[test]
    fn query_and_rest_xml_errors_have_namespace_and_fault_type() {
        let (body, _) = written(Protocol::Query { namespace: "urn:q" }, 400);
        let error = "<Error><Type>Sender</Type><Code>Bad</Code><Message>a &lt; b</Message></Error>";
        assert!(body.ends_with(&format!(
            "<ErrorResponse xmlns=\"urn:q\">{error}<RequestId>r-1</RequestId></ErrorResponse>"
        )));
        let (body, _) = written(Protocol::RestXml { namespace: "urn:x" }, 503);
        assert!(body.contains("xmlns=\"urn:x\"") && body.contains("<Type>Receiver</Type>"));
    }

    #[test]
    fn ec2_errors_are_in_a_list() {
        let (body, _) = written(Protocol::Ec2, 400);
        let error = "<Errors><Error><Code>Bad</Code><Message>a &lt; b</Message></Error></Errors>";
        assert!(body.ends_with(&format!(
            "<Response>{error}<RequestID>r-1</RequestID></Response>"
        )));
    }

    #[test]
    fn json_errors_have_their_type_in_body_and_header() {
        let bare = Some("Bad".to_owned());
        let (body, kind) = written(Protocol::Json11, 400);
        assert_eq!(
            (body.as_str(), kind),
            (r#"{"__type":"Bad","message":"a < b"}"#, bare.clone())
        );
        let (body, kind) = written(Protocol::Json10 { shapes: "com.x" }, 400);
        assert_eq!(
            (body.as_str(), kind),
            (r#"{"__type":"com.x#Bad","message":"a < b"}"#, bare.clone())
        );
        let (body, kind) = written(Protocol::RestJson, 404);
        assert_eq!((body.as_str(), kind), (r#"{"message":"a < b"}"#, bare));
    }

    #[test]
    fn throttling_has_each_protocols_own_code() {
        let codes = |protocol: Protocol| {
            let error = protocol.throttled();
            (error.status, error.code)
        };
        assert_eq!(
            codes(Protocol::RestXml { namespace: "" }),
            (400, "Throttling".to_owned())
        );
        assert_eq!(
            codes(Protocol::Json11),
            (400, "ThrottlingException".to_owned())
        );
        assert_eq!(
            codes(Protocol::Ec2),
            (503, "RequestLimitExceeded".to_owned())
        );
    }

    #[test]
    fn injected_errors_have_each_protocols_own_code() {
        let codes = |error: ApiError| (error.status, error.code);
        let ec2 = Protocol::Ec2;
        assert_eq!(
            codes(ec2.denied()),
            (403, "UnauthorizedOperation".to_owned())
        );
        assert_eq!(
            codes(ec2.internal_error()),
            (500, "InternalError".to_owned())
        );
        let missing = ec2.not_found("vol-1");
        assert_eq!(missing.message, "The volume 'vol-1' does not exist.");
        assert_eq!(codes(missing), (400, "InvalidVolume.NotFound".to_owned()));
        assert_eq!(
            codes(Protocol::Json11.denied()),
            (400, "AccessDeniedException".to_owned())
        );
    }

    #[test]
    fn an_expired_session_has_each_protocols_own_code() {
        let code = |protocol: Protocol| protocol.refusal(&Refusal::Expired).code;
        assert_eq!(code(Protocol::Query { namespace: "" }), "ExpiredToken");
        assert_eq!(code(Protocol::Ec2), "RequestExpired");
        assert_eq!(code(Protocol::Json11), "ExpiredTokenException");
    }
}
