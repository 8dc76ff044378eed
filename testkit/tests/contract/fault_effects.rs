//! The fault proxy: another server, a removed field, open watches, and the control address.

// Tests wait in real time; nothing here is part of the product.
#![allow(clippy::disallowed_methods)]

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use testkit::fault_proxy::{AnyMethod, FaultControl, FaultProxy, Listen, Rule, Upstream};

use crate::fault_proxy::{DEADLINE, Server, install_crypto};

/// A server, a proxy before it and the proxy's control address.
struct Controlled {
    server: Server,
    proxy: FaultProxy,
    control: FaultControl,
    http: reqwest::Client,
}

fn upstream(server: &Server) -> Upstream {
    Upstream {
        url: server.url.clone(),
        ca_pem: None,
    }
}

impl Controlled {
    async fn start() -> Self {
        install_crypto();
        let server = Server::start(None).await;
        let proxy = FaultProxy::start(upstream(&server), Listen::Http)
            .await
            .unwrap();
        let upstreams = vec![("own".to_owned(), upstream(&server))];
        let control = FaultControl::start(&[("own", &proxy)], upstreams)
            .await
            .unwrap();
        let http = reqwest::Client::builder()
            .timeout(DEADLINE)
            .build()
            .unwrap();
        Self {
            server,
            proxy,
            control,
            http,
        }
    }

    async fn text(&self, path: &str) -> String {
        let url = format!("{}{path}", self.proxy.url());
        let answer = self.http.get(url).send().await.unwrap();
        answer.text().await.unwrap()
    }

    /// A watch by the client `agent`.
    async fn watch(&self, agent: &str) -> reqwest::Response {
        let url = format!("{}/watch?watch=true", self.proxy.url());
        let request = self.http.get(url).header("user-agent", agent);
        request.send().await.unwrap()
    }

    /// Status and body of a request to the control address.
    async fn control(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}{path}", self.control.url());
        let request = self.http.request(method, url).body(body.to_string());
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn post(&self, rule: Value) -> u64 {
        let (status, answer) = self.control(Method::POST, "/rules", &rule).await;
        assert_eq!(status, 200, "{answer}");
        answer["id"].as_u64().unwrap()
    }

