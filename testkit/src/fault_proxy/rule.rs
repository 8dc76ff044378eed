//! Rules: which requests get which fault, and how often.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};

/// A method to match, or any: `Method::GET`, or [`AnyMethod::any`].
#[derive(Debug, Clone)]
pub struct AnyMethod(pub(super) Option<Method>);

impl AnyMethod {
    /// Matches every method.
    pub fn any() -> Self {
        Self(None)
    }
}

impl From<Method> for AnyMethod {
    fn from(method: Method) -> Self {
        Self(Some(method))
    }
}

/// Identifies an active rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RuleId(u64);

type Rewrite = Arc<dyn Fn(Bytes) -> Bytes + Send + Sync>;

/// What happens to the requests that match. A rule without an effect forwards them, so that younger
/// rules do not apply.
#[derive(Clone)]
pub struct Rule {
    method: Option<Method>,
    pattern: String,
    times: Option<u64>,
    skip: u64,
    pub(super) delay: Duration,
    pub(super) effect: Effect,
}

/// What happens after the delay.
#[derive(Clone)]
pub(super) enum Effect {
    Forward,
    BlackHole,
    Reset,
    Status(StatusCode, Bytes),
    CutBefore,
    CutAfter,
    Rewrite {
        request: Option<Rewrite>,
        answer: Option<Rewrite>,
    },
}

impl Rule {
    /// Requests of this method whose path fits `pattern`.
    ///
    /// `*` stands for any run of characters, slashes too; without one the whole path must be
    /// equal. A pattern with `?` is compared with path and query: `"/api/*?*watch=true*"`.
    pub fn on(method: impl Into<AnyMethod>, pattern: &str) -> Self {
        let AnyMethod(method) = method.into();
        Self {
            method,
            pattern: pattern.to_owned(),
            times: None,
            skip: 0,
            delay: Duration::ZERO,
            effect: Effect::Forward,
        }
    }

    /// Applies to this many requests and is then used up; without it, to all until it is removed.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Skips this many matching requests first; younger rules may apply to them.
    #[must_use]
    pub fn after(mut self, requests: u64) -> Self {
        self.skip = requests;
        self
    }

    /// Waits before anything else happens; can be combined with every effect.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Accepts the request and never answers; nothing is forwarded.
    #[must_use]
    pub fn black_hole(self) -> Self {
        self.effect(Effect::BlackHole)
    }

    /// Ends the connection by a TCP reset; nothing is forwarded.
    #[must_use]
    pub fn reset(self) -> Self {
        self.effect(Effect::Reset)
    }

    /// Answers with this status and body; nothing is forwarded.
    ///
    /// A body that begins with `{` is sent as JSON.
    #[must_use]
    pub fn status(self, status: StatusCode, body: impl Into<Bytes>) -> Self {
        self.effect(Effect::Status(status, body.into()))
    }

    /// Closes the connection; nothing is forwarded.
    #[must_use]
    pub fn cut_before(self) -> Self {
        self.effect(Effect::CutBefore)
    }

    /// Forwards, waits for upstream's whole answer, and closes the connection without it.
    /// Not for watches: their answer has no end.
    #[must_use]
    pub fn cut_after(self) -> Self {
        self.effect(Effect::CutAfter)
    }

    /// Forwards, and changes the body of the answer. Not for watches: the answer is collected first.
    #[must_use]
    pub fn rewrite_body(self, change: impl Fn(Bytes) -> Bytes + Send + Sync + 'static) -> Self {
        let (request, _) = self.rewrites();
        self.effect(Effect::Rewrite {
            request,
            answer: Some(Arc::new(change)),
        })
    }

    /// Changes the body of the request and forwards it.
    #[must_use]
    pub fn rewrite_request(self, change: impl Fn(Bytes) -> Bytes + Send + Sync + 'static) -> Self {
        let (_, answer) = self.rewrites();
        self.effect(Effect::Rewrite {
            request: Some(Arc::new(change)),
            answer,
        })
    }

    fn rewrites(&self) -> (Option<Rewrite>, Option<Rewrite>) {
        match &self.effect {
            Effect::Rewrite { request, answer } => (request.clone(), answer.clone()),
            Effect::Forward
            | Effect::BlackHole
            | Effect::Reset
            | Effect::Status(..)
            | Effect::CutBefore
            | Effect::CutAfter => (None, None),
        }
    }

    fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match &self.effect {
            Effect::Forward => "forward".to_owned(),
            Effect::BlackHole => "black hole".to_owned(),
            Effect::Reset => "reset".to_owned(),
            Effect::Status(status, _) => format!("status {status}"),
            Effect::CutBefore => "cut before".to_owned(),
            Effect::CutAfter => "cut after".to_owned(),
            Effect::Rewrite { .. } => "rewrite".to_owned(),
        };
        f.debug_struct("Rule")
            .field("method", &self.method)
            .field("pattern", &self.pattern)
            .field("times", &self.times)
            .field("skip", &self.skip)
            .field("delay", &self.delay)
            .field("effect", &effect)
            .finish()
    }
}

/// The active rules, oldest first.
#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<(RuleId, Rule)>,
    added: u64,
}

impl Rules {
    pub(super) fn add(&mut self, rule: Rule) -> RuleId {
        self.added += 1;
        let id = RuleId(self.added);
        if rule.times != Some(0) {
            self.rules.push((id, rule));
        }
        id
    }

    pub(super) fn remove(&mut self, id: RuleId) -> bool {
        let before = self.rules.len();
        self.rules.retain(|(own, _)| *own != id);
        self.rules.len() < before
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The rule that applies to this request; counts the use.
    pub(super) fn hit(
        &mut self,
        method: &Method,
        path: &str,
        query: &str,
    ) -> Option<(RuleId, Rule)> {
        let position = self.rules.iter_mut().position(|(_, rule)| {
            let matches = fits(rule.method.as_ref(), &rule.pattern, method, path, query);
            let passes = matches && rule.skip > 0;
            rule.skip -= u64::from(passes);
            matches && !passes
        })?;
        let hit = self.rules[position].clone();
        if let Some(times) = &mut self.rules[position].1.times {
            *times -= 1;
            if *times == 0 {
                self.rules.remove(position);
            }
        }
        Some(hit)
    }
}

/// Whether a request matches a method (or any) and a pattern.
pub(super) fn fits(
    wanted: Option<&Method>,
    pattern: &str,
    method: &Method,
    path: &str,
    query: &str,
) -> bool {
    if wanted.is_some_and(|wanted| wanted != method) {
        return false;
    }
    if pattern.contains('?') {
        glob(pattern, &format!("{path}?{query}"))
    } else {
        glob(pattern, path)
    }
}

fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(rest) = text.strip_prefix(head) else {
        return false;
    };
    rest.char_indices()
        .map(|(at, _)| at)
        .chain([rest.len()])
        .any(|at| glob(tail, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(rules: &mut Rules, path: &str) -> Option<RuleId> {
        rules.hit(&Method::GET, path, "").map(|(id, _)| id)
    }

    #[test]
    fn the_oldest_matching_rule_applies_until_it_is_used_up() {
        let mut rules = Rules::default();
        let once = rules.add(Rule::on(Method::GET, "/a").times(1).reset());
        let all = rules.add(Rule::on(AnyMethod::any(), "*").cut_before());
        assert_eq!(
            [
                hits(&mut rules, "/a"),
                hits(&mut rules, "/a"),
                hits(&mut rules, "/b")
            ],
            [Some(once), Some(all), Some(all)]
        );
    }

    #[test]
    fn the_first_requests_can_pass() {
        let mut rules = Rules::default();
        let third = rules.add(Rule::on(Method::GET, "/a").after(2).times(1).reset());
        let seen: Vec<_> = (0..4).map(|_| hits(&mut rules, "/a")).collect();
        assert_eq!(seen, [None, None, Some(third), None]);
    }

    #[test]
    fn a_pattern_with_a_question_mark_includes_the_query() {
        let watch = "/api/*?*watch=true*";
        assert!(fits(
            None,
            watch,
            &Method::GET,
            "/api/v1/pods",
            "limit=1&watch=true"
        ));
        assert!(!fits(None, watch, &Method::GET, "/api/v1/pods", "limit=1"));
        assert!(fits(
            None,
            "/api/*",
            &Method::GET,
            "/api/v1/pods",
            "limit=1"
        ));
    }

    #[test]
    fn without_a_star_the_whole_path_must_be_equal() {
        assert!(fits(Some(&Method::PUT), "/a", &Method::PUT, "/a", ""));
        assert!(!fits(Some(&Method::PUT), "/a", &Method::PUT, "/a/b", ""));
        assert!(!fits(Some(&Method::PUT), "/a", &Method::GET, "/a", ""));
    }
}
