//! How two policies differ, for people.

use std::collections::BTreeSet;

use super::Policy;

/// What `after` lost (`-`) and gained (`+`) against `before`, path by path; no line if they are
/// equal, and at most `max_lines`, the last one counting those left out.
pub fn diff(before: &Policy, after: &Policy, max_lines: usize) -> String {
    let mut lines = Vec::new();
    if before.name != after.name {
        let named = |sign, policy: &Policy| {
            let name = policy.name.as_ref()?;
            Some(format!("{sign} name = {name:?}"))
        };
        lines.extend(named('-', before));
        lines.extend(named('+', after));
    }
    let paths: BTreeSet<&String> = before.paths.keys().chain(after.paths.keys()).collect();
    for path in paths {
        let (old, new) = (attributes(before, path), attributes(after, path));
        let lost = old.iter().filter(|line| !new.contains(line));
        let gained = new.iter().filter(|line| !old.contains(line));
        lines.extend(lost.map(|line| format!("- {path}: {line}")));
        lines.extend(gained.map(|line| format!("+ {path}: {line}")));
    }
    if lines.len() > max_lines {
        let kept = max_lines.saturating_sub(1);
        let left_out = lines.len() - kept;
        lines.truncate(kept);
        lines.push(format!("… and {left_out} more"));
    }
    lines.join("\n")
}

/// The attributes of a path: one a line, or one a block where the path has several.
fn attributes(policy: &Policy, path: &str) -> Vec<String> {
    match policy.paths.get(path).map(Vec::as_slice) {
        None => Vec::new(),
        Some([block]) => block.lines(),
        Some(blocks) => blocks
            .iter()
            .map(|block| format!("{{ {} }}", block.lines().join(", ")))
            .collect(),
    }
}
