//! The report at the end of `cargo xtask test`.

use std::time::{Duration, Instant};

use super::run::ExecutableRan;
use super::suite::{Outcome, Ran};
use super::tier::Tier;
use crate::table::table;

/// The tests of one tier that ran.
#[derive(Debug)]
pub(crate) struct TierRan {
    pub(crate) tier: Tier,
    pub(crate) ran: Vec<Ran>,
    /// Wall time, which is less than the sum of concurrent tests.
    pub(crate) seconds: f64,
}

/// The resources that each executable used, the slowest first.
pub(crate) fn used(ran: &[ExecutableRan]) -> String {
    let mut ran: Vec<_> = ran.iter().collect();
    ran.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let rows = ran.iter().take_while(|one| one.seconds >= 1.0).map(|one| {
        [
            one.name.clone(),
            one.ran.len().to_string(),
            seconds(one.seconds),
            seconds(one.usage.cpu().as_secs_f64()),
            one.usage.count("kube-apiserver").to_string(),
            one.usage.count("pontoon").to_string(),
            greediest(one),
        ]
    });
    let heads = [
        "EXECUTABLE",
        "TESTS",
        "TIME",
        "CPU",
        "API SERVERS",
        "OPERATORS",
        "CPU BY PROGRAM",
    ];
    table(heads, rows.collect())
}

/// The programs that used the most CPU time.
fn greediest(one: &ExecutableRan) -> String {
    let programs = one.usage.by_program().into_iter().take(5);
    let each = programs.map(|(name, time)| format!("{name} {:.0}s", time.as_secs_f64()));
    each.collect::<Vec<_>>().join(", ")
}

/// The tests by tier. The time of a tier is from its first start to its last end.
pub(crate) fn by_tier(ran: Vec<ExecutableRan>) -> Vec<TierRan> {
    let end = |one: &ExecutableRan| one.started + Duration::from_secs_f64(one.seconds);
    let mut tiers: Vec<(TierRan, Instant, Instant)> = Vec::new();
    for one in ran {
        let (started, ended) = (one.started, end(&one));
        if let Some((tier, first, last)) = tiers.iter_mut().find(|(tier, ..)| tier.tier == one.tier)
        {
            tier.ran.extend(one.ran);
            *first = started.min(*first);
            *last = ended.max(*last);
        } else {
            let (tier, ran, seconds) = (one.tier, one.ran, 0.0);
            tiers.push((TierRan { tier, ran, seconds }, started, ended));
        }
    }
    tiers.sort_by_key(|(tier, ..)| tier.tier);
    let timed = tiers.into_iter().map(|(tier, first, last)| TierRan {
        seconds: (last - first).as_secs_f64(),
        ..tier
    });
    timed.collect()
}

/// The numbers of passed and failed tests.
pub(crate) fn counts(ran: &[Ran]) -> (usize, usize) {
    let passed = ran
        .iter()
        .filter(|ran| ran.outcome == Outcome::Passed)
        .count();
    (passed, ran.len() - passed)
}

fn totals(tiers: &[TierRan]) -> (usize, usize) {
    let each = tiers.iter().map(|tier| counts(&tier.ran));
    each.fold((0, 0), |sum, (passed, failed)| {
        (sum.0 + passed, sum.1 + failed)
    })
}

/// Whether the run passed: at least one test ran, and none failed.
pub(crate) fn holds(tiers: &[TierRan]) -> bool {
    let (passed, failed) = totals(tiers);
    passed > 0 && failed == 0
}

/// Failures with their output, a table of tiers, the slowest ten, and `N passed, N failed`.
pub(crate) fn report(tiers: &[TierRan]) -> String {
    let (passed, failed) = totals(tiers);
    let mut parts = failures(tiers);
    parts.push(summary(tiers));
    parts.extend(slowest(tiers));
    if passed + failed == 0 {
        parts.push(
            "No test ran: no test has this name in this tier; `cargo xtask test --list` shows all."
                .into(),
        );
    }
    parts.push(format!("{passed} passed, {failed} failed"));
    parts.join("\n\n")
}

fn failures(tiers: &[TierRan]) -> Vec<String> {
    let ran = tiers.iter().flat_map(|tier| &tier.ran);
    ran.filter(|ran| ran.outcome == Outcome::Failed)
        .map(|ran| format!("FAILED {}\n{}", ran.name, ran.output.trim_end()))
        .collect()
}

fn summary(tiers: &[TierRan]) -> String {
    let rows = tiers.iter().map(|tier| {
        let (passed, failed) = counts(&tier.ran);
        [
            tier.tier.to_string(),
            passed.to_string(),
            failed.to_string(),
            seconds(tier.seconds),
        ]
    });
    table(["TIER", "PASSED", "FAILED", "TIME"], rows.collect())
}

fn slowest(tiers: &[TierRan]) -> Option<String> {
    let mut ran: Vec<&Ran> = tiers.iter().flat_map(|tier| &tier.ran).collect();
    ran.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    ran.truncate(10);
    let rows: Vec<_> = ran
        .into_iter()
        .map(|ran| [seconds(ran.seconds), ran.name.clone()])
        .collect();
    (!rows.is_empty()).then(|| table(["TIME", "SLOWEST"], rows))
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.2}s")
}

#[cfg(test)]
mod tests {
    use super::{TierRan, holds, report};
    use crate::test::suite::{Outcome, Ran};
    use crate::test::tier::Tier;

    fn ran(name: &str, outcome: Outcome, seconds: f64) -> Ran {
        Ran {
            name: name.into(),
            outcome,
            seconds,
            output: "because\n".into(),
        }
    }

    fn unit(ran: Vec<Ran>) -> Vec<TierRan> {
        vec![TierRan {
            tier: Tier::Unit,
            ran,
            seconds: 1.5,
        }]
    }

    #[test]
    fn the_last_line_has_only_the_counts() {
        let tiers = unit(vec![
            ran("k::a", Outcome::Passed, 0.1),
            ran("k::b", Outcome::Failed, 0.2),
        ]);
        let text = report(&tiers);
        assert_eq!(text.lines().last(), Some("1 passed, 1 failed"));
        assert!(text.starts_with("FAILED k::b\nbecause\n"), "{text}");
        assert!(!holds(&tiers));
    }

    #[test]
    fn the_slowest_ten_are_listed_slowest_first() {
        let many = (0..12).map(|n| ran(&format!("k::t{n}"), Outcome::Passed, f64::from(n)));
        let tiers = unit(many.collect());
        let text = report(&tiers);
        assert!(text.find("k::t11") < text.find("k::t2"), "{text}");
        assert!(
            text.contains("k::t2") && !text.contains("k::t1\n"),
            "{text}"
        );
        assert!(holds(&tiers));
    }

    #[test]
    fn a_run_without_tests_does_not_hold() {
        assert!(!holds(&unit(vec![])));
        assert!(report(&unit(vec![])).contains("No test ran"));
    }
}
