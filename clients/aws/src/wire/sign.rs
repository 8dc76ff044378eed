//! Signature Version 4 of a request.

use std::fmt;
use std::time::SystemTime;

use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode,
};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::identity::Identity;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use jiff::Timestamp;

use super::Request;
use crate::Keys;
use crate::keyring::sdk_credentials;

/// S3 does not decode a path before it checks the signature, and wants the hash of the body in a
/// header.
const S3: &str = "s3";
const USER_AGENT: &str = concat!("pontoon/", env!("CARGO_PKG_VERSION"));

/// What a signature is valid for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) region: &'a str,
    /// The name of the service in signatures.
    pub(crate) service: &'a str,
    pub(crate) time: Timestamp,
}

/// A request with its signature. Its headers are secret.
pub(crate) struct SignedRequest {
    pub(super) method: &'static str,
    /// Address with path and query.
    pub(super) url: String,
    /// Names in lower case, and values. The host is among them.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// Signs `request` for this endpoint.
///
/// # Errors
/// Why the request is not valid.
pub(crate) fn sign(
    request: &Request,
    endpoint: &str,
    keys: &Keys,
    scope: Scope<'_>,
) -> Result<SignedRequest, String> {
    let url = request.url(endpoint)?;
    let host = host(&url).ok_or_else(|| format!("{endpoint:?} is no address"))?;
    let mut headers = vec![("host".to_owned(), host.to_owned())];
    let own = request.headers.iter();
    headers.extend(own.map(|(name, value)| (name.to_string(), value.clone())));
    let mut settings = SigningSettings::default();
    if scope.service == S3 {
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    }
    let identity: Identity = sdk_credentials(keys).into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(scope.region)
        .name(scope.service)
        .time(SystemTime::from(scope.time))
        .settings(settings)
        .build()
        .expect("all of it is set");
    let body = if request.is_body_signed {
        SignableBody::Bytes(&request.body)
    } else {
        SignableBody::UnsignedPayload
    };
    let signed = headers.iter();
    let signed = signed.map(|(name, value)| (name.as_str(), value.as_str()));
    let wrong =
        |error: aws_sigv4::http_request::SigningError| match std::error::Error::source(&error) {
            Some(source) => source.to_string(),
            None => error.to_string(),
        };
    let signable = SignableRequest::new(request.method, url.as_str(), signed, body);
    let params = params.into();
    let instructions =
        aws_sigv4::http_request::sign(signable.map_err(wrong)?, &params).map_err(wrong)?;
    let (instructions, _) = instructions.into_parts();
    let added = instructions.headers();
    headers.extend(added.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Ok(SignedRequest {
        method: request.method,
        url,
        headers,
        body: request.body.clone(),
    })
}

impl SignedRequest {
    /// In the form of the connector, which adds the host.
    pub(crate) fn http(self) -> Result<HttpRequest, String> {
        let mut request = HttpRequest::new(SdkBody::from(self.body));
        let wrong = |error: &dyn fmt::Display| error.to_string();
        request
            .set_method(self.method)
            .map_err(|error| wrong(&error))?;
        request.set_uri(self.url).map_err(|error| wrong(&error))?;
        let headers = request.headers_mut();
        let sent = self.headers.into_iter().filter(|(name, _)| name != "host");
        let agent = ("user-agent".to_owned(), USER_AGENT.to_owned());
        for (name, value) in sent.chain([agent]) {
            headers
                .try_insert(name, value)
                .map_err(|error| wrong(&error))?;
        }
        Ok(request)
    }
}

/// The host of an address, with a port if that is not the usual one.
fn host(url: &str) -> Option<&str> {
    let (scheme, after) = url.split_once("://")?;
    let end = after.find(['/', '?']).unwrap_or(after.len());
    let host = &after[..end];
    let usual = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => return None,
    };
    let host = host.strip_suffix(usual).unwrap_or(host);
    (!host.is_empty()).then_some(host)
}
