//! One bar: a measurement, the target in the contract, and whether it is met.

use crate::table;

/// A measurement with its target.
#[derive(Debug, Clone)]
pub(super) struct Bar {
    what: &'static str,
    measured: f64,
    target: Target,
    unit: &'static str,
    /// Decimal places.
    digits: usize,
}

#[derive(Debug, Clone, Copy)]
enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Bar {
    pub(super) fn at_least(what: &'static str, measured: f64, target: f64) -> Self {
        Self {
            what,
            measured,
            target: Target::AtLeast(target),
            unit: "",
            digits: 2,
        }
    }

    pub(super) fn at_most(
        what: &'static str,
        measured: f64,
        target: f64,
        unit: &'static str,
    ) -> Self {
        Self {
            what,
            measured,
            target: Target::AtMost(target),
            unit,
            digits: 1,
        }
    }

    /// Shows more decimal places, for values that are small in their unit.
    pub(super) fn fine(self) -> Self {
        Self { digits: 2, ..self }
    }

    /// Shows no decimal places, for counts.
    pub(super) fn whole(self) -> Self {
        Self { digits: 0, ..self }
    }

    pub(super) fn is_met(&self) -> bool {
        match self.target {
            Target::AtLeast(target) => self.measured >= target,
            Target::AtMost(target) => self.measured <= target,
        }
    }

    fn row(&self) -> [String; 4] {
        let Self {
            what,
            measured,
            target,
            unit,
            digits,
        } = self;
        let target = match target {
            Target::AtLeast(target) => format!("≥ {target}{unit}"),
            Target::AtMost(target) => format!("≤ {target}{unit}"),
        };
        let met = if self.is_met() { "yes" } else { "NO" };
        [
            (*what).to_owned(),
            format!("{measured:.digits$}{unit}"),
            target,
            met.to_owned(),
        ]
    }
}

/// The bars as a table.
pub(super) fn table(bars: &[Bar]) -> String {
    table::table(
        ["BAR", "MEASURED", "TARGET", "MET"],
        bars.iter().map(Bar::row).collect(),
    )
}

/// The median; of an even number of values, the mean of the middle two.
pub(super) fn median(values: &[f64]) -> f64 {
    let negated: Vec<f64> = values.iter().map(|value| -value).collect();
    f64::midpoint(quantile(values, 0.5), -quantile(&negated, 0.5))
}

/// The smallest value that `share` of all values do not exceed.
pub(super) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // Counts here are small and positive: the conversion loses nothing.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::{Bar, median, quantile, table};

    #[test]
    fn a_bar_is_met_up_to_and_including_its_target() {
        assert!(Bar::at_least("a", 0.8, 0.8).is_met());
        assert!(!Bar::at_least("a", 0.79, 0.8).is_met());
        assert!(Bar::at_most("a", 50.0, 50.0, " ms").is_met());
        assert!(!Bar::at_most("a", 50.1, 50.0, " ms").is_met());
    }

    #[test]
    fn a_measurement_of_nan_meets_no_target() {
        assert!(!Bar::at_least("a", f64::NAN, 0.8).is_met());
        assert!(!Bar::at_most("a", f64::NAN, 50.0, "").is_met());
    }

    #[test]
    fn the_table_shows_measurement_target_and_verdict() {
        let text = table(&[
            Bar::at_most("wait", 61.25, 50.0, " ms"),
            Bar::at_most("writes", 0.0, 0.0, "").whole(),
        ]);
        assert_eq!(
            text,
            "BAR     MEASURED  TARGET   MET\nwait    61.2 ms   ≤ 50 ms  NO\nwrites  0         ≤ 0      yes"
        );
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert!((quantile(&values, 0.99) - 198.0).abs() < f64::EPSILON);
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(&[4.0, 1.0, 3.0, 2.0]) - 2.5).abs() < f64::EPSILON);
        assert!(median(&[]).is_nan());
    }
}
