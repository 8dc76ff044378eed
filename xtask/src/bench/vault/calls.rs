//! The calls of Vault, from the proxy's log.

use std::collections::BTreeMap;

use http::Method;
use testkit::fault_proxy::Logged;

use super::pairs::Kind;

/// The calls of an interval, in the order of their arrival.
#[derive(Debug, Clone)]
pub(super) struct Calls(Vec<Logged>);

impl Calls {
    /// The calls of `log` after the call of this number.
    pub(super) fn since(mut log: Vec<Logged>, mark: u64) -> Self {
        log.retain(|call| call.seq > mark);
        Self(log)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The number of calls about policies or roles of objects of this kind; without lists and without
    /// the operator's own policy and role.
    pub(super) fn about(&self, kind: Kind) -> usize {
        self.of(kind).count()
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = &Logged> {
        let is_meant =
            move |call: &&Logged| subject(call) == Some(kind) && call.path.contains("/vao.");
        self.0.iter().filter(is_meant)
    }

    /// The most calls about one object of this kind, and its path.
    pub(super) fn most_about(&self, kind: Kind) -> (usize, &str) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for call in self.of(kind) {
            *counts.entry(&*call.path).or_default() += 1;
        }
        let most = counts.into_iter().map(|(path, count)| (count, path)).max();
        most.unwrap_or_default()
    }

    /// The number of calls about policies and roles.
    pub(super) fn about_objects(&self) -> usize {
        Kind::BOTH.into_iter().map(|kind| self.about(kind)).sum()
    }

    /// The number of writes of policies or roles, including refused ones.
    pub(super) fn writes(&self) -> usize {
        let is_write = |call: &&Logged| {
            subject(call).is_some() && call.method != Method::GET && !is_list(call)
        };
        self.0.iter().filter(is_write).count()
    }

    pub(super) fn lists(&self) -> usize {
        self.0.iter().filter(|call| is_list(call)).count()
    }

    pub(super) fn logins(&self) -> usize {
        let is_login = |call: &&Logged| call.path.ends_with("/login");
        self.0.iter().filter(is_login).count()
    }

    /// The number of reads of each policy or role, by path.
    pub(super) fn reads(&self) -> BTreeMap<&str, usize> {
        let mut reads = BTreeMap::new();
        let all = Kind::BOTH.into_iter().flat_map(|kind| self.of(kind));
        for call in all.filter(|call| call.method == Method::GET) {
            *reads.entry(&*call.path).or_default() += 1;
        }
        reads
    }

    /// The number of health calls: each interval of a connection begins with one.
    pub(super) fn probes(&self) -> usize {
        self.0.iter().filter(|call| is_probe(call)).count()
    }

    /// The most calls of the connection itself from one health call to the next, without the next.
    pub(super) fn most_upkeep(&self) -> usize {
        let own = self.0.iter().filter(|call| subject(call).is_none());
        let (mut most, mut since) = (0, 0);
        for call in own {
            if is_probe(call) {
                since = 0;
            }
            since += 1;
            most = most.max(since);
        }
        most
    }
}

/// The kind of object that a call is about; none for calls of the connection itself.
fn subject(call: &Logged) -> Option<Kind> {
    let path = call.path.strip_prefix("/v1/")?;
    if path.starts_with("sys/policies/acl") {
        return Some(Kind::Policy);
    }
    let (_, below) = path.strip_prefix("auth/")?.split_once('/')?;
    let is_role = below == "role" || below.starts_with("role/");
    is_role.then_some(Kind::Role)
}

fn is_list(call: &Logged) -> bool {
    call.method.as_str() == "LIST" || call.query.contains("list=true")
}

fn is_probe(call: &Logged) -> bool {
    call.path == "/v1/sys/health"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls written as `METHOD path`, the path below `/v1/`.
    fn calls(lines: &[&str]) -> Calls {
        let one = |(at, line): (usize, &&str)| {
            let (method, path) = line.split_once(' ').unwrap();
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            Logged {
                seq: at as u64 + 1,
                at: jiff::Timestamp::UNIX_EPOCH,
                method: method.parse().unwrap(),
                path: format!("/v1/{path}"),
                query: query.to_owned(),
                agent: String::new(),
                status: None,
                rule: None,
                vault_token: None,
            }
        };
        Calls(lines.iter().enumerate().map(one).collect())
    }

    #[test]
    fn calls_are_counted_by_their_subject() {
        let calls = calls(&[
            "POST auth/kubernetes/login",
            "LIST sys/policies/acl",
            "GET auth/kubernetes/role?list=true",
            "GET sys/policies/acl/vao.a",
            "PUT sys/policies/acl/vao.a",
            "GET auth/kubernetes/role/vao.a",
            "POST auth/kubernetes/role/vao.a",
            "GET auth/kubernetes/role/vao.a",
            "GET auth/kubernetes/role/pontoon",
            "POST auth/token/renew-self",
        ]);
        assert_eq!((calls.count(), calls.logins(), calls.lists()), (10, 1, 2));
        assert_eq!(calls.about(Kind::Policy), 2);
        assert_eq!(calls.about(Kind::Role), 3);
        assert_eq!(calls.about_objects(), 5);
        let most = calls.most_about(Kind::Role);
        assert_eq!(most, (3, "/v1/auth/kubernetes/role/vao.a"));
        assert_eq!(calls.writes(), 2);
        let reads: Vec<_> = calls.reads().into_iter().collect();
        assert_eq!(
            reads,
            [
                ("/v1/auth/kubernetes/role/vao.a", 2),
                ("/v1/sys/policies/acl/vao.a", 1)
            ]
        );
    }

    #[test]
    fn only_calls_after_the_mark_count() {
        let Calls(log) = calls(&["GET sys/health", "GET auth/token/lookup-self"]);
        assert_eq!(Calls::since(log, 1).count(), 1);
    }

    #[test]
    fn upkeep_is_counted_from_probe_to_probe() {
        let calls = calls(&[
            "GET auth/token/lookup-self",
            "GET sys/health",
            "GET sys/policies/acl/vao.a",
            "GET auth/token/lookup-self",
            "GET sys/health",
            "GET auth/token/lookup-self",
            "POST auth/token/renew-self",
            "GET sys/health",
        ]);
        assert_eq!((calls.probes(), calls.most_upkeep()), (3, 3));
    }
}
