//! Detects growing latency.

use std::time::Duration;

/// A mean below this is low enough, whatever it was before.
const QUICK: f64 = 0.1;
/// The mean has grown when it is this many times the best.
const GROWN: f64 = 4.0;
/// The share of a new answer in the mean.
const SHARE: f64 = 1.0 / 16.0;
/// The best latency grows by this share with each answer, so that a server that became permanently
/// slower is compared with itself after some thousand answers.
const FORGETTING: f64 = 0.001;

/// Latency of the answers of one connection, in seconds.
#[derive(Debug, Default)]
pub(super) struct Latency(Option<Means>);

#[derive(Debug, Clone, Copy)]
struct Means {
    best: f64,
    mean: f64,
}

impl Latency {
    /// Adds an answer; returns whether answers have become much slower than the recent best.
    pub(super) fn grows(&mut self, took: Duration) -> bool {
        let took = took.as_secs_f64();
        let before = self.0.unwrap_or(Means {
            best: took,
            mean: took,
        });
        let best = (before.best * (1.0 + FORGETTING)).min(took);
        let mean = (took - before.mean).mul_add(SHARE, before.mean);
        self.0 = Some(Means { best, mean });
        mean > QUICK && mean > best * GROWN
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Milliseconds of some hundred answers, then of as many others.
    #[rstest]
    #[case::steady(5, 5, false)]
    #[case::slower_but_quick(5, 80, false)]
    #[case::slow_from_the_beginning(300, 400, false)]
    #[case::much_slower(5, 500, true)]
    #[case::far_away_and_much_slower(80, 800, true)]
    fn growth_differs_from_a_constantly_high_latency(
        #[case] first: u64,
        #[case] then: u64,
        #[case] grown: bool,
    ) {
        let mut latency = Latency::default();
        let mut grows = |millis| latency.grows(Duration::from_millis(millis));
        assert!((0..200).all(|_| !grows(first)));
        assert_eq!((0..200).any(|_| grows(then)), grown);
    }

    #[test]
    fn one_slow_answer_is_no_growth() {
        let mut latency = Latency::default();
        assert!((0..50).all(|_| !latency.grows(Duration::from_millis(5))));
        assert!(!latency.grows(Duration::from_secs(1)));
        assert!((0..50).all(|_| !latency.grows(Duration::from_millis(5))));
    }
}
