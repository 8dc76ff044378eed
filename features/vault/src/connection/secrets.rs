//! Secrets of Kubernetes: read by name, at each pass, and never watched.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use api::vault::{SecretKey, SecretName};
use engine::ApiError;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1;
use kernel::Class;
use kube::api::GetParams;
use kube::core::Request;
use kube::{Client, Resource as _};
use serde::de::DeserializeOwned;
use vault_client::Secret;

use super::config::Problem;

/// The keys of a Secret of type kubernetes.io/tls.
const CERTIFICATE: &str = "tls.crt";
const PRIVATE_KEY: &str = "tls.key";

/// One key of one Secret, as people read it: `namespace/name/key`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    namespace: String,
    name: String,
    key: String,
}

/// A Secret gives us nothing. Says where and why, and never what is there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Secret {place} cannot be read: {}", .wrong.told(.place))]
pub(crate) struct SecretProblem {
    place: Place,
    wrong: Wrong,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    /// The reference does not name a Secret.
    Unnamed,
    NoSecret,
    NoKey,
    Empty,
    Forbidden,
    NotText,
}

impl SecretProblem {
    /// What it means to the caller.
    pub(crate) fn class(&self) -> Class {
        match self.wrong {
            Wrong::NoSecret | Wrong::NoKey | Wrong::Empty => Class::NotFound,
            Wrong::Forbidden => Class::Denied,
            Wrong::Unnamed | Wrong::NotText => Class::Invalid,
        }
    }
}

impl Wrong {
    fn told(self, place: &Place) -> String {
        let Place {
            namespace,
            name,
            key,
        } = place;
        match self {
            Self::Unnamed => {
                "the reference is not complete; give the namespace, the name and the key of the \
                 Secret"
                    .to_owned()
            }
            Self::NoSecret => {
                format!("there is no Secret {namespace}/{name}; create it, with the key {key}")
            }
            Self::NoKey => format!("the Secret has no key {key}; add it"),
            Self::Empty => format!("the key {key} is empty; put the value there"),
            Self::Forbidden => format!(
                "we may not; add {namespace} to the chart's vault.secretNamespaces, or let us get \
                 this Secret"
            ),
            Self::NotText => format!("the key {key} holds no UTF-8; store the value as plain text"),
        }
    }
}

impl Place {
    fn new(key: &SecretKey) -> Self {
        let SecretKey {
            name,
            namespace,
            key,
        } = key;
        Self {
            namespace: namespace.clone().unwrap_or_default(),
            name: name.clone(),
            key: key.clone(),
        }
    }

    fn wrong(&self, wrong: Wrong) -> SecretProblem {
        SecretProblem {
            place: self.clone(),
            wrong,
        }
    }

    /// Both names become part of a URL, where other characters would lead elsewhere.
    fn is_complete(&self) -> bool {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        let is_name = |name: &str| !name.is_empty() && name.chars().all(fits);
        is_name(&self.namespace) && is_name(&self.name) && !self.key.is_empty()
    }

    /// What our key holds.
    fn value(&self, found: &Found) -> Result<Secret, SecretProblem> {
        let Found(Some(keys)) = found else {
            return Err(self.wrong(Wrong::NoSecret));
        };
        let ByteString(bytes) = keys.get(&self.key).ok_or(self.wrong(Wrong::NoKey))?;
        let text = String::from_utf8(bytes.clone()).map_err(|_| self.wrong(Wrong::NotText))?;
        if text.trim().is_empty() {
            return Err(self.wrong(Wrong::Empty));
        }
        Ok(Secret::new(text))
    }

    /// A refusal is about the Secret; everything else is about the API server.
    fn unread(&self, error: kube::Error) -> Problem {
        match error {
            kube::Error::Api(status) if status.code == 403 => self.wrong(Wrong::Forbidden).into(),
            error => ApiError::classify(self.what(), error).into(),
        }
    }

    fn what(&self) -> String {
        format!("get Secret {}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.name, self.key)
    }
}

/// The keys of a Secret, if there is one. It has no `Debug`: it holds values.
struct Found(Option<BTreeMap<String, ByteString>>);

impl Found {
    async fn read(kube: &Client, place: &Place) -> Result<Self, Problem> {
        let url = v1::Secret::url_path(&(), Some(&place.namespace));
        let request = Request::new(url).get(&place.name, &GetParams::default());
        let answer = match request.map_err(kube::Error::BuildRequest) {
            Ok(request) => kube.request_text(request).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(text) => {
                let secret: v1::Secret = parsed(place.what(), &text)?;
                Ok(Self(Some(secret.data.unwrap_or_default())))
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Self(None)),
            Err(error) => Err(place.unread(error)),
        }
    }
}

/// An answer that holds secrets. kube's own reader would log one that it does not understand.
pub(super) fn parsed<T: DeserializeOwned>(what: String, text: &str) -> Result<T, ApiError> {
    serde_json::from_str(text).map_err(|_| ApiError::Unreadable {
        what,
        message: "it is not what was asked for".to_owned(),
    })
}

/// The Secrets of one pass: each is asked for once, and what was taken is remembered.
///
/// # When not to use it
/// Longer than a pass: what it has read does not change any more.
pub(crate) struct Secrets {
    kube: Client,
    found: BTreeMap<(String, String), Found>,
    taken: BTreeMap<Place, Secret>,
}

impl Secrets {
    pub(crate) fn new(kube: Client) -> Self {
        Self {
            kube,
            found: BTreeMap::new(),
            taken: BTreeMap::new(),
        }
    }

