//! The programs that tests and worlds need: found, or built from source.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

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

/// How many tools are built at once. Linking and downloading leave cores idle.
const BUILDS: usize = 2;

/// Builds the missing ones of `tools`. With Go's cache a second try continues the first.
pub(crate) fn ensure(tools: &[Tool], progress: &Progress) -> Result<(), Error> {
    let missing = tools.iter().copied().filter(|tool| find(*tool).is_err());
    let missing = by_folder(missing);
    let next = AtomicUsize::new(0);
    let begun = AtomicUsize::new(0);
    let all = missing.iter().map(Vec::len).sum::<usize>();
    let build_next = || -> Result<(), Error> {
        while let Some(of_folder) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            for tool in of_folder {
                let at = begun.fetch_add(1, Ordering::Relaxed) + 1;
                let (name, version) = (tool.name(), tool.version());
                let step = format!("building {name} {version} ({at} of {all})");
                progress.step(&step);
                build(*tool, &|what| progress.tick(&format!("{step}: {what}"))).doing(name)?;
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let builders: Vec<_> = (0..BUILDS).map(|_| scope.spawn(build_next)).collect();
        let ended = builders.into_iter().map(|builder| {
            let panicked = || Err(Error::new("building a tool panicked"));
            builder.join().unwrap_or_else(|_| panicked())
        });
        ended.collect()
    })
}

/// Each of `tools` once, by the go.mod of its folder. Those of one folder are built one after the other:
/// two builds at once would compile each package twice.
fn by_folder(tools: impl Iterator<Item = Tool>) -> Vec<Vec<Tool>> {
    let mut folders: Vec<Vec<Tool>> = Vec::new();
    for tool in tools {
        let is_same = |others: &&mut Vec<Tool>| others[0].shares_packages(tool);
        match folders.iter_mut().find(is_same) {
            Some(others) if others.contains(&tool) => {}
            Some(others) => others.push(tool),
            None => folders.push(vec![tool]),
        }
    }
    folders
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

    use super::{by_folder, chosen, listing};

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

    #[test]
    fn tools_of_one_folder_come_together_and_once() {
        let tools = [Tool::Etcd, Tool::Vault, Tool::Kubectl, Tool::Etcd];
        let expected = [vec![Tool::Etcd, Tool::Kubectl], vec![Tool::Vault]];
        assert_eq!(by_folder(tools.into_iter()), expected);
    }
}
