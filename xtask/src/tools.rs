//! The programs that tests and worlds need: found, or built from source.

use testkit::tools::{Tool, build, find};

use crate::progress::Progress;
use crate::table::table;
use crate::verdict::{Error, Verdict, While};

/// Builds the missing ones among `names` (all if empty), or with `list` only lists them.
pub(crate) fn tools(names: &[String], list: bool) -> Result<Verdict, Error> {
    let chosen = chosen(names)?;
    if list {
        println!("{}", listing(&chosen));
        return Ok(Verdict::Holds);
    }
    ensure(&chosen, &Progress::new())?;
    println!("{}", listing(&chosen));
    Ok(Verdict::Holds)
}

fn chosen(names: &[String]) -> Result<Vec<Tool>, Error> {
    if names.is_empty() {
        return Ok(Tool::ALL.to_vec());
    }
    names
        .iter()
        .map(|name| name.parse().map_err(|error| Error::new(format!("{error}"))))
        .collect()
}

/// Builds the missing ones of `tools`. With Go's cache a second try continues the first.
pub(crate) fn ensure(tools: &[Tool], progress: &Progress) -> Result<(), Error> {
    let mut missing: Vec<Tool> = Vec::new();
    for tool in tools {
        // Tiers share tools; each is built once.
        if !missing.contains(tool) && find(*tool).is_err() {
            missing.push(*tool);
        }
    }
    for (at, tool) in missing.iter().enumerate() {
        let step = format!(
            "building {} {} ({} of {})",
            tool.name(),
            tool.version(),
            at + 1,
            missing.len()
        );
        progress.step(&step);
        build(*tool, &|what| progress.tick(&format!("{step}: {what}"))).doing(tool.name())?;
    }
    Ok(())
}

fn listing(tools: &[Tool]) -> String {
    let rows = tools.iter().map(|tool| {
        let (place, state) = match find(*tool) {
            Ok(path) if path == tool.cached() => (path, "built"),
            Ok(path) => (path, "given by KUBEBUILDER_ASSETS"),
            Err(_) => (tool.cached(), "missing"),
        };
        [
            tool.name().to_owned(),
            tool.version().to_owned(),
            place.display().to_string(),
            state.to_owned(),
        ]
    });
    table(["NAME", "VERSION", "WHERE", "STATE"], rows.collect())
}

#[cfg(test)]
mod tests {
    use testkit::tools::Tool;

    use super::{chosen, listing};

    #[test]
    fn no_name_means_every_tool() {
        assert_eq!(chosen(&[]).unwrap(), Tool::ALL);
    }

    #[test]
    fn an_unknown_tool_is_answered_with_the_tools() {
        let error = chosen(&["kubelet".into()]).unwrap_err().to_string();
        assert!(
            error.contains("kubelet") && error.contains("kube-apiserver"),
            "{error}"
        );
    }

    #[test]
    fn every_tool_has_a_line_with_its_version() {
        let text = listing(&Tool::ALL);
        assert_eq!(text.lines().count(), Tool::ALL.len() + 1);
        assert!(
            text.lines()
                .any(|line| line.starts_with("etcd ") && line.contains(Tool::Etcd.version())),
            "{text}"
        );
    }
}
