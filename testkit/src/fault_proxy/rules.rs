//! The rules of a proxy, and the watches that a new rule may end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use tokio::sync::Notify;

use super::rule::Rule;
use super::selector::Head;

/// Identifies a rule; no two rules of a process have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct RuleId(u64);

impl RuleId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl From<u64> for RuleId {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

/// A rule and how often it was applied. It is listed until it is removed, also when it is used up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleUse {
    /// The rule.
    pub id: RuleId,
    /// The method that it applies to; `None` is any.
    pub method: Option<String>,
    /// The pattern of the path.
    pub path: String,
    /// The part of the user agent that it applies to.
    pub agent: Option<String>,
    /// The effect, as the control address names it.
    pub effect: &'static str,
    /// To how many requests it was applied.
    pub hits: u64,
    /// To how many more it applies; `None` is all.
    pub left: Option<u64>,
}

/// All rules, oldest first, and the open watches. One lock guards both, so that a watch is either
/// ended by a new rule or decided by it.
#[derive(Debug, Default)]
pub(super) struct Rules {
    counted: Vec<Counted>,
    watches: Vec<OpenWatch>,
    opened: u64,
}

#[derive(Debug)]
struct Counted {
    id: RuleId,
    rule: Rule,
    hits: u64,
}

#[derive(Debug)]
struct OpenWatch {
    number: u64,
    head: Head,
    /// Ends the connection of the watch.
    end: Arc<Notify>,
}

/// The rule for a request.
pub(super) struct Verdict {
    pub(super) hit: Option<(RuleId, Rule)>,
    /// The number of a watch, for [`Rules::closed`].
    pub(super) watch: Option<u64>,
}

impl Rules {
    pub(super) fn add(&mut self, rule: Rule) -> RuleId {
        let id = RuleId::next();
        if rule.ends_watches {
            let ended = self.watches.iter().filter(|one| rule.applies_to(&one.head));
            ended.for_each(|watch| watch.end.notify_one());
        }
        self.counted.push(Counted { id, rule, hits: 0 });
        id
    }

    /// Whether the rule was still in use.
    pub(super) fn remove(&mut self, id: RuleId) -> bool {
        let Some(at) = self.counted.iter().position(|one| one.id == id) else {
            return false;
        };
        !self.counted.remove(at).rule.is_used_up()
    }

    pub(super) fn clear(&mut self) {
        self.counted.clear();
    }

    pub(super) fn all(&self) -> Vec<RuleUse> {
        let all = self.counted.iter();
        all.map(|one| one.rule.used(one.id, one.hits)).collect()
    }

    /// The rule that applies to this request; counts the use. A watch is open until
    /// [`Rules::closed`]; a rule that ends it notifies `end`.
    pub(super) fn decide(&mut self, head: &Head, end: &Arc<Notify>) -> Verdict {
        let watch = head.is_watch().then(|| {
            self.opened += 1;
            self.watches.push(OpenWatch {
                number: self.opened,
                head: head.clone(),
                end: Arc::clone(end),
            });
            self.opened
        });
        let hit = self.counted.iter_mut().find_map(|one| {
            one.rule.decides(head).then(|| {
                one.hits += 1;
                (one.id, one.rule.clone())
            })
        });
        Verdict { hit, watch }
    }

    pub(super) fn closed(&mut self, watch: u64) {
        self.watches.retain(|one| one.number != watch);
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use tokio::time::{Duration, timeout};

    use super::super::rule::AnyMethod;
    use super::*;

    fn get(target: &str) -> Head {
        let request = http::Request::get(target).body(());
        Head::of(&request.expect("it is a path"))
    }

    fn hits(rules: &mut Rules, path: &str) -> Option<RuleId> {
        let verdict = rules.decide(&get(path), &Arc::default());
        verdict.hit.map(|(id, _)| id)
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
        let counts: Vec<_> = rules.all().iter().map(|one| (one.hits, one.left)).collect();
        assert_eq!(counts, [(1, Some(0)), (2, None)]);
    }

    #[test]
    fn the_first_requests_can_pass() {
        let mut rules = Rules::default();
        let third = rules.add(Rule::on(Method::GET, "/a").after(2).times(1).reset());
        let seen: Vec<_> = (0..4).map(|_| hits(&mut rules, "/a")).collect();
        assert_eq!(seen, [None, None, Some(third), None]);
    }

    #[test]
    fn the_nth_request_is_one_unless_times_says_more() {
        let mut rules = Rules::default();
        let second = rules.add(Rule::on(Method::GET, "/a").nth(2).reset());
        let seen: Vec<_> = (0..3).map(|_| hits(&mut rules, "/a")).collect();
        assert_eq!(seen, [None, Some(second), None]);
    }

    #[test]
    fn a_rule_that_is_used_up_was_not_in_use_when_removed() {
        let mut rules = Rules::default();
        let once = rules.add(Rule::on(Method::GET, "/a").times(1).reset());
        let other = rules.add(Rule::on(Method::GET, "/b").reset());
        hits(&mut rules, "/a");
        assert_eq!(
            [rules.remove(once), rules.remove(other), rules.remove(other)],
            [false, true, false]
        );
        assert_eq!(rules.all(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_rule_ends_the_open_watches_that_it_applies_to() {
        let mut rules = Rules::default();
        let mut open = |target: &str| {
            let end = Arc::<Notify>::default();
            rules.decide(&get(target), &end);
            end
        };
        let (watch, other) = (open("/pods?watch=true"), open("/maps?watch=true"));
        let list = open("/pods?limit=1");
        let closed = Arc::<Notify>::default();
        let verdict = rules.decide(&get("/pods?watch=true"), &closed);
        rules.closed(verdict.watch.expect("it is a watch"));

        rules.add(Rule::on(Method::GET, "/pods").black_hole());
        rules.add(Rule::on(Method::GET, "/pods").reset().ending_watches());
        let mut ended = Vec::new();
        for end in [watch, other, list, closed] {
            ended.push(
                timeout(Duration::from_secs(1), end.notified())
                    .await
                    .is_ok(),
            );
        }
        assert_eq!(ended, [true, false, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn without_its_effect_on_watches_a_rule_ends_none() {
        let mut rules = Rules::default();
        let end = Arc::<Notify>::default();
        rules.decide(&get("/pods?watch=true"), &end);
        rules.add(Rule::on(Method::GET, "/pods").reset());
        rules.add(
            Rule::on(Method::GET, "/pods")
                .nth(2)
                .reset()
                .ending_watches(),
        );
        let ended = timeout(Duration::from_secs(1), end.notified()).await;
        assert!(ended.is_err());
    }
}
