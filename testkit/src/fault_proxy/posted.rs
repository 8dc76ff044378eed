//! Rules as JSON, for the control address.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::rule::{AnyMethod, Rule};
use super::upstream::Upstream;

/// A rule as it is posted. The names of unknown fields and effects are refused with the valid ones.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PostedRule {
    /// The proxy; needed if the address controls several.
    #[serde(default)]
    pub(super) target: Option<String>,
    effect: PostedEffect,
    #[serde(default)]
    method: Option<String>,
    /// A regular expression for path and query; all without it.
    #[serde(default)]
    path: String,
    /// A part of the User-Agent.
    #[serde(default)]
    agent: Option<String>,
    /// Which matching request, from 1; all without it.
    #[serde(default)]
    nth: Option<u64>,
    /// How many requests.
    #[serde(default)]
    times: Option<u64>,
    /// How long to wait first, in real time.
    #[serde(default)]
    ms: Option<u64>,
    /// The status of the effect `status`.
    #[serde(default, alias = "code")]
    status: Option<u16>,
    /// Its body: text, or JSON.
    #[serde(default)]
    body: Option<Value>,
    /// The server of the effect `redirect`.
    #[serde(default)]
    to: Option<String>,
    /// The field of the effect `strip`.
    #[serde(default)]
    field: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum PostedEffect {
    #[serde(alias = "hole")]
    Drop,
    Delay,
    Reset,
    Status,
    CutBefore,
    CutAfter,
    Redirect,
    Strip,
}

impl PostedRule {
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }

    /// The rule. `upstreams` are the servers that `to` may name.
    ///
    /// | effect              | needs  | may have |
    /// |---------------------|--------|----------|
    /// | drop, reset, cut…   |        |          |
    /// | delay               | ms     |          |
    /// | status              | status | body     |
    /// | redirect            | to     |          |
    /// | strip               | field  |          |
    ///
    /// All may have method, path, agent, nth, times and ms.
    pub(super) fn rule(self, upstreams: &[(String, Upstream)]) -> Result<Rule, String> {
        self.check_fields()?;
        let method = match &self.method {
            None => AnyMethod::any(),
            Some(name) => {
                let method = Method::from_bytes(name.to_ascii_uppercase().as_bytes());
                let invalid = |_| format!("{name:?} is no method");
                AnyMethod::from(method.map_err(invalid)?)
            }
        };
        let mut rule = Rule::on_regex(method, &self.path).map_err(|error| error.to_string())?;
        if let Some(agent) = self.agent {
            rule = rule.agent(agent);
        }
        if let Some(times) = self.times {
            rule = rule.times(times);
        }
        if let Some(nth) = self.nth {
            rule = rule.nth(nth);
        }
        rule = rule.delay(Duration::from_millis(self.ms.unwrap_or(0)));
        match self.effect {
            PostedEffect::Drop => Ok(rule.black_hole().ending_watches()),
            PostedEffect::Delay => Ok(rule),
            PostedEffect::Reset => Ok(rule.reset().ending_watches()),
            PostedEffect::Status => {
                let code = self.status.unwrap_or_default();
                let status = StatusCode::from_u16(code);
                let status = status.map_err(|_| format!("{code} is no status"))?;
                let body = body_text(status, self.body);
                Ok(rule.status(status, body).ending_watches())
            }
            PostedEffect::CutBefore => Ok(rule.cut_before()),
            PostedEffect::CutAfter => Ok(rule.cut_after()),
            PostedEffect::Redirect => {
                let to = self.to.unwrap_or_default();
                let upstream = upstreams.iter().find(|(name, _)| *name == to);
                let names: Vec<&str> = upstreams.iter().map(|(name, _)| &**name).collect();
                let (_, upstream) = upstream.ok_or_else(|| {
                    format!(
                        "no server is named {to:?}; `to` is one of {}",
                        names.join(", ")
                    )
                })?;
                rule.redirect(upstream).map_err(|error| error.to_string())
            }
            PostedEffect::Strip => {
                let field = self.field.unwrap_or_default();
                rule.strip(&field).map_err(|error| error.to_string())
            }
        }
    }

    /// A field that the effect does not use would have no effect; it is a mistake.
    fn check_fields(&self) -> Result<(), String> {
        let (needed, optional): (&[&str], &[&str]) = match self.effect {
            PostedEffect::Drop
            | PostedEffect::Reset
            | PostedEffect::CutBefore
            | PostedEffect::CutAfter => (&[], &[]),
            PostedEffect::Delay => (&["ms"], &[]),
            PostedEffect::Status => (&["status"], &["body"]),
            PostedEffect::Redirect => (&["to"], &[]),
            PostedEffect::Strip => (&["field"], &[]),
        };
        let fields = [
            ("ms", self.ms.is_some()),
            ("status", self.status.is_some()),
            ("body", self.body.is_some()),
            ("to", self.to.is_some()),
            ("field", self.field.is_some()),
        ];
        for (name, is_set) in fields {
            let allowed = name == "ms" || needed.contains(&name) || optional.contains(&name);
            if is_set && !allowed {
                return Err(format!("this effect does not use `{name}`"));
            }
            if !is_set && needed.contains(&name) {
                return Err(format!("this effect needs `{name}`"));
            }
        }
        Ok(())
    }
}

