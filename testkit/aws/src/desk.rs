//! The whole emulator without HTTP, for unit tests. Its clock stands still.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};

use crate::Emulator;
use crate::control::Control;
use crate::router::{Ending, World};
use crate::wire::{Request, Response};

/// Every service, one caller: the key `test` of account 000000000000.
pub(crate) struct Desk {
    world: World,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) etag: String,
    pub(crate) location: String,
    pub(crate) body: String,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let builder = Emulator::builder().every_service().clock_factor(0.0);
        let world = builder.world().expect("a world");
        Self { world }
    }

    /// A request signed by `key` for `service`.
    pub(crate) fn as_key(
        &mut self,
        key: &str,
        service: &str,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: &str,
    ) -> Answer {
        let request = signed(key, service, method, path, headers, body);
        let admitted = match self.world.admit(&request) {
            Ok(admitted) => admitted,
            Err(refused) => return answer(refused),
        };
        match self.world.execute(admitted, &request) {
            Ending::Answer(done) => answer(done),
            Ending::Cut => Answer {
                status: 0,
                etag: String::new(),
                location: String::new(),
                body: String::new(),
            },
        }
    }

    /// A request that arrives, and another one that arrives before the first is answered.
    pub(crate) fn two_at_once(
        &mut self,
        service: &str,
        path: &str,
        bodies: [&str; 2],
    ) -> [Answer; 2] {
        let requests = bodies.map(|body| signed("test", service, Method::POST, path, &[], body));
        let [first, second] = &requests;
        let admit = |world: &mut World, request| world.admit(request).expect("admitted");
        let arrived = [
            admit(&mut self.world, first),
            admit(&mut self.world, second),
        ];
        let mut ends = arrived
            .into_iter()
            .zip(&requests)
            .map(
                |(admitted, request)| match self.world.execute(admitted, request) {
                    Ending::Answer(done) => answer(done),
                    Ending::Cut => panic!("cut"),
                },
            );
        let end = ends.next().expect("two");
        [end, ends.next().expect("two")]
    }

    /// A control request that must succeed.
    pub(crate) fn control(&mut self, method: Method, path: &str, body: Value) -> Value {
        self.try_control(method, path, body)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn try_control(
        &mut self,
        method: Method,
        path: &str,
        body: Value,
    ) -> Result<Value, crate::ControlError> {
        let path = path.split('/').map(str::to_owned).collect();
        self.world.control(Control {
            method,
            path,
            query: Vec::new(),
            body,
        })
    }

    /// A direct edit.
    pub(crate) fn mutate(&mut self, service: &str, mut change: Value) -> Value {
        change["service"] = json!(service);
        self.control(Method::POST, "mutate", change)
    }

    /// A direct edit that must be refused; returns the message.
    pub(crate) fn refused(&mut self, service: &str, mut change: Value) -> String {
        change["service"] = json!(service);
        let answer = self.try_control(Method::POST, "mutate", change);
        answer.expect_err("a refusal").message
    }

    pub(crate) fn switch(&mut self, service: &str, settings: Value) {
        self.control(Method::PUT, "switches", json!({ service: settings }));
    }

    pub(crate) fn fault(&mut self, rule: Value) {
        self.control(Method::POST, "faults", rule);
    }

    pub(crate) fn advance(&mut self, seconds: u64) {
        self.control(Method::POST, "clock", json!({ "advance": seconds }));
    }

    pub(crate) fn declare(&mut self, declaration: Value) {
        self.control(Method::PUT, "oracle", declaration);
    }

    pub(crate) fn state(&mut self, service: &str) -> Value {
        self.control(Method::GET, "state", Value::Null)[service].take()
    }

    /// The rules that were violated so far.
    pub(crate) fn broken(&mut self) -> Vec<String> {
        let mut shown = self.control(Method::GET, "violations", Value::Null);
        let list = shown["violations"].take();
        let rule = |seen: &Value| seen["rule"].as_str().expect("a rule").to_owned();
        list.as_array().expect("a list").iter().map(rule).collect()
    }

    /// The kinds of leaked resources.
    pub(crate) fn leaked(&mut self, living: Value) -> Vec<String> {
        let mut shown = self.control(Method::POST, "leaks", living);
        let list = shown["leaks"].take();
        let kind = |leak: &Value| leak["kind"].as_str().expect("a kind").to_owned();
        list.as_array().expect("a list").iter().map(kind).collect()
    }
}

impl Answer {
    /// The text of the only element of this name.
    pub(crate) fn text(&self, name: &str) -> String {
        let texts = self.texts(name);
        assert_eq!(texts.len(), 1, "{name} in {}", self.body);
        texts.into_iter().next().expect("one")
    }

    /// The texts of all elements of this name.
    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let parsed = roxmltree::Document::parse(&self.body).expect("XML");
        let found = parsed
            .descendants()
            .filter(|node| node.tag_name().name() == name);
        found
            .map(|node| node.text().unwrap_or_default().to_owned())
            .collect()
    }

    /// The name of the root element.
    pub(crate) fn root(&self) -> String {
        let parsed = roxmltree::Document::parse(&self.body).expect("XML");
        parsed.root_element().tag_name().name().to_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    /// Status and error code.
    pub(crate) fn error(&self) -> (u16, String) {
        (self.status, self.text("Code"))
    }

    /// Asserts success.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!(
            (200..300).contains(&self.status),
            "{}: {}",
            self.status,
            self.body
        );
        self
    }
}

fn signed(
    key: &str,
    service: &str,
    method: Method,
    path: &str,
    headers: &[(&'static str, &str)],
    body: &str,
) -> Request {
    let scope = format!("20260101/us-east-1/{service}/aws4_request");
    let signature =
        format!("AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders=host, Signature=00");
    let mut sent = HeaderMap::new();
    let fixed = [
        ("authorization", signature.as_str()),
        ("x-amz-date", "20260101T000000Z"),
    ];
    for (name, value) in fixed.iter().chain(headers) {
        let value = HeaderValue::from_str(value).expect("a header");
        sent.insert(*name, value);
    }
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Request::new(method, path, query, sent, Bytes::from(body.to_owned()))
}

fn answer(response: Response) -> Answer {
    let header = |name: &str| {
        let mut found = response.headers.iter().filter(|(own, _)| *own == name);
        found
            .next()
            .map_or(String::new(), |(_, value)| value.clone())
    };
    Answer {
        status: response.status,
        etag: header("etag"),
        location: header("location"),
        body: String::from_utf8(response.body.to_vec()).expect("text"),
    }
}
