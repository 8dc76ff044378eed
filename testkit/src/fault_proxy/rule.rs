//! Rules: which requests get which fault, and how often.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use regex_lite::Regex;

use super::rules::{RuleId, RuleUse};
use super::selector::{Head, Pattern, Selector};
use super::strip::{FieldPath, WatchStrip};
use super::upstream::{Target, Upstream};

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

/// A part of a rule that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("fault proxy: {0}")]
pub struct InvalidRule(pub(super) String);

pub(super) type Rewrite = Arc<dyn Fn(Bytes) -> Bytes + Send + Sync>;

/// What happens to the requests that match. A rule without an effect forwards them, so that younger
/// rules do not apply.
#[derive(Clone)]
pub struct Rule {
    selector: Selector,
    times: Option<u64>,
    skip: u64,
    pub(super) ends_watches: bool,
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
    Redirect(Arc<Target>),
    Strip(FieldPath),
}

/// What an effect does to the body of an answer.
pub(super) enum AnswerChange {
    Nothing,
    /// Once the body is complete.
    Whole(Rewrite),
    /// To each event as it arrives.
    Watch(WatchStrip),
}

impl Effect {
    /// The body to forward; `None` if it cannot be changed.
    pub(super) fn change_request(&self, body: Bytes) -> Option<Bytes> {
        match self {
            Self::Rewrite {
                request: Some(change),
                ..
            } => Some(change(body)),
            Self::Strip(field) if !body.is_empty() => field.strip(&body),
            Self::Forward
            | Self::BlackHole
            | Self::Reset
            | Self::Status(..)
            | Self::CutBefore
            | Self::CutAfter
            | Self::Rewrite { request: None, .. }
            | Self::Redirect(_)
            | Self::Strip(_) => Some(body),
        }
    }

    pub(super) fn answer_change(&self, is_watch: bool) -> AnswerChange {
        match self {
            Self::Rewrite {
                answer: Some(change),
                ..
            } => AnswerChange::Whole(Arc::clone(change)),
            Self::Strip(field) if is_watch => AnswerChange::Watch(WatchStrip::new(field.clone())),
            Self::Strip(field) => {
                let field = field.clone();
                // What is not JSON, such as a log, has no field.
                AnswerChange::Whole(Arc::new(move |body| field.strip(&body).unwrap_or(body)))
            }
            Self::Forward
            | Self::BlackHole
            | Self::Reset
            | Self::Status(..)
            | Self::CutBefore
            | Self::CutAfter
            | Self::Rewrite { answer: None, .. }
            | Self::Redirect(_) => AnswerChange::Nothing,
        }
    }

    /// As the control address names it.
    fn name(&self) -> &'static str {
        match self {
            Self::Forward => "delay",
            Self::BlackHole => "drop",
            Self::Reset => "reset",
            Self::Status(..) => "status",
            Self::CutBefore => "cutBefore",
            Self::CutAfter => "cutAfter",
            Self::Rewrite { .. } => "rewrite",
            Self::Redirect(_) => "redirect",
            Self::Strip(_) => "strip",
        }
    }
}

impl Rule {
    /// Requests of this method whose path fits `pattern`.
    ///
    /// `*` stands for any run of characters, slashes too; without one the whole path must be
    /// equal. A pattern with `?` is compared with path and query: `"/api/*?*watch=true*"`.
    pub fn on(method: impl Into<AnyMethod>, pattern: &str) -> Self {
        Self::selecting(method, Pattern::Glob(pattern.to_owned()))
    }

    /// Requests of this method in whose path and query the regular expression is found.
    pub fn on_regex(method: impl Into<AnyMethod>, regex: &str) -> Result<Self, InvalidRule> {
        let regex = Regex::new(regex)
            .map_err(|error| InvalidRule(format!("{regex:?} is no regular expression: {error}")))?;
        Ok(Self::selecting(method, Pattern::Regex(regex)))
    }

    fn selecting(method: impl Into<AnyMethod>, pattern: Pattern) -> Self {
        let AnyMethod(method) = method.into();
        Self {
            selector: Selector {
                method,
                pattern,
                agent: None,
            },
            times: None,
            skip: 0,
            ends_watches: false,
            delay: Duration::ZERO,
            effect: Effect::Forward,
        }
    }

    /// Only requests whose User-Agent contains `part`.
    #[must_use]
    pub fn agent(mut self, part: impl Into<String>) -> Self {
        self.selector.agent = Some(part.into());
        self
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

    /// Applies to the `n`th matching request, from 1; with [`Rule::times`], to that many from it on.
    #[must_use]
    pub fn nth(self, n: u64) -> Self {
        let times = self.times.unwrap_or(1);
        self.after(n.saturating_sub(1)).times(times)
    }

    /// When the rule is added, ends the open watches that it applies to: their clients see the fault
    /// at once, and not only at their next request. They do not count as hits.
    #[must_use]
    pub fn ending_watches(mut self) -> Self {
        self.ends_watches = true;
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

    /// Sends the request to another server, and its answer to the client.
    pub fn redirect(self, to: &Upstream) -> Result<Self, InvalidRule> {
        let target =
            Target::new(to).map_err(|wrong| InvalidRule(format!("{}: {wrong}", to.url)))?;
        Ok(self.effect(Effect::Redirect(Arc::new(target))))
    }

    /// Removes a field of the objects in requests and answers, in lists and watches too, as if the
    /// server did not have it yet.
    ///
    /// `field` is a path with dots, `spec.ordinals`, or a JSON pointer for keys with dots. Arrays need
    /// no index. A request whose body is not JSON gets 415.
    pub fn strip(self, field: &str) -> Result<Self, InvalidRule> {
        let field = FieldPath::parse(field).map_err(InvalidRule)?;
        Ok(self.effect(Effect::Strip(field)))
    }

    /// Whether it would apply to such a request now.
    pub(super) fn applies_to(&self, head: &Head) -> bool {
        self.skip == 0 && !self.is_used_up() && self.selector.fits(head)
    }

    /// Whether it applies to this request; counts it.
    pub(super) fn decides(&mut self, head: &Head) -> bool {
        if self.is_used_up() || !self.selector.fits(head) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if let Some(times) = &mut self.times {
            *times -= 1;
        }
        true
    }

    /// Whether it applies to no further request.
    pub(super) fn is_used_up(&self) -> bool {
        self.times == Some(0)
    }

    pub(super) fn used(&self, id: RuleId, hits: u64) -> RuleUse {
        RuleUse {
            id,
            method: self.selector.method.as_ref().map(Method::to_string),
            path: self.selector.pattern.as_str().to_owned(),
            agent: self.selector.agent.clone(),
            effect: self.effect.name(),
            hits,
            left: self.times,
        }
    }

    fn rewrites(&self) -> (Option<Rewrite>, Option<Rewrite>) {
        match &self.effect {
            Effect::Rewrite { request, answer } => (request.clone(), answer.clone()),
            Effect::Forward
            | Effect::BlackHole
            | Effect::Reset
            | Effect::Status(..)
            | Effect::CutBefore
            | Effect::CutAfter
            | Effect::Redirect(_)
            | Effect::Strip(_) => (None, None),
        }
    }

    fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("selector", &self.selector)
            .field("times", &self.times)
            .field("skip", &self.skip)
            .field("delay", &self.delay)
            .field("effect", &self.effect.name())
            .finish_non_exhaustive()
    }
}
