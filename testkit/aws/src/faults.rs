//! Fault rules: which requests get which fault, and how often.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::accounts::Caller;
use crate::protocol::{ApiError, Protocol};
use crate::service::Operation;
use crate::span;

/// How long a `delay` without a span lasts.
const USUAL_DELAY: Duration = Duration::from_secs(1);

/// A rule in the form of control requests. An absent part matches everything.
///
/// `operation` and `resource` may contain `*` for any characters. `caller` is an access key, an
/// account, an ARN, or a role's ARN or name. The short form has `action` and `volumeId` instead of
/// `operation` and `resource`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Service, by its name in control requests.
    pub service: Option<String>,
    /// Operation, as in AWS's reference.
    #[serde(alias = "action")]
    pub operation: Option<String>,
    /// A resource of the request.
    #[serde(alias = "volumeId")]
    pub resource: Option<String>,
    /// The caller.
    pub caller: Option<String>,
    /// How many requests it applies to; absent means all, until it is deleted.
    pub times: Option<u64>,
    /// What happens to them.
    #[serde(deserialize_with = "effect")]
    pub effect: Effect,
    /// Milliseconds of a `delay` that has no span; 1000 if absent.
    pub ms: Option<u64>,
}

/// Rules to delete: those that have each of these parts.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    service: Option<String>,
    #[serde(alias = "action")]
    operation: Option<String>,
    #[serde(alias = "volumeId")]
    resource: Option<String>,
    caller: Option<String>,
    effect: Option<Value>,
    times: Option<u64>,
}

/// What happens to a request that a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// Not executed; this error is answered in the service's protocol.
    Error(Injected),
    /// Waits this long in real time, then executes.
    #[serde(deserialize_with = "span::deserialize")]
    Delay(Duration),
    /// Executed; reads return the previous state. For reads: writes are not changed.
    Stale,
    /// Not executed; the connection closes without an answer.
    CutBefore,
    /// Executed; the connection closes without an answer.
    CutAfter,
    /// Not executed; throttled, in the words of the service's protocol.
    Throttle,
    /// Not executed; an error of the service itself.
    #[serde(rename = "500")]
    InternalError,
    /// Not executed; the caller may not do this.
    Deny,
    /// Not executed; the resource does not exist.
    NotFound,
}

/// An effect; `delay` without a span and the number 500 are valid too.
fn effect<'de, D: Deserializer<'de>>(from: D) -> Result<Effect, D::Error> {
    let written = Value::deserialize(from)?;
    if written == "delay" {
        return Ok(Effect::Delay(USUAL_DELAY));
    }
    let written = if written == 500 {
        json!("500")
    } else {
        written
    };
    Effect::deserialize(written).map_err(serde::de::Error::custom)
}

/// An error to answer with.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Injected {
    /// HTTP status, 400 to 599.
    pub status: u16,
    /// AWS's error code.
    pub code: String,
    /// Text; the code again when absent.
    pub message: Option<String>,
}

impl Effect {
    /// Its name in rules and in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Error(_) => "error",
            Self::Delay(_) => "delay",
            Self::Stale => "stale",
            Self::CutBefore => "cutBefore",
            Self::CutAfter => "cutAfter",
            Self::Throttle => "throttle",
            Self::InternalError => "500",
            Self::Deny => "deny",
            Self::NotFound => "notFound",
        }
    }

    /// The error that is answered instead of executing the request.
    pub(crate) fn error(&self, protocol: Protocol, resource: Option<&str>) -> Option<ApiError> {
        match self {
            Self::Error(error) => Some(ApiError::new(
                error.status,
                &error.code,
                error.message.as_deref().unwrap_or(&error.code),
            )),
            Self::Throttle => Some(protocol.throttled()),
            Self::InternalError => Some(protocol.internal_error()),
            Self::Deny => Some(protocol.denied()),
            Self::NotFound => Some(protocol.not_found(resource.unwrap_or_default())),
            Self::Delay(_) | Self::Stale | Self::CutBefore | Self::CutAfter => None,
        }
    }

    fn shown(&self) -> Value {
        match self {
            Self::Error(error) => {
                json!({ "error": { "status": error.status, "code": error.code, "message": error.message } })
            }
            Self::Delay(span) => json!({ "delay": span.as_secs_f64() }),
            Self::Stale
            | Self::CutBefore
            | Self::CutAfter
            | Self::Throttle
            | Self::InternalError
            | Self::Deny
            | Self::NotFound => json!(self.name()),
        }
    }
}

