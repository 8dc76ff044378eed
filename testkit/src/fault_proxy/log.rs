//! The requests that the proxy received.

use std::collections::VecDeque;

use http::{Method, StatusCode};
use jiff::Timestamp;

use super::rule::RuleId;

/// How many requests the log keeps; the oldest are dropped first.
const KEPT: usize = 100_000;

/// One request as the proxy saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// Number of the request, from 1, in order of arrival.
    pub seq: u64,
    /// Method.
    pub method: Method,
    /// Path.
    pub path: String,
    /// Query, empty when there is none.
    pub query: String,
    /// The token of a request to Vault; it identifies the caller.
    pub vault_token: Option<String>,
    /// The status the client was answered with; `None` while it waits, or when it got no answer.
    pub status: Option<StatusCode>,
    /// The rule that decided about it.
    pub rule: Option<RuleId>,
}

#[derive(Debug, Default)]
pub(super) struct Log {
    /// Each with the time of its arrival.
    requests: VecDeque<(Timestamp, Logged)>,
    seen: u64,
}

impl Log {
    pub(super) fn arrived(
        &mut self,
        method: Method,
        path: String,
        query: String,
        vault_token: Option<String>,
        rule: Option<RuleId>,
    ) -> u64 {
        self.seen += 1;
        let request = Logged {
            seq: self.seen,
            method,
            path,
            query,
            vault_token,
            status: None,
            rule,
        };
        self.requests.push_back((Timestamp::now(), request));
        if self.requests.len() > KEPT {
            self.requests.pop_front();
        }
        self.seen
    }

    pub(super) fn answered(&mut self, seq: u64, status: StatusCode) {
        if let Ok(at) = self.requests.binary_search_by_key(&seq, |(_, one)| one.seq) {
            self.requests[at].1.status = Some(status);
        }
    }

    pub(super) fn all(&self) -> Vec<Logged> {
        self.requests.iter().map(|(_, one)| one.clone()).collect()
    }

    pub(super) fn arrivals(&self, matches: impl Fn(&Logged) -> bool) -> Vec<Timestamp> {
        let matching = self.requests.iter().filter(|(_, one)| matches(one));
        matching.map(|(at, _)| *at).collect()
    }

    pub(super) fn count(&self, matches: impl Fn(&Logged) -> bool) -> usize {
        self.requests.iter().filter(|(_, one)| matches(one)).count()
    }
}
