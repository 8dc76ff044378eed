//! The requests that the proxy received.

use std::collections::VecDeque;

use http::{Method, StatusCode};
use jiff::Timestamp;

use super::{rules::RuleId, selector::Head};

/// How many requests the log keeps; the oldest are dropped first.
const KEPT: usize = 100_000;

/// One request as the proxy saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// Number of the request, from 1, in order of arrival.
    pub seq: u64,
    /// When it arrived.
    pub at: Timestamp,
    /// Method.
    pub method: Method,
    /// Path.
    pub path: String,
    /// Query, empty when there is none.
    pub query: String,
    /// The client's User-Agent, empty when there is none.
    pub agent: String,
    /// The token of a request to Vault; it identifies the caller.
    pub vault_token: Option<String>,
    /// The status the client was answered with; `None` while it waits, or when it got no answer.
    pub status: Option<StatusCode>,
    /// The rule that decided about it.
    pub rule: Option<RuleId>,
}

impl Logged {
    pub(super) fn head(&self) -> Head {
        Head {
            method: self.method.clone(),
            path: self.path.clone(),
            query: self.query.clone(),
            agent: self.agent.clone(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Log {
    requests: VecDeque<Logged>,
    seen: u64,
}

impl Log {
    pub(super) fn arrived(
        &mut self,
        head: Head,
        vault_token: Option<String>,
        rule: Option<RuleId>,
    ) -> u64 {
        self.seen += 1;
        self.requests.push_back(Logged {
            seq: self.seen,
            at: Timestamp::now(),
            method: head.method,
            path: head.path,
            query: head.query,
            agent: head.agent,
            vault_token,
            status: None,
            rule,
        });
        if self.requests.len() > KEPT {
            self.requests.pop_front();
        }
        self.seen
    }

    pub(super) fn answered(&mut self, seq: u64, status: StatusCode) {
        if let Ok(at) = self.requests.binary_search_by_key(&seq, |one| one.seq) {
            self.requests[at].status = Some(status);
        }
    }

    /// The requests after the one of this number.
    pub(super) fn since(&self, seq: u64) -> Vec<Logged> {
        let begin = self.requests.partition_point(|one| one.seq <= seq);
        self.requests.range(begin..).cloned().collect()
    }

    /// The number of the last request.
    pub(super) fn last(&self) -> u64 {
        self.seen
    }

    pub(super) fn arrivals(&self, matches: impl Fn(&Logged) -> bool) -> Vec<Timestamp> {
        let matching = self.requests.iter().filter(|one| matches(one));
        matching.map(|one| one.at).collect()
    }

    pub(super) fn count(&self, matches: impl Fn(&Logged) -> bool) -> usize {
        self.requests.iter().filter(|one| matches(one)).count()
    }
}
