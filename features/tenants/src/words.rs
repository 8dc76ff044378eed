//! Turns of phrase that several messages share. Pure.

/// How many names a message lists before it counts the rest.
pub(crate) const FEW: usize = 5;

/// The first few of `all`, by commas, and how many more there are.
pub(crate) fn few<T: AsRef<str>>(all: &[T]) -> String {
    let shown: Vec<&str> = all.iter().take(FEW).map(AsRef::as_ref).collect();
    let shown = shown.join(", ");
    match all.len().saturating_sub(FEW) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::none(0, "")]
    #[case::one(1, "0")]
    #[case::all_that_fit(5, "0, 1, 2, 3, 4")]
    #[case::the_rest_is_counted(7, "0, 1, 2, 3, 4 and 2 more")]
    fn a_list_is_short(#[case] count: usize, #[case] text: &str) {
        let all: Vec<String> = (0..count).map(|one| one.to_string()).collect();
        assert_eq!(few(&all), text);
    }
}
