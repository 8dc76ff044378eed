//! The windows of ordinals on both sides while a StatefulSet moves.
//!
//! ```text
//! source  S ─────────────── S+N      before
//!            i+1 ────────── S+N      ordinal i released
//! dest    S ─ i                      i ordinals below are there
//!         S ─── i+1                  grown by i
//! ```

use std::fmt;
use std::ops::Range;

/// The ordinals that a StatefulSet runs.
///
/// The functions that take an ordinal belong to the window of the source before the run. They compute what
/// each side runs when this ordinal moves, and give none for an ordinal outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first ordinal, `spec.ordinals.start`.
    pub start: i32,
    /// Their number, `spec.replicas`.
    pub replicas: i32,
}

impl Window {
    /// The first ordinal after it.
    pub fn end(self) -> i32 {
        self.start.saturating_add(self.replicas.max(0))
    }

    /// Its ordinals, in the order in which they move.
    pub fn ordinals(self) -> Range<i32> {
        self.start..self.end()
    }

    /// Whether it contains `ordinal`.
    pub fn contains(self, ordinal: i32) -> bool {
        self.ordinals().contains(&ordinal)
    }

    /// Whether no ordinal is in both.
    pub fn is_disjoint(self, other: Self) -> bool {
        self.start.max(other.start) >= self.end().min(other.end())
    }

    /// The source's window once it has released `ordinal` and all below.
    pub fn source_without(self, ordinal: i32) -> Option<Self> {
        self.contains(ordinal).then(|| self.from(ordinal + 1))
    }

    /// The source's window once a rollback has brought `ordinal` back.
    pub fn source_with(self, ordinal: i32) -> Option<Self> {
        self.contains(ordinal).then(|| self.from(ordinal))
    }

    /// The destination's window once it has grown by `ordinal`.
    pub fn dest_with(self, ordinal: i32) -> Option<Self> {
        self.contains(ordinal).then(|| self.until(ordinal + 1))
    }

    /// The destination's window before it grows by `ordinal`, and once a rollback has released it there.
    pub fn dest_without(self, ordinal: i32) -> Option<Self> {
        self.contains(ordinal).then(|| self.until(ordinal))
    }

    fn from(self, ordinal: i32) -> Self {
        Self {
            start: ordinal,
            replicas: self.end() - ordinal,
        }
    }

    fn until(self, ordinal: i32) -> Self {
        Self {
            replicas: ordinal - self.start,
            ..self
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.replicas {
            ..=0 => f.write_str("no ordinal"),
            1 => write!(f, "ordinal {}", self.start),
            2.. => write!(f, "ordinals {} to {}", self.start, self.end() - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const fn window(start: i32, replicas: i32) -> Window {
        Window { start, replicas }
    }

    #[rstest]
    #[case::the_first(0, window(1, 2), window(0, 1))]
    #[case::the_second(1, window(2, 1), window(0, 2))]
    #[case::the_last(2, window(3, 0), window(0, 3))]
    fn ordinals_of_a_window_from_0_move(
        #[case] ordinal: i32,
        #[case] source: Window,
        #[case] dest: Window,
    ) {
        assert_eq!(window(0, 3).source_without(ordinal), Some(source));
        assert_eq!(window(0, 3).dest_with(ordinal), Some(dest));
    }

    #[rstest]
    #[case::the_first(5, window(6, 2), window(5, 1))]
    #[case::the_last(7, window(8, 0), window(5, 3))]
    fn ordinals_of_a_window_from_5_move(
        #[case] ordinal: i32,
        #[case] source: Window,
        #[case] dest: Window,
    ) {
        assert_eq!(window(5, 3).source_without(ordinal), Some(source));
        assert_eq!(window(5, 3).dest_with(ordinal), Some(dest));
    }

    #[rstest]
    #[case::below(4)]
    #[case::beyond(8)]
    fn an_ordinal_outside_has_no_window(#[case] ordinal: i32) {
        let whole = window(5, 3);
        assert_eq!(whole.source_without(ordinal), None);
        assert_eq!(whole.source_with(ordinal), None);
        assert_eq!(whole.dest_with(ordinal), None);
        assert_eq!(whole.dest_without(ordinal), None);
    }

    #[rstest]
    #[case::none(window(3, 0), "no ordinal")]
    #[case::one(window(3, 1), "ordinal 3")]
    #[case::several(window(3, 2), "ordinals 3 to 4")]
    fn a_window_prints_as_a_phrase(#[case] window: Window, #[case] text: &str) {
        assert_eq!(window.to_string(), text);
    }

    fn windows() -> impl Strategy<Value = Window> {
        (0..1000, 0..50).prop_map(|(start, replicas)| Window { start, replicas })
    }

    fn sorted(windows: [Window; 2]) -> Vec<i32> {
        let mut all: Vec<i32> = windows.into_iter().flat_map(Window::ordinals).collect();
        all.sort_unstable();
        all
    }

    proptest! {
        /// The invariant of the contract: disjoint at every instant, and at most one ordinal is missing.
        #[test]
        fn sides_are_disjoint_and_lack_one_ordinal(whole in windows()) {
            let mut source = whole;
            let mut dest = Window { replicas: 0, ..whole };
            for ordinal in whole.ordinals() {
                prop_assert_eq!(Some(source), whole.source_with(ordinal));
                prop_assert_eq!(Some(dest), whole.dest_without(ordinal));
                source = whole.source_without(ordinal).unwrap();
                prop_assert!(source.is_disjoint(dest));
                let expected: Vec<i32> = whole.ordinals().filter(|other| *other != ordinal).collect();
                prop_assert_eq!(sorted([source, dest]), expected);
                dest = whole.dest_with(ordinal).unwrap();
                prop_assert!(source.is_disjoint(dest));
                prop_assert_eq!(sorted([source, dest]), whole.ordinals().collect::<Vec<_>>());
            }
            prop_assert_eq!(dest, whole);
            prop_assert_eq!(source.replicas, 0);
        }

        #[test]
        fn disjoint_windows_share_no_ordinal(one in windows(), other in windows()) {
            let shares = one.ordinals().any(|ordinal| other.contains(ordinal));
            prop_assert_eq!(one.is_disjoint(other), !shares);
        }
    }
}
