//! Quantities of Kubernetes as exact numbers.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The smallest suffix is `n`.
const NANOS: i128 = 1_000_000_000;
const NANOS_OF_A_MILLI: i128 = 1_000_000;

/// Thousandths, rounded up as the API server does; none for a text that is no quantity.
pub(crate) fn milli(quantity: &Quantity) -> Option<i128> {
    let nanos = nanos(quantity.0.trim())?;
    Some(nanos.checked_add(NANOS_OF_A_MILLI - 1)? / NANOS_OF_A_MILLI)
}

/// An amount such as `8Gi` in nanos, exactly; none for a text that is no amount.
///
/// It may end in one of `n u m k M G T P E`, `Ki Mi Gi Ti Pi Ei`, `e<n>` or `E<n>`.
pub(crate) fn nanos(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    digits
        .checked_mul(nanos_of_one(suffix)?)?
        .checked_div(scale)
}

fn nanos_of_one(suffix: &str) -> Option<i128> {
    let decimal = |exponent| 10_i128.checked_pow(exponent);
    let binary = |exponent| 1024_i128.checked_pow(exponent)?.checked_mul(NANOS);
    match suffix {
        "n" => decimal(0),
        "u" => decimal(3),
        "m" => decimal(6),
        "" => decimal(9),
        "k" => decimal(12),
        "M" => decimal(15),
        "G" => decimal(18),
        "T" => decimal(21),
        "P" => decimal(24),
        "E" => decimal(27),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        exponent => {
            let exponent = exponent.strip_prefix(['e', 'E'])?;
            let exponent: i32 = exponent.parse().ok()?;
            decimal(u32::try_from(exponent.checked_add(9)?).ok()?)
        }
    }
}

/// Thousandths as people write them: `500m`, `2`, `3Gi`.
pub(crate) fn display(milli: i128) -> String {
    if milli % 1000 != 0 {
        return format!("{milli}m");
    }
    let whole = milli / 1000;
    let units = [
        (1 << 40, "Ti"),
        (1 << 30, "Gi"),
        (1 << 20, "Mi"),
        (1 << 10, "Ki"),
    ];
    let unit = units
        .into_iter()
        .find(|(size, _)| whole != 0 && whole % size == 0);
    match unit {
        Some((size, name)) => format!("{}{name}", whole / size),
        None => whole.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case::plain("1024", 1024)]
    #[case::binary("1Gi", 1 << 30)]
    #[case::decimal("5G", 5_000_000_000)]
    #[case::fraction("1.5Gi", 3 << 29)]
    #[case::exponent("8e3", 8000)]
    #[case::exponent_in_capitals("8E3", 8000)]
    #[case::the_suffix_e("2E", 2_000_000_000_000_000_000)]
    #[case::biggest("8Ei", 1 << 63)]
    fn an_amount_is_exact(#[case] text: &str, #[case] bytes: i128) {
        assert_eq!(nanos(text), Some(bytes * NANOS));
    }

    #[rstest]
    #[case::nothing("")]
    #[case::a_suffix_alone("Gi")]
    #[case::an_unknown_suffix("1Gib")]
    #[case::two_points("1.2.3")]
    #[case::a_point_alone(".")]
    #[case::negative("-1Gi")]
    #[case::far_too_much("1e400")]
    #[case::a_space("1 Gi")]
    fn another_text_is_no_amount(#[case] text: &str) {
        assert_eq!(nanos(text), None);
    }

    #[test]
    fn notations_of_one_amount_are_equal() {
        assert_eq!(nanos("1Gi"), nanos("1024Mi"));
        assert!(nanos("10G") < nanos("10Gi"));
        assert!(nanos("1001m") > nanos("1"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9.eEikMGm+-]{0,30}|.{0,10}") {
            let _ = nanos(&text);
        }

        #[test]
        fn amounts_order_like_their_numbers(one in 0..10_000_i64, other in 0..10_000_i64) {
            let amount = |number: i64| nanos(&format!("{number}Gi"));
            prop_assert_eq!(amount(one).cmp(&amount(other)), one.cmp(&other));
        }
    }

    #[rstest] //              text     thousandths
    #[case::plain("2", Some(2_000))]
    #[case::thousandths("250m", Some(250))]
    #[case::fraction("0.5", Some(500))]
    #[case::fraction_without_whole(".5", Some(500))]
    #[case::binary("1Ki", Some(1_024_000))]
    #[case::binary_fraction("1.5Gi", Some(1_610_612_736_000))]
    #[case::decimal("1k", Some(1_000_000))]
    #[case::exa_is_no_exponent("1E", Some(1_000_000_000_000_000_000_000))]
    #[case::exponent("2e3", Some(2_000_000))]
    #[case::exponent_in_upper_case("2E3", Some(2_000_000))]
    #[case::negative_exponent("5e-3", Some(5))]
    #[case::too_fine_is_rounded_up("1n", Some(1))]
    #[case::negative("-1", None)]
    #[case::no_digits("Gi", None)]
    #[case::unknown_suffix("1Q", None)]
    #[case::two_points("1.2.3", None)]
    #[case::too_large("1e60", None)]
    #[case::empty("", None)]
    fn thousandths_are_rounded_up(#[case] text: &str, #[case] expected: Option<i128>) {
        assert_eq!(milli(&Quantity(text.to_owned())), expected);
    }

    #[rstest]
    #[case::part(1_500, "1500m")]
    #[case::whole(3_000, "3")]
    #[case::binary(3 * 1000 * (1 << 30), "3Gi")]
    #[case::zero(0, "0")]
    fn an_amount_is_written_with_its_unit(#[case] milli: i128, #[case] text: &str) {
        assert_eq!(display(milli), text);
    }
}
