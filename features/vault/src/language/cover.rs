//! How far a path of a policy reaches: ceilings, `kvPaths` and the namespace boundary.
//!
//! A segment that is just `+` matches any segment; `*` at the very end matches any rest; every
//! other character is itself. A template of Vault's such as `{{identity.entity.id}}` becomes a text
//! nobody knows beforehand, so it is matched only by the same template or by a `*` before which all
//! is matched already.

use std::collections::BTreeSet;

use super::{policy::DENY, text::NAMESPACE};

/// What the rules of a namespace may grant at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ceiling {
    /// The paths, `{{namespace}}` replaced.
    pub path: String,
    /// The capabilities on them.
    pub capabilities: BTreeSet<String>,
}

impl Ceiling {
    /// The ceiling that `path` and `capabilities` of the spec are to `namespace`.
    pub fn new<T: Into<String>>(
        path: &str,
        capabilities: impl IntoIterator<Item = T>,
        namespace: &str,
    ) -> Self {
        Self {
            path: for_namespace(path, namespace),
            capabilities: capabilities.into_iter().map(Into::into).collect(),
        }
    }

    /// Whether a rule grants no more than this.
    pub fn admits(&self, path: &str, capabilities: &BTreeSet<String>) -> bool {
        capabilities.is_subset(&self.capabilities) && covers(&self.path, path)
    }
}

/// Whether one of `ceilings` admits the rule, or the rule only denies.
pub fn within_ceilings(ceilings: &[Ceiling], path: &str, capabilities: &BTreeSet<String>) -> bool {
    let pure_deny = capabilities.len() == 1 && capabilities.contains(DENY);
    pure_deny
        || ceilings
            .iter()
            .any(|ceiling| ceiling.admits(path, capabilities))
}

/// `{{namespace}}` replaced: for ceilings, `kvPaths` and globs.
pub fn for_namespace(pattern: &str, namespace: &str) -> String {
    pattern.replace(NAMESPACE, namespace)
}

/// Whether every request path that `rule` matches is matched by `ceiling`, too.
///
/// A pattern that Vault would refuse covers nothing and is not covered.
pub fn covers(ceiling: &str, rule: &str) -> bool {
    let (Some(ceiling), Some(rule)) = (Pattern::new(ceiling), Pattern::new(rule)) else {
        return false;
    };
    if rule.open && !ceiling.open {
        return false;
    }
    let mut rest = rule.pieces.as_slice();
    for piece in &ceiling.pieces {
        rest = match (piece, rest) {
            (Piece::Segment, [Piece::Segment, behind @ ..]) => behind,
            (Piece::Segment, _) => {
                let literal = |piece: &&Piece| matches!(piece, Piece::Char(_));
                &rest[rest.iter().take_while(literal).count()..]
            }
            (piece, [same, behind @ ..]) if piece == same => behind,
            _ => return false,
        };
    }
    ceiling.open || rest.is_empty()
}

/// A path of a policy, taken apart.
struct Pattern<'a> {
    pieces: Vec<Piece<'a>>,
    /// Ends in `*`.
    open: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Char(char),
    Slash,
    /// `+`: any one segment.
    Segment,
    /// The inside of `{{…}}`.
    Template(&'a str),
}

impl<'a> Pattern<'a> {
    fn new(path: &'a str) -> Option<Self> {
        let path = path.strip_prefix('/').unwrap_or(path);
        if path.contains("+*") {
            return None;
        }
        let (body, open) = match path.strip_suffix('*') {
            Some(body) => (body, true),
            None => (path, false),
        };
        let mut pieces = Vec::new();
        let mut rest = body;
        while let Some(ch) = rest.chars().next() {
            let segment_starts = matches!(pieces.last(), None | Some(Piece::Slash));
            if let Some(template) = rest.strip_prefix("{{") {
                let (inside, behind) = template.split_once("}}")?;
                pieces.push(Piece::Template(inside.trim()));
                rest = behind;
                continue;
            }
            rest = &rest[ch.len_utf8()..];
            let segment_ends = rest.is_empty() || rest.starts_with('/');
            pieces.push(match ch {
                '/' => Piece::Slash,
                '+' if segment_starts && segment_ends => Piece::Segment,
                ch => Piece::Char(ch),
            });
        }
        Some(Self { pieces, open })
    }
}