    /// What `key` names.
    ///
    /// # Errors
    /// [`Problem::SecretNotReadable`] when somebody has to create, fill or grant something, and
    /// [`Problem::Api`] when the API server failed us.
    pub(crate) async fn value(&mut self, key: &SecretKey) -> Result<Secret, Problem> {
        let place = Place::new(key);
        if !place.is_complete() {
            return Err(place.wrong(Wrong::Unnamed).into());
        }
        let found = match self
            .found
            .entry((place.namespace.clone(), place.name.clone()))
        {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(Found::read(&self.kube, &place).await?),
        };
        let value = place.value(found)?;
        self.taken.insert(place, value.clone());
        Ok(value)
    }

    /// Certificate and key of a Secret of type kubernetes.io/tls.
    pub(crate) async fn tls(&mut self, secret: &SecretName) -> Result<(Secret, Secret), Problem> {
        let SecretName { name, namespace } = secret;
        let key = |key: &str| SecretKey {
            name: name.clone(),
            namespace: namespace.clone(),
            key: key.to_owned(),
        };
        let certificate = self.value(&key(CERTIFICATE)).await?;
        Ok((certificate, self.value(&key(PRIVATE_KEY)).await?))
    }

    /// Everything that was taken so far.
    pub(crate) fn taken(&self) -> &BTreeMap<Place, Secret> {
        &self.taken
    }
}

#[cfg(test)]
mod tests {
    use engine::Classified as _;
    use kube::core::Status;
    use rstest::rstest;

    use super::*;

    fn key(namespace: Option<&str>, name: &str, key: &str) -> SecretKey {
        SecretKey {
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
            key: key.to_owned(),
        }
    }

    fn token() -> Place {
        Place::new(&key(Some("team-a"), "vault", "token"))
    }

    fn holding(key: &str, value: &[u8]) -> Found {
        let value = ByteString(value.to_vec());
        Found(Some(BTreeMap::from([(key.to_owned(), value)])))
    }

    #[test]
    fn a_value_comes_as_it_is_stored() {
        let value = token().value(&holding("token", b"hush-hush\n")).unwrap();
        assert_eq!(value.expose(), "hush-hush\n");
    }

    #[rstest]
    #[case::no_secret(Found(None), "there is no Secret team-a/vault", Class::NotFound)]
    #[case::no_key(
        holding("tokens", b"hush"),
        "the Secret has no key token",
        Class::NotFound
    )]
    #[case::empty(holding("token", b" \n"), "the key token is empty", Class::NotFound)]
    #[case::binary(
        holding("token", b"hush\xff"),
        "the key token holds no UTF-8",
        Class::Invalid
    )]
    fn what_is_wrong_is_told_with_its_place_and_without_the_value(
        #[case] found: Found,
        #[case] told: &str,
        #[case] class: Class,
    ) {
        let problem = token().value(&found).unwrap_err();
        let text = problem.to_string();
        let begin = format!("Secret team-a/vault/token cannot be read: {told}");
        assert!(text.starts_with(&begin), "{text}");
        assert!(!text.contains("hush"), "{text}");
        assert_eq!(problem.class(), class);
    }

    #[rstest]
    #[case::no_namespace(None, "vault", "token")]
    #[case::empty_namespace(Some(""), "vault", "token")]
    #[case::no_name(Some("team-a"), "", "token")]
    #[case::a_path_instead_of_a_name(Some("team-a"), "../configmaps/x", "token")]
    #[case::a_query_instead_of_a_name(Some("team-a"), "x?watch=true", "token")]
    #[case::no_key(Some("team-a"), "vault", "")]
    fn a_reference_that_names_no_secret_is_not_followed(
        #[case] namespace: Option<&str>,
        #[case] name: &str,
        #[case] of: &str,
    ) {
        assert!(!Place::new(&key(namespace, name, of)).is_complete());
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_not_quoted() {
        let answer = r#"{"data": {"token": 5, "hush": "hush"}}"#;
        let error = parsed::<v1::Secret>(token().what(), answer).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hush"));
    }

    fn answer(code: u16, reason: &str) -> kube::Error {
        let status = Status {
            code,
            reason: reason.to_owned(),
            ..Status::default()
        };
        kube::Error::Api(status.boxed())
    }

    #[test]
    fn a_refusal_says_what_to_grant() {
        let problem = token().unread(answer(403, "Forbidden"));
        assert!(matches!(problem, Problem::SecretNotReadable(_)));
        let text = problem.to_string();
        assert!(text.contains("team-a to the chart's vault.secretNamespaces"));
        assert_eq!(problem.class(), Class::Denied);
    }

    #[rstest]
    #[case::overload(429, Class::Throttled)]
    #[case::failure(500, Class::Transient)]
    fn what_the_api_server_does_to_us_is_not_blamed_on_the_secret(
        #[case] code: u16,
        #[case] class: Class,
    ) {
        let problem = token().unread(answer(code, ""));
        assert!(matches!(problem, Problem::Api(_)), "{problem:?}");
        assert!(problem.to_string().starts_with("get Secret team-a/vault: "));
        assert_eq!(problem.class(), class);
    }
}