/// Without a body, what an API server would answer.
fn body_text(status: StatusCode, body: Option<Value>) -> Bytes {
    match body {
        Some(Value::String(text)) => text.into(),
        Some(value) => value.to_string().into(),
        None => json!({
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": status.as_u16(),
            "message": "fault proxy: a rule answers with this status",
        })
        .to_string()
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn rule(body: &Value) -> Result<Rule, String> {
        let other = Upstream {
            url: "http://127.0.0.1:1".to_owned(),
            ca_pem: None,
        };
        PostedRule::parse(body.to_string().as_bytes())?.rule(&[("alt".to_owned(), other)])
    }

    #[rstest]
    #[case::effect(json!({"effect": "explode"}), "`drop`, `hole`")]
    #[case::field(json!({"effect": "drop", "fild": 1}), "expected one of `target`, `effect`")]
    #[case::no_effect(json!({"path": "/"}), "missing field `effect`")]
    #[case::regex(json!({"effect": "drop", "path": "("}), "no regular expression")]
    #[case::needed_field(json!({"effect": "delay"}), "needs `ms`")]
    #[case::field_of_another_effect(json!({"effect": "drop", "to": "alt"}), "does not use `to`")]
    #[case::server(json!({"effect": "redirect", "to": "x"}), "`to` is one of alt")]
    #[case::path_of_a_field(json!({"effect": "strip", "field": "a..b"}), "is no field")]
    #[case::status(json!({"effect": "status", "status": 1}), "1 is no status")]
    #[case::method(json!({"effect": "drop", "method": "G T"}), "is no method")]
    fn a_wrong_rule_is_refused_with_what_is_valid(#[case] body: Value, #[case] part: &str) {
        let error = rule(&body).expect_err("it is wrong");
        assert!(error.contains(part), "{error}");
    }

    #[rstest]
    #[case(json!({"effect": "hole"}), true)]
    #[case(json!({"effect": "reset", "nth": 2}), true)]
    #[case(json!({"effect": "status", "code": 503, "body": {"a": 1}}), true)]
    #[case(json!({"effect": "delay", "ms": 10, "agent": "a-2"}), false)]
    #[case(json!({"effect": "cutAfter", "method": "patch", "times": 1}), false)]
    #[case(json!({"effect": "redirect", "to": "alt"}), false)]
    #[case(json!({"effect": "strip", "field": "spec.ordinals"}), false)]
    fn drop_reset_and_status_end_watches(#[case] body: Value, #[case] ends: bool) {
        assert_eq!(rule(&body).expect("it is valid").ends_watches, ends);
    }
}
