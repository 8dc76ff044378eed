//! Lengths of time as people read them. Pure.

use jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// How old something is, in its largest unit: `45s`, `12m`, `3h`, `5d`.
pub(super) fn age(created: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(created).as_secs().max(0);
    match seconds {
        ..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m", seconds / MINUTE),
        HOUR..DAY => format!("{}h", seconds / HOUR),
        DAY.. => format!("{}d", seconds / DAY),
    }
}

/// A length: `3.2s`, `34s`, `2m05s`, `1h02m`.
pub(super) fn length(seconds: f64) -> String {
    let seconds = seconds.max(0.0);
    if seconds < 10.0 {
        return format!("{seconds:.1}s");
    }
    #[expect(clippy::cast_possible_truncation, reason = "a float saturates")]
    let whole = seconds as i64;
    match whole {
        ..MINUTE => format!("{whole}s"),
        MINUTE..HOUR => format!("{}m{:02}s", whole / MINUTE, whole % MINUTE),
        HOUR.. => format!("{}h{:02}m", whole / HOUR, whole % HOUR / MINUTE),
    }
}

/// The seconds from one time to a later one; zero if the order is wrong.
pub(super) fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::seconds(59, "59s")]
    #[case::minutes(60, "1m")]
    #[case::hours(2 * HOUR + 5, "2h")]
    #[case::days(49 * HOUR, "2d")]
    #[case::by_another_clock(-5, "0s")]
    fn an_age_has_one_unit(#[case] seconds: i64, #[case] expected: &str) {
        let created = Timestamp::UNIX_EPOCH;
        let now = created + SignedDuration::from_secs(seconds);
        assert_eq!(age(created, now), expected);
    }

    #[rstest]
    #[case::nothing(0.0, "0.0s")]
    #[case::short(3.24, "3.2s")]
    #[case::seconds(34.9, "34s")]
    #[case::minutes(125.0, "2m05s")]
    #[case::hours(3720.0, "1h02m")]
    #[case::negative(-1.0, "0.0s")]
    fn a_length_is_short(#[case] seconds: f64, #[case] expected: &str) {
        assert_eq!(length(seconds), expected);
    }
}
