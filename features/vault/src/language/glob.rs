//! Shell globs over names: `*` and `?` do not cross `/`.

/// A glob that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    pieces: Vec<Piece>,
}

/// Why a text is no glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("glob {glob:?}: {problem}")]
pub struct Malformed {
    glob: String,
    problem: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Char(char),
    /// `?`
    One,
    /// `*`
    Any,
    /// `[…]`, or `[!…]`, as ranges.
    Class {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
}

impl Piece {
    fn takes(&self, ch: char) -> bool {
        match self {
            Self::Char(wanted) => *wanted == ch,
            Self::One => ch != '/',
            Self::Any => false,
            Self::Class { ranges, negated } => {
                let listed = ranges.iter().any(|(from, to)| (*from..=*to).contains(&ch));
                ch != '/' && listed != *negated
            }
        }
    }
}

impl Glob {
    /// Reads `*`, `?`, `[a-z]`, `[!a-z]` (or `[^a-z]`) and `\` before a character meant itself.
    pub fn new(glob: &str) -> Result<Self, Malformed> {
        let malformed = |problem| Malformed {
            glob: glob.to_owned(),
            problem,
        };
        let mut rest = glob.chars();
        let mut pieces = Vec::new();
        while let Some(ch) = rest.next() {
            pieces.push(match ch {
                '*' => Piece::Any,
                '?' => Piece::One,
                '[' => class(&mut rest).map_err(malformed)?,
                '\\' => Piece::Char(escaped(&mut rest).map_err(malformed)?),
                ch => Piece::Char(ch),
            });
        }
        Ok(Self { pieces })
    }

    /// Whether the glob matches all of `name`.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut piece, mut at) = (0, 0);
        // Where to go on when the last `*` takes one more character. An earlier one need not take
        // more: whatever it could reach, the last one reaches, for neither crosses a slash.
        let mut again: Option<(usize, usize)> = None;
        loop {
            match (self.pieces.get(piece), name.get(at)) {
                (None, None) => return true,
                (Some(Piece::Any), _) => {
                    again = Some((piece, at));
                    piece += 1;
                }
                (Some(wanted), Some(ch)) if wanted.takes(*ch) => {
                    piece += 1;
                    at += 1;
                }
                _ => match again {
                    Some((star, taken)) if name.get(taken).is_some_and(|ch| *ch != '/') => {
                        again = Some((star, taken + 1));
                        piece = star + 1;
                        at = taken + 1;
                    }
                    _ => return false,
                },
            }
        }
    }
}

/// Whether `glob` matches all of `name`.
///
/// # When not to use it
/// For one glob and many names: [`Glob::new`] checks it once.
pub fn matches(glob: &str, name: &str) -> Result<bool, Malformed> {
    Ok(Glob::new(glob)?.matches(name))
}

fn escaped(rest: &mut std::str::Chars<'_>) -> Result<char, &'static str> {
    rest.next()
        .ok_or("ends in a backslash; write `\\\\` for one")
}

/// What follows a `[`.
fn class(rest: &mut std::str::Chars<'_>) -> Result<Piece, &'static str> {
    const UNENDED: &str = "`[` without `]`; write `\\[` for the character";
    let negated = rest.as_str().starts_with(['!', '^']);
    if negated {
        rest.next();
    }
    let mut ranges = Vec::new();
    loop {
        let from = match rest.next().ok_or(UNENDED)? {
            ']' if ranges.is_empty() => return Err("an empty class `[]`"),
            ']' => return Ok(Piece::Class { ranges, negated }),
            '\\' => escaped(rest)?,
            ch => ch,
        };
        let is_range = rest.as_str().starts_with('-') && !rest.as_str().starts_with("-]");
        if !is_range {
            ranges.push((from, from));
            continue;
        }
        rest.next();
        let to = match rest.next().ok_or(UNENDED)? {
            '\\' => escaped(rest)?,
            ch => ch,
        };
        if to < from {
            return Err("a range whose end is before its start");
        }
        ranges.push((from, to));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::literal("app", "app", true)]
    #[case::all_of_the_name("app", "apple", false)]
    #[case::star("app-*", "app-1", true)]
    #[case::a_star_takes_nothing_too("app*", "app", true)]
    #[case::a_star_crosses_no_slash("a*", "a/b", false)]
    #[case::stars_in_each_segment("*/x*", "team/xy", true)]
    #[case::two_stars_cross_no_slash_either("a**", "a/b", false)]
    #[case::a_later_star_tries_again("*a*bc", "aabxabc", true)]
    #[case::one("a?c", "abc", true)]
    #[case::one_is_no_slash("a?c", "a/c", false)]
    #[case::class("v[0-9x]", "v7", true)]
    #[case::class_negated("v[!0-9]", "v7", false)]
    #[case::class_negated_is_no_slash("v[^0-9]", "v/", false)]
    #[case::a_hyphen_at_the_end_is_itself("[a-]", "-", true)]
    #[case::escape("a\\*", "a*", true)]
    #[case::escape_is_no_star("a\\*", "ab", false)]
    #[case::empty("", "", true)]
    fn shell_rules(#[case] glob: &str, #[case] name: &str, #[case] matched: bool) {
        assert_eq!(matches(glob, name), Ok(matched));
    }

    #[rstest]
    #[case::open_class("[a")]
    #[case::empty_class("[]")]
    #[case::backwards("[z-a]")]
    #[case::open_range("[a-")]
    #[case::backslash_at_the_end("a\\")]
    fn a_malformed_glob_is_refused(#[case] glob: &str) {
        let refused = Glob::new(glob).expect_err("malformed");
        assert!(refused.to_string().starts_with("glob \""), "{refused}");
    }

    /// Tries every way a star can go.
    fn slow(pieces: &[Piece], name: &[char]) -> bool {
        match (pieces, name) {
            ([], []) => true,
            ([Piece::Any, behind @ ..], _) => {
                slow(behind, name)
                    || matches!(name, [ch, rest @ ..] if *ch != '/' && slow(pieces, rest))
            }
            ([piece, behind @ ..], [ch, rest @ ..]) => piece.takes(*ch) && slow(behind, rest),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matching_finds_what_trying_everything_finds(
            glob in "[ab/*?]{0,8}",
            name in "[ab/]{0,8}",
        ) {
            let glob = Glob::new(&glob).expect("well-formed");
            let letters: Vec<char> = name.chars().collect();
            prop_assert_eq!(glob.matches(&name), slow(&glob.pieces, &letters));
        }

        #[test]
        fn no_text_makes_it_panic(glob in any::<String>(), name in any::<String>()) {
            let _ = matches(&glob, &name);
        }
    }
}