    async fn show(&self, path: &str) -> Value {
        let (status, answer) = self.control(Method::GET, path, &Value::Null).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

#[tokio::test]
async fn a_redirected_request_reaches_only_the_other_server() {
    let world = Controlled::start().await;
    let other = Server::start(None).await;
    assert_eq!(world.text("/a").await, "GET /a ");
    let rule = Rule::on(Method::GET, "/a")
        .redirect(&upstream(&other))
        .unwrap();
    let rule = world.proxy.rule(rule);
    assert_eq!(world.text("/a?b=1").await, "GET /a?b=1 ");
    assert_eq!((world.server.served(), other.served()), (1, 1));
    world.proxy.remove(rule);
    world.text("/a").await;
    assert_eq!((world.server.served(), other.served()), (2, 1));
}

#[tokio::test]
async fn a_stripped_field_is_in_no_body() {
    let world = Controlled::start().await;
    let strip = Rule::on(AnyMethod::any(), "*")
        .strip("spec.ordinals")
        .unwrap();
    world.proxy.rule(strip);
    let post = |body: &'static str| {
        let request = world.http.post(format!("{}/a", world.proxy.url()));
        request.body(body).send()
    };
    let answer = post(r#"{"spec":{"ordinals":1}}"#).await.unwrap();
    assert_eq!(answer.text().await.unwrap(), r#"POST /a {"spec":{}}"#);
    let list = r#"{"items":[{"spec":{"a":1}},{"spec":{}}]}"#;
    assert_eq!(world.text("/list").await, list);
    let refused = post("spec: {ordinals: 1}").await.unwrap();
    assert_eq!(refused.status(), 415);

    let mut watch = world.watch("any").await;
    for (event, without) in [
        (
            "{\"object\":{\"spec\":{\"ordinals\":1}},\"type\":\"ADDED\"}\n",
            "{\"object\":{\"spec\":{}},\"type\":\"ADDED\"}\n",
        ),
        (
            "{\"object\":{},\"type\":\"DELETED\"}\n",
            "{\"object\":{},\"type\":\"DELETED\"}\n",
        ),
    ] {
        // The next event is sent only after the previous one arrived.
        world.server.lines.send(event).unwrap();
        assert_eq!(watch.chunk().await.unwrap().unwrap(), without);
    }
}

#[tokio::test]
async fn drop_reset_and_status_end_matching_open_watches() {
    let world = Controlled::start().await;
    for effect in [
        json!({"effect": "drop"}),
        json!({"effect": "reset"}),
        json!({"effect": "status", "status": 503}),
    ] {
        let (mut first, mut other) = (world.watch("a-1").await, world.watch("a-2").await);
        let mut rule = effect.clone();
        rule["agent"] = json!("a-1");
        rule["path"] = json!("watch=true$");
        let id = world.post(rule).await;
        assert!(first.chunk().await.is_err(), "{effect}");
        // The first lines may still go to the client that is gone.
        let lines = async {
            loop {
                world.server.lines.send("one\n").unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            event = other.chunk() => assert!(event.unwrap().is_some(), "{effect}"),
            () = lines => {}
        }
        let path = format!("/rules?id={id}");
        let removed = world.control(Method::DELETE, &path, &Value::Null).await;
        assert_eq!(removed, (200, json!({"removed": 1})));
    }
}

#[tokio::test]
async fn each_rule_shows_its_hits() {
    let world = Controlled::start().await;
    let second = json!({
        "effect": "status", "code": 429, "body": {"busy": true}, "method": "GET", "path": "^/a\\?b=", "nth": 2,
    });
    let second = world.post(second).await;
    let late = world.post(json!({"effect": "delay", "ms": 1})).await;
    let mut answers = Vec::new();
    for path in ["/a?b=1", "/a?b=2", "/a?b=3", "/a"] {
        answers.push(world.text(path).await);
    }
    let busy = "{\"busy\":true}";
    assert_eq!(answers, ["GET /a?b=1 ", busy, "GET /a?b=3 ", "GET /a "]);
    assert_eq!(
        world.show("/rules").await,
        json!({"rules": [
            {
                "id": second, "target": "own", "method": "GET", "path": "^/a\\?b=", "agent": null,
                "effect": "status", "hits": 1, "left": 0,
            },
            {
                "id": late, "target": "own", "method": null, "path": "", "agent": null,
                "effect": "delay", "hits": 3, "left": null,
            },
        ]})
    );
    assert_eq!(world.proxy.hits(late.into()), 3);

    let (status, answer) = world.control(Method::DELETE, "/faults", &Value::Null).await;
    assert_eq!((status, answer), (200, json!({"removed": 2})));
    assert_eq!(world.show("/faults").await, json!({"rules": []}));
    let unknown = world
        .control(Method::DELETE, "/rules?id=1000000", &Value::Null)
        .await;
    assert_eq!(unknown.0, 404);
}

#[tokio::test]
async fn an_unknown_effect_or_field_is_refused_with_the_valid_ones() {
    let world = Controlled::start().await;
    for (rule, part) in [
        (
            json!({"effect": "explode"}),
            "`cutAfter`, `redirect`, `strip`",
        ),
        (json!({"effect": "drop", "fild": 1}), "`nth`, `times`, `ms`"),
        (
            json!({"effect": "drop", "target": "x"}),
            "`target` is one of own",
        ),
        (
            json!({"effect": "redirect", "to": "x"}),
            "`to` is one of own",
        ),
    ] {
        let (status, answer) = world.control(Method::POST, "/rules", &rule).await;
        assert_eq!(status, 400, "{answer}");
        assert!(answer["error"].as_str().unwrap().contains(part), "{answer}");
    }
    assert_eq!(world.show("/rules").await, json!({"rules": []}));
}

#[tokio::test]
async fn the_log_is_read_from_a_number_on() {
    let world = Controlled::start().await;
    world.text("/a").await;
    let rule = world.post(json!({"effect": "status", "status": 503})).await;
    let url = format!("{}/b?c=1", world.proxy.url());
    let request = world.http.post(url).header("user-agent", "a-2");
    request.send().await.unwrap();

    let whole = world.show("/log").await;
    assert_eq!(
        (&whole["last"], whole["entries"].as_array().unwrap().len()),
        (&json!(2), 2)
    );
    let mut since = world.show("/log?since=1").await;
    let at = since["entries"][0]["at"].take();
    at.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let second = json!({
        "seq": 2, "at": null, "method": "POST", "path": "/b?c=1", "agent": "a-2", "status": 503, "fault": rule,
    });
    assert_eq!(since, json!({"last": 2, "entries": [second]}));
    let none = json!({"last": 2, "entries": []});
    assert_eq!(world.show("/log?since=2").await, none);
}

#[tokio::test]
async fn an_address_of_several_proxies_needs_a_target() {
    let world = Controlled::start().await;
    let other = FaultProxy::start(upstream(&world.server), Listen::Http)
        .await
        .unwrap();
    let both = [("own", &world.proxy), ("other", &other)];
    let control = FaultControl::start(&both, Vec::new()).await.unwrap();
    let world = Controlled { control, ..world };
    let (status, answer) = world
        .control(Method::POST, "/rules", &json!({"effect": "reset"}))
        .await;
    assert_eq!(
        (status, &answer["error"]),
        (400, &json!("`target` is one of own, other"))
    );
    world
        .post(json!({"effect": "reset", "target": "other"}))
        .await;
    assert_eq!((world.proxy.rules().len(), other.rules().len()), (0, 1));
    assert_eq!(world.show("/log?target=other").await["last"], 0);
}