/// The active rules, oldest first.
#[derive(Debug, Default)]
pub struct Faults {
    rules: Vec<(u64, Rule)>,
    added: u64,
}

impl Faults {
    /// Adds a rule; returns its id.
    pub fn add(&mut self, mut rule: Rule) -> Result<u64, String> {
        if rule.times == Some(0) {
            return Err("times must be 1 or more; leave it out for a rule that stays".to_owned());
        }
        if let Effect::Error(error) = &rule.effect
            && !(400..=599).contains(&error.status)
        {
            return Err(format!(
                "error status {} is no error; give one from 400 to 599",
                error.status
            ));
        }
        match (&mut rule.effect, rule.ms) {
            (_, None) => {}
            (Effect::Delay(delay), Some(ms)) => *delay = Duration::from_millis(ms),
            (effect, Some(_)) => return Err(format!("{} takes no ms", effect.name())),
        }
        self.added += 1;
        self.rules.push((self.added, rule));
        Ok(self.added)
    }

    /// The effect of the oldest rule that matches; counts the use.
    pub fn hit(
        &mut self,
        service: &str,
        operation: &Operation,
        caller: Option<&Caller>,
    ) -> Option<Effect> {
        let position = self
            .rules
            .iter()
            .position(|(_, rule)| rule.matches(service, operation, caller))?;
        let rule = &mut self.rules[position].1;
        let effect = rule.effect.clone();
        if let Some(times) = &mut rule.times {
            *times -= 1;
            if *times == 0 {
                self.rules.remove(position);
            }
        }
        Some(effect)
    }

    /// Deletes one rule; `false` if there is none of this id (it may be used up).
    pub fn delete(&mut self, id: u64) -> bool {
        let before = self.rules.len();
        self.rules.retain(|(own, _)| *own != id);
        self.rules.len() < before
    }

    /// Deletes the rules that fit the pattern; returns how many.
    pub fn delete_like(&mut self, pattern: &Pattern) -> usize {
        let before = self.rules.len();
        self.rules.retain(|(_, rule)| !rule.fits(pattern));
        before - self.rules.len()
    }

    /// Deletes all rules.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// All active rules, with how often each will still apply.
    pub fn shown(&self) -> Value {
        self.rules
            .iter()
            .map(|(id, rule)| rule.shown(*id))
            .collect()
    }
}

impl Rule {
    fn matches(&self, service: &str, operation: &Operation, caller: Option<&Caller>) -> bool {
        let resource = operation.resource.as_deref();
        self.service
            .as_deref()
            .is_none_or(|wanted| wanted == service)
            && self
                .operation
                .as_deref()
                .is_none_or(|wanted| glob(wanted, &operation.name))
            && self.resource.as_deref().is_none_or(|wanted| {
                resource.is_some_and(|is| names(is).any(|is| glob(wanted, is)))
            })
            && self
                .caller
                .as_deref()
                .is_none_or(|wanted| caller.is_some_and(|is| is.is(wanted)))
    }

    fn fits(&self, pattern: &Pattern) -> bool {
        let same = |wanted: &Option<String>, is: &Option<String>| wanted.is_none() || wanted == is;
        let effect = pattern.effect.as_ref().is_none_or(|wanted| {
            *wanted == self.effect.name()
                || *wanted == self.effect.shown()
                || *wanted == 500 && self.effect == Effect::InternalError
        });
        effect
            && same(&pattern.service, &self.service)
            && same(&pattern.operation, &self.operation)
            && same(&pattern.resource, &self.resource)
            && same(&pattern.caller, &self.caller)
            && (pattern.times.is_none() || pattern.times == self.times)
    }

    fn shown(&self, id: u64) -> Value {
        json!({
            "id": id, "service": self.service, "operation": self.operation, "resource": self.resource,
            "caller": self.caller, "times": self.times, "effect": self.effect.shown(),
        })
    }
}

/// The names of a request's resources, each alone and all as one.
fn names(resource: &str) -> impl Iterator<Item = &str> {
    std::iter::once(resource).chain(resource.split(','))
}

