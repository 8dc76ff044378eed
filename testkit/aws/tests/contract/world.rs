//! An emulator with a probe, and a client that signs as far as the emulator checks.

use std::time::Duration;

use aws_emulator::probe::Probe;
use aws_emulator::{Builder, Emulator};
use http::Method;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

pub(crate) const TEST_ACCOUNT: &str = "000000000000";
pub(crate) const ROLE: &str = "arn:aws:iam::222222222222:role/dns";

/// Access key and, for sessions, the token.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) token: Option<String>,
}

impl From<&str> for Key {
    fn from(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            token: None,
        }
    }
}

pub(crate) struct World {
    pub(crate) emulator: Emulator,
    pub(crate) http: reqwest::Client,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::of(Emulator::builder().service(Box::new(Probe::new()))).await
    }

    /// A world with all services.
    pub(crate) async fn whole() -> Self {
        Self::of(Emulator::builder().every_service()).await
    }

    /// A world with the emulator of `builder`.
    pub(crate) async fn of(builder: Builder) -> Self {
        // Another test of this binary may have installed it already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let emulator = builder.start().await.expect("the emulator starts");
        let http = reqwest::Client::builder()
            .timeout(Duration::from_secs(20))
            .build()
            .expect("a client");
        Self { emulator, http }
    }

    /// A POST to `/` signed by `key` for `service`.
    pub(crate) fn signed(&self, key: &Key, service: &str) -> RequestBuilder {
        let request = self.http.post(self.emulator.url());
        let request = request
            .header("authorization", authorization(&key.id, service))
            .header("x-amz-date", "20260101T000000Z");
        match &key.token {
            Some(token) => request.header("x-amz-security-token", token),
            None => request,
        }
    }

    pub(crate) fn probe_request(&self, key: &Key, operation: &str, body: &Value) -> RequestBuilder {
        self.signed(key, "probe")
            .header("content-type", "application/x-amz-json-1.1")
            .header("x-amz-target", format!("Probe.{operation}"))
            .body(body.to_string())
    }

    /// Status and answer of a probe call that must be answered.
    pub(crate) async fn probe(&self, key: &str, operation: &str, body: Value) -> (u16, Value) {
        let answer = self
            .probe_request(&key.into(), operation, &body)
            .send()
            .await
            .expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }

    /// Puts a thing as `test`; it must succeed.
    pub(crate) async fn put(&self, name: &str, value: &str) -> Value {
        let (status, thing) = self
            .probe("test", "Put", json!({ "name": name, "value": value }))
            .await;
        assert_eq!(status, 200, "{thing}");
        thing
    }

    pub(crate) fn sts_request(
        &self,
        key: Option<&Key>,
        action: &str,
        params: &[(&str, &str)],
    ) -> RequestBuilder {
        let request = match key {
            Some(key) => self.signed(key, "sts"),
            None => self.http.post(self.emulator.url()),
        };
        let fixed = [("Action", action), ("Version", "2011-06-15")];
        let form: Vec<_> = fixed
            .iter()
            .chain(params)
            .map(|(name, value)| format!("{name}={}", encoded(value)))
            .collect();
        request
            .header(
                "content-type",
                "application/x-www-form-urlencoded; charset=utf-8",
            )
            .body(form.join("&"))
    }

    pub(crate) async fn sts(
        &self,
        key: &Key,
        action: &str,
        params: &[(&str, &str)],
    ) -> (u16, Document) {
        document(
            self.sts_request(Some(key), action, params)
                .send()
                .await
                .expect("an answer"),
        )
        .await
    }

    /// A session of [`ROLE`], which must be allowed.
    pub(crate) async fn assume(&self, params: &[(&str, &str)]) -> Key {
        let fixed = [("RoleArn", ROLE), ("RoleSessionName", "tests")];
        let params: Vec<_> = fixed.iter().chain(params).copied().collect();
        let (status, answer) = self.sts(&"test".into(), "AssumeRole", &params).await;
        assert_eq!(status, 200, "{answer:?}");
        Key {
            id: answer.text("AccessKeyId"),
            token: Some(answer.text("SessionToken")),
        }
    }

    /// A control request over HTTP.
    pub(crate) async fn control(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let request = self
            .http
            .request(method, format!("{}/_emu/{path}", self.emulator.url()));
        let request = if body.is_null() {
            request
        } else {
            request.body(body.to_string())
        };
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }

    /// A control request that must succeed.
    pub(crate) async fn controlled(&self, method: Method, path: &str, body: Value) -> Value {
        let (status, answer) = self.control(method, path, body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    pub(crate) async fn fault(&self, rule: Value) -> u64 {
        self.controlled(Method::POST, "faults", rule).await["id"]
            .as_u64()
            .expect("an id")
    }

    pub(crate) async fn log(&self) -> Vec<Value> {
        self.controlled(Method::GET, "log", Value::Null).await["entries"]
            .as_array()
            .expect("entries")
            .clone()
    }
}

/// An XML answer, read by another parser than the emulator's.
#[derive(Debug)]
pub(crate) struct Document(String);

impl Document {
    /// Text of the only element of this name.
    pub(crate) fn text(&self, name: &str) -> String {
        let parsed = roxmltree::Document::parse(&self.0).expect("XML");
        let mut found = parsed
            .descendants()
            .filter(|node| node.tag_name().name() == name);
        let text = found
            .next()
            .unwrap_or_else(|| panic!("no {name} in {}", self.0))
            .text()
            .unwrap_or_default();
        assert!(found.next().is_none(), "more than one {name} in {}", self.0);
        text.to_owned()
    }

    pub(crate) fn namespace(&self) -> Option<String> {
        let parsed = roxmltree::Document::parse(&self.0).expect("XML");
        parsed
            .root_element()
            .tag_name()
            .namespace()
            .map(str::to_owned)
    }
}

pub(crate) async fn document(answer: Response) -> (u16, Document) {
    (
        answer.status().as_u16(),
        Document(answer.text().await.expect("text")),
    )
}

pub(crate) fn authorization(key: &str, service: &str) -> String {
    let scope = format!("20260101/us-east-1/{service}/aws4_request");
    format!(
        "AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders=host;x-amz-date, Signature=00"
    )
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}