/// The literal text before `{{namespace}}`, if that is a whole segment after literal segments only.
pub fn boundary_prefix(path: &str) -> Option<&str> {
    let (prefix, rest) = path.split_once(NAMESPACE)?;
    let literal = |segment: &str| {
        !segment.is_empty()
            && segment
                .chars()
                .all(|ch| ch.is_ascii_alphanumeric() || "_.-".contains(ch))
    };
    let whole = rest.is_empty() || rest.starts_with('/');
    let literal_before = prefix.is_empty()
        || prefix
            .strip_suffix('/')
            .is_some_and(|segments| segments.split('/').all(literal));
    let climbs = path.split('/').any(|segment| segment == "..");
    (whole && literal_before && !climbs).then_some(prefix)
}

/// Whether `path` stays in its namespace: see [`boundary_prefix`].
pub fn within_boundary(path: &str) -> bool {
    boundary_prefix(path).is_some()
}

/// Mounts that the default boundary leaves out: whoever writes there reaches beyond a namespace.
const BEYOND_NAMESPACES: [&str; 4] = ["sys/", "auth/", "identity/", "cubbyhole/"];

/// Whether a tenancy's `boundaryPrefixes` allow the literal `prefix` of a path.
///
/// Without any, all prefixes are allowed but those of Vault's own mounts.
pub fn prefix_allowed<T: AsRef<str>>(prefix: &str, allowed: Option<&[T]>) -> bool {
    match allowed {
        Some(allowed) => allowed.iter().any(|allowed| allowed.as_ref() == prefix),
        None => !BEYOND_NAMESPACES
            .iter()
            .any(|mount| prefix.starts_with(mount)),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::itself("a/b", "a/b", true)]
    #[case::a_leading_slash_is_nothing("/a/b", "a/b", true)]
    #[case::a_star_covers_what_follows("secret/*", "secret/data/x", true)]
    #[case::a_star_covers_a_longer_star("secret/*", "secret/data/*", true)]
    #[case::a_star_covers_no_shorter_star("secret/data/*", "secret/*", false)]
    #[case::an_open_rule_needs_an_open_ceiling("secret/+", "secret/a*", false)]
    #[case::plus_covers_a_literal("secret/+/x", "secret/a/x", true)]
    #[case::plus_covers_plus("secret/+/x", "secret/+/x", true)]
    #[case::a_literal_covers_no_plus("secret/a/x", "secret/+/x", false)]
    #[case::a_star_covers_plus("secret/*", "secret/+/x", true)]
    #[case::a_star_inside_a_segment_covers_no_plus("secret/a*", "secret/+/x", false)]
    #[case::plus_stays_in_its_segment("secret/+", "secret/a/b", false)]
    #[case::a_plus_in_a_word_is_a_letter("secret/a+", "secret/ab", false)]
    #[case::a_star_in_the_middle_is_a_letter("a/*/b", "a/x/b", false)]
    #[case::plus_covers_no_template("secret/+/x", "secret/{{identity.entity.id}}/x", false)]
    #[case::a_template_covers_itself(
        "s/{{identity.entity.id}}/*",
        "s/{{ identity.entity.id }}/x",
        true
    )]
    #[case::a_template_covers_no_other(
        "s/{{identity.entity.id}}/*",
        "s/{{identity.entity.name}}/x",
        false
    )]
    #[case::a_template_covers_no_literal("s/{{identity.entity.id}}", "s/abc", false)]
    #[case::a_star_covers_a_template("s/*", "s/{{identity.entity.id}}", true)]
    #[case::a_star_covers_a_template_in_a_word("s/u-*", "s/u-{{identity.entity.id}}/x", true)]
    #[case::a_late_star_covers_no_template("s/u*", "s/{{identity.entity.id}}", false)]
    #[case::a_slash_in_a_template_splits_nothing(
        "s/+/b.id}}",
        "s/{{identity.groups.ids.a/b.id}}",
        false
    )]
    #[case::what_vault_refuses_is_not_covered("*", "a/+*", false)]
    #[case::an_open_template_is_not_covered("*", "a/{{x", false)]
    #[case::all_covers_all("*", "+/a*", true)]
    fn reach(#[case] ceiling: &str, #[case] rule: &str, #[case] covered: bool) {
        assert_eq!(covers(ceiling, rule), covered);
    }

    /// All texts over `letters` of up to `length` characters.
    fn texts(letters: &str, length: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..length {
            let to = all.len();
            for index in from..to {
                for letter in letters.chars() {
                    let text = format!("{}{letter}", all[index]);
                    all.push(text);
                }
            }
            from = to;
        }
        all
    }

    /// What the server does with a request path: a prefix or exact match without `+` segments,
    /// else segment by segment.
    fn server_matches(pattern: &str, path: &str) -> bool {
        let (body, open) = match pattern.strip_suffix('*') {
            Some(body) => (body, true),
            None => (pattern, false),
        };
        let wanted: Vec<&str> = body.split('/').collect();
        if !wanted.contains(&"+") {
            return if open {
                path.starts_with(body)
            } else {
                path == body
            };
        }
        let given: Vec<&str> = path.split('/').collect();
        if given.len() < wanted.len() || (!open && given.len() != wanted.len()) {
            return false;
        }
        let last = wanted.len() - 1;
        wanted
            .iter()
            .zip(&given)
            .enumerate()
            .all(|(at, (wanted, given))| {
                *wanted == "+"
                    || wanted == given
                    || (open && at == last && given.starts_with(wanted))
            })
    }

    /// `covers` against all patterns of four characters and all request paths of six.
    #[test]
    fn covering_is_sound_and_complete() {
        let patterns: Vec<String> = texts("a/+*", 4)
            .into_iter()
            .filter(|pattern| !pattern.contains("+*") && !pattern.starts_with('/'))
            .collect();
        let paths: Vec<String> = texts("az/+*", 6)
            .into_iter()
            .filter(|path| !path.starts_with('/'))
            .collect();
        let matched: Vec<Vec<u64>> = patterns
            .iter()
            .map(|pattern| {
                let hit = |path: &String| u64::from(server_matches(pattern, path));
                let word =
                    |paths: &[String]| paths.iter().rfold(0, |bits, path| bits << 1 | hit(path));
                paths.chunks(64).map(word).collect()
            })
            .collect();
        for (ceiling, above) in patterns.iter().zip(&matched) {
            for (rule, below) in patterns.iter().zip(&matched) {
                let contained = below
                    .iter()
                    .zip(above)
                    .all(|(below, above)| below & !above == 0);
                assert_eq!(covers(ceiling, rule), contained, "{ceiling} over {rule}");
            }
        }
    }

    #[rstest]
    #[case::below_literal_segments("secret/data/{{namespace}}/*", Some("secret/data/"))]
    #[case::alone("{{namespace}}", Some(""))]
    #[case::any_rest("kv/{{namespace}}/+/x*", Some("kv/"))]
    #[case::none_at_all("secret/data/shared/*", None)]
    #[case::below_a_star("*/{{namespace}}/x", None)]
    #[case::below_a_plus("secret/+/{{namespace}}/x", None)]
    #[case::below_a_template("secret/{{name}}/{{namespace}}/x", None)]
    #[case::open_behind("secret/data/{{namespace}}*", None)]
    #[case::part_of_a_segment("a-{{namespace}}/x", None)]
    #[case::below_an_empty_segment("a//{{namespace}}/x", None)]
    #[case::climbing_out("a/{{namespace}}/../x", None)]
    fn boundary(#[case] path: &str, #[case] prefix: Option<&str>) {
        assert_eq!(boundary_prefix(path), prefix);
        assert_eq!(within_boundary(path), prefix.is_some());
    }

    #[test]
    fn vaults_own_mounts_are_no_boundary_unless_listed() {
        let none: Option<&[&str]> = None;
        assert!(prefix_allowed("secret/data/", none));
        assert!(!prefix_allowed("sys/policies/acl/", none));
        assert!(prefix_allowed("auth/x/", Some(&["auth/x/"])));
        assert!(!prefix_allowed("secret/", Some(&["auth/x/"])));
    }

    #[test]
    fn a_rule_needs_one_ceiling_for_all_its_capabilities() {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let ceilings = [
            Ceiling::new("secret/data/{{namespace}}/*", ["read", "list"], "team-a"),
            Ceiling::new("secret/data/*", ["list"], "team-a"),
        ];
        assert!(within_ceilings(
            &ceilings,
            "secret/data/team-a/x",
            &set(&["read"])
        ));
        assert!(within_ceilings(
            &ceilings,
            "secret/data/team-b/x",
            &set(&["list"])
        ));
        assert!(!within_ceilings(
            &ceilings,
            "secret/data/team-b/x",
            &set(&["read"])
        ));
        assert!(!within_ceilings(
            &ceilings,
            "secret/data/team-a/x",
            &set(&["read", "sudo"])
        ));
        assert!(within_ceilings(&ceilings, "anything/*", &set(&["deny"])));
        assert!(!within_ceilings(
            &ceilings,
            "anything/*",
            &set(&["deny", "read"])
        ));
    }
}