/// Whether `text` matches `pattern`, where `*` stands for any characters.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(rest) = text.strip_prefix(head) else {
        return false;
    };
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.into_iter().any(|at| glob(tail, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn rule(written: Value) -> Rule {
        serde_json::from_value(written).expect("a rule")
    }

    fn on(name: &str, resource: Option<&str>) -> Operation {
        Operation {
            name: name.to_owned(),
            resource: resource.map(str::to_owned),
        }
    }

    #[rstest]
    #[case::itself("Get", "Get", true)]
    #[case::other("Get", "GetAll", false)]
    #[case::any("*", "", true)]
    #[case::head("Get*", "GetAll", true)]
    #[case::middle("vol-*-a", "vol-1-b-a", true)]
    #[case::not_the_end("vol-*-a", "vol-1-b", false)]
    fn a_star_stands_for_any_characters(
        #[case] pattern: &str,
        #[case] text: &str,
        #[case] fits: bool,
    ) {
        assert_eq!(glob(pattern, text), fits);
    }

    #[test]
    fn a_rule_is_used_up_after_its_times_and_the_next_one_applies() {
        let mut faults = Faults::default();
        faults
            .add(rule(
                json!({ "operation": "Get", "times": 2, "effect": "cutBefore" }),
            ))
            .unwrap();
        faults.add(rule(json!({ "effect": "stale" }))).unwrap();
        let mut hit = |name| {
            faults
                .hit("probe", &on(name, None), None)
                .map(|effect| effect.name())
        };
        assert_eq!(
            [hit("Get"), hit("Put"), hit("Get"), hit("Get")],
            [
                Some("cutBefore"),
                Some("stale"),
                Some("cutBefore"),
                Some("stale")
            ]
        );
    }

    #[test]
    fn a_rule_for_a_resource_does_not_match_without_one() {
        let mut faults = Faults::default();
        faults
            .add(rule(json!({ "resource": "a*", "effect": "cutAfter" })))
            .unwrap();
        assert_eq!(faults.hit("probe", &on("List", None), None), None);
        assert_eq!(
            faults.hit("probe", &on("Get", Some("ab")), None),
            Some(Effect::CutAfter)
        );
    }

    #[rstest]
    #[case::throttle("throttle", "RequestLimitExceeded")]
    #[case::number_500("500", "InternalError")]
    #[case::deny("deny", "UnauthorizedOperation")]
    #[case::not_found("notFound", "InvalidVolume.NotFound")]
    fn a_short_rule_matches_one_volume_of_several(#[case] effect: &str, #[case] code: &str) {
        let mut faults = Faults::default();
        let short = json!({ "action": "DescribeVolumes", "volumeId": "vol-2", "effect": effect });
        faults.add(rule(short)).unwrap();
        let mut hit = |resource| faults.hit("ec2", &on("DescribeVolumes", Some(resource)), None);
        assert_eq!(hit("vol-1,vol-3"), None);
        let hit = hit("vol-1,vol-2").expect("it matches");
        let error = hit.error(Protocol::Ec2, Some("vol-2"));
        assert_eq!(error.map(|error| error.code).as_deref(), Some(code));
    }

    #[test]
    fn a_short_delay_has_milliseconds() {
        let mut faults = Faults::default();
        faults
            .add(rule(json!({ "effect": "delay", "ms": 20 })))
            .unwrap();
        let hit = faults.hit("ec2", &on("Get", None), None);
        assert_eq!(hit, Some(Effect::Delay(Duration::from_millis(20))));
        let wrong = faults.add(rule(json!({ "effect": "stale", "ms": 20 })));
        assert!(wrong.unwrap_err().contains("takes no ms"));
    }

    #[test]
    fn rules_are_deleted_by_the_parts_that_are_given() {
        let mut faults = Faults::default();
        for (action, effect) in [("Get", "stale"), ("Get", "500"), ("Put", "stale")] {
            faults
                .add(rule(json!({ "action": action, "effect": effect })))
                .unwrap();
        }
        let like = |written: Value| serde_json::from_value(written).expect("a pattern");
        let wanted = like(json!({ "action": "Get", "effect": 500 }));
        assert_eq!(faults.delete_like(&wanted), 1);
        assert_eq!(faults.delete_like(&like(json!({ "effect": "stale" }))), 2);
    }

    #[rstest]
    #[case::no_times(json!({ "times": 0, "effect": "stale" }), "1 or more")]
    #[case::no_error(json!({ "effect": { "error": { "status": 200, "code": "Fine" } } }), "400 to 599")]
    fn a_rule_without_effect_is_refused(#[case] written: Value, #[case] expected: &str) {
        assert!(
            Faults::default()
                .add(rule(written))
                .unwrap_err()
                .contains(expected)
        );
    }
}
