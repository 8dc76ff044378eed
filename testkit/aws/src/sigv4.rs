//! The access key, region and service of a signed request.
//!
//! Both forms of Signature Version 4 are read: the `Authorization` header and the `X-Amz-*` query
//! of a presigned URL. The signature itself is **not** verified, nor the age of the request:
//! the emulator has no secrets, and its clock is not the caller's. It does not notice a wrong
//! signature.

use std::fmt;

use crate::wire::Request;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What a signature is valid for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Day of signing, `yyyymmdd`.
    pub date: String,
    /// Region, `us-east-1` for the global services.
    pub region: String,
    /// Signing name of the service.
    pub service: String,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}/aws4_request",
            self.date, self.region, self.service
        )
    }
}

/// The credential that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// Access key id.
    pub key: String,
    /// Date, region and service of the credential.
    pub scope: Scope,
    /// Session token, for temporary keys.
    pub token: Option<String>,
}

/// Why a request counts as not signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsigned {
    /// There is no signature.
    Missing,
    /// Parts of the signature are missing or malformed; the text says which.
    Incomplete(String),
}

/// Reads the credential of `request`.
pub fn signed(request: &Request) -> Result<Signed, Unsigned> {
    if let Some(header) = request.header("authorization") {
        let (key, scope) = authorization(header).map_err(Unsigned::Incomplete)?;
        if request
            .header("x-amz-date")
            .or(request.header("date"))
            .is_none()
        {
            let wrong = "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.";
            return Err(Unsigned::Incomplete(format!(
                "{wrong} Authorization={ALGORITHM}"
            )));
        }
        let token = request.header("x-amz-security-token").map(str::to_owned);
        return Ok(Signed { key, scope, token });
    }
    if request.query_value("X-Amz-Algorithm").is_some()
        || request.query_value("X-Amz-Credential").is_some()
    {
        return presigned(request).map_err(Unsigned::Incomplete);
    }
    Err(Unsigned::Missing)
}

/// Key and scope from the text of an `Authorization` header.
pub fn authorization(header: &str) -> Result<(String, Scope), String> {
    let (algorithm, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
    if algorithm != ALGORITHM {
        return Err(format!("Unsupported AWS 'algorithm': '{algorithm}'."));
    }
    let part = |name: &str| {
        let mut parts = rest
            .split(',')
            .filter_map(|part| part.trim().split_once('='));
        parts
            .find(|(key, value)| *key == name && !value.is_empty())
            .map(|(_, value)| value)
    };
    let credential = part("Credential");
    let absent: Vec<_> = [
        ("Credential", credential),
        ("Signature", part("Signature")),
        ("SignedHeaders", part("SignedHeaders")),
    ]
    .iter()
    .filter(|(_, value)| value.is_none())
    .map(|(name, _)| format!("Authorization header requires '{name}' parameter."))
    .collect();
    match credential {
        Some(credential) if absent.is_empty() => key_and_scope(credential),
        _ => Err(format!("{} Authorization={algorithm}", absent.join(" "))),
    }
}

fn presigned(request: &Request) -> Result<Signed, String> {
    let needed = |name: &str| {
        let value = request.query_value(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("AWS query-string parameters must include '{name}'."))
    };
    let algorithm = needed("X-Amz-Algorithm")?;
    if algorithm != ALGORITHM {
        return Err(format!("Unsupported AWS 'algorithm': '{algorithm}'."));
    }
    let (key, scope) = key_and_scope(needed("X-Amz-Credential")?)?;
    for name in ["X-Amz-Signature", "X-Amz-SignedHeaders", "X-Amz-Date"] {
        needed(name)?;
    }
    let token = request
        .query_value("X-Amz-Security-Token")
        .map(str::to_owned);
    Ok(Signed { key, scope, token })
}

fn key_and_scope(credential: &str) -> Result<(String, Scope), String> {
    let parts: Vec<_> = credential.split('/').collect();
    let [key, date, region, service, end] = parts.as_slice() else {
        return Err(format!(
            "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got '{credential}'"
        ));
    };
    if *end != "aws4_request" {
        return Err(format!(
            "Credential should be scoped with a valid terminator: 'aws4_request', not '{end}'."
        ));
    }
    if date.len() != 8 || !date.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "Date in Credential scope must be yyyymmdd, got '{date}'."
        ));
    }
    if [key, region, service].iter().any(|part| part.is_empty()) {
        return Err(format!(
            "Credential must name a key, a region and a service, got '{credential}'."
        ));
    }
    let scope = Scope {
        date: (*date).to_owned(),
        region: (*region).to_owned(),
        service: (*service).to_owned(),
    };
    Ok(((*key).to_owned(), scope))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    proptest! {
        #[test]
        fn a_well_formed_header_is_parsed_into_its_parts(
            key in "[A-Z0-9]{4,32}", date in "[0-9]{8}", region in "[a-z]{2}-[a-z]{4,9}-[0-9]",
            service in "[a-z0-9]{2,12}", comma in prop::sample::select(vec![",", ", ", ",  "]),
        ) {
            let scope = Scope { date, region, service };
            let header = format!("{ALGORITHM} Credential={key}/{scope}{comma}SignedHeaders=host;x-amz-date{comma}Signature=0a1b");
            prop_assert_eq!(authorization(&header), Ok((key, scope)));
        }

        #[test]
        fn no_header_panics_the_parser(header in ".{0,200}") {
            if let Ok((key, scope)) = authorization(&header) {
                prop_assert!(!key.is_empty() && scope.date.len() == 8);
            }
        }
    }

    #[rstest]
    #[case::nothing_after_the_algorithm(ALGORITHM, "requires 'Credential' parameter")]
    #[case::no_signature(
        "AWS4-HMAC-SHA256 Credential=a/20260101/r/s/aws4_request, SignedHeaders=host",
        "requires 'Signature' parameter"
    )]
    #[case::short_scope(
        "AWS4-HMAC-SHA256 Credential=a/20260101/s/aws4_request, SignedHeaders=host, Signature=1",
        "exactly 5"
    )]
    #[case::bad_date(
        "AWS4-HMAC-SHA256 Credential=a/2026/r/s/aws4_request, SignedHeaders=host, Signature=1",
        "yyyymmdd"
    )]
    #[case::bad_end(
        "AWS4-HMAC-SHA256 Credential=a/20260101/r/s/aws5, SignedHeaders=host, Signature=1",
        "terminator"
    )]
    #[case::no_key(
        "AWS4-HMAC-SHA256 Credential=/20260101/r/s/aws4_request, SignedHeaders=host, Signature=1",
        "must name a key"
    )]
    #[case::another_scheme("Bearer abc", "Unsupported")]
    fn a_malformed_header_names_what_is_wrong(#[case] header: &str, #[case] wrong: &str) {
        let message = authorization(header).unwrap_err();
        assert!(message.contains(wrong), "{message}");
    }
}
