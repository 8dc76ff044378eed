//! Durations as Vault reads them in policies.

use std::time::Duration;

const DAY: u64 = 24 * 60 * 60;

/// A bare number is seconds; else `3d` or parts such as `1h30m`. Nothing is no time.
///
/// Negative ones are none: Vault takes them and then ignores them.
pub(super) fn duration(text: &str) -> Option<Duration> {
    if text.is_empty() {
        return Some(Duration::ZERO);
    }
    if let Ok(seconds) = text.parse::<i64>() {
        return whole_seconds(seconds);
    }
    if let Some(days) = text.strip_suffix('d') {
        return whole_seconds(days.parse::<i64>().ok()?.checked_mul(DAY.cast_signed())?);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (nanoseconds, behind) = part(rest)?;
        total = total.checked_add(nanoseconds)?;
        rest = behind;
    }
    bounded(Duration::from_nanos(total))
}

/// So many seconds, if Vault can count them: it counts in 63 bits of nanoseconds.
pub(super) fn whole_seconds(seconds: i64) -> Option<Duration> {
    bounded(Duration::from_secs(u64::try_from(seconds).ok()?))
}

fn bounded(time: Duration) -> Option<Duration> {
    (i64::try_from(time.as_nanos()).is_ok()).then_some(time)
}

/// The nanoseconds of the first `number unit`, and what follows it.
fn part(text: &str) -> Option<(u64, &str)> {
    let number_ends = text.find(|ch: char| !ch.is_ascii_digit() && ch != '.')?;
    let (number, rest) = text.split_at(number_ends);
    let unit_ends = rest
        .find(|ch: char| ch.is_ascii_digit() || ch == '.')
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_ends);
    let unit: u64 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    // 19 digits say more than a nanosecond of any unit; the rest is below one.
    let (share, scale) = fraction
        .bytes()
        .take(19)
        .fold((0_u128, 1_u128), |(share, scale), digit| {
            (share * 10 + u128::from(digit - b'0'), scale * 10)
        });
    let share = u64::try_from(u128::from(unit) * share / scale).ok()?;
    let nanoseconds = whole.checked_mul(unit)?.checked_add(share)?;
    Some((nanoseconds, rest))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing_is_no_time("", Some(0))]
    #[case::a_bare_number_is_seconds("90", Some(90_000))]
    #[case::parts_add_up("1h30m", Some(5_400_000))]
    #[case::fractions_count("1.5h", Some(5_400_000))]
    #[case::a_fraction_alone(".5s", Some(500))]
    #[case::days_stand_alone("2d", Some(172_800_000))]
    #[case::milliseconds("250ms", Some(250))]
    #[case::days_mix_with_nothing("1d1h", None)]
    #[case::days_are_whole("1.5d", None)]
    #[case::a_unit_needs_a_number("s", None)]
    #[case::a_number_needs_a_unit("1m30", None)]
    #[case::two_points("1.2.3s", None)]
    #[case::negative("-5s", None)]
    #[case::a_word("soon", None)]
    #[case::beyond_what_vault_counts("9999999999", None)]
    fn vault_reads(#[case] text: &str, #[case] milliseconds: Option<u64>) {
        assert_eq!(duration(text), milliseconds.map(Duration::from_millis));
    }
}
