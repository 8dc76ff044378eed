//! Whether a file reveals the machine it was written on: home folders, hosts of package registries.

/// Hosts that a machine may replace by mirrors, so that no file may depend on them.
const REGISTRIES: [&[&str]; 7] = [
    &["index", "crates", "io"],
    &["static", "crates", "io"],
    &["proxy", "golang", "org"],
    &["sum", "golang", "org"],
    &["registry", "npmjs", "org"],
    &["files", "pythonhosted", "org"],
    &["registry-1", "docker", "io"],
];

/// Texts that reveal a machine.
#[derive(Debug)]
pub(crate) struct Traces {
    hosts: Vec<String>,
    folders: Vec<String>,
}

impl Traces {
    /// Finds registries, home folders, and `folders` of this machine.
    pub(crate) fn new(folders: impl IntoIterator<Item = String>) -> Self {
        let homes = ["root", "home", "Users"].map(|name| format!("/{name}/"));
        // A folder as short as `/src` would be found everywhere.
        let folders = folders
            .into_iter()
            .filter(|folder| folder.matches('/').count() > 1);
        Self {
            hosts: REGISTRIES.iter().map(|parts| parts.join(".")).collect(),
            folders: homes.into_iter().chain(folders).collect(),
        }
    }

    /// The lines of `text` that reveal something.
    pub(crate) fn found(&self, path: &str, text: &str) -> Vec<String> {
        let lines = text.lines().enumerate();
        lines
            .filter_map(|(at, line)| {
                self.on(line)
                    .map(|what| format!("{path}:{}: {what}", at + 1))
            })
            .collect()
    }

    fn on(&self, line: &str) -> Option<String> {
        if let Some(host) = self.hosts.iter().find(|host| line.contains(host.as_str())) {
            return Some(format!(
                "names the registry {host}; leave the choice of registry to the machine"
            ));
        }
        let folder = self
            .folders
            .iter()
            .find(|folder| begins_with(line, folder))?;
        Some(format!(
            "names the folder {folder} of one machine; use a relative path"
        ))
    }
}

/// Whether a path in `line` begins with `folder`, instead of having it in the middle.
fn begins_with(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + folder.len()..].chars().next();
        let starts = !before.is_some_and(|c| c.is_alphanumeric() || "-_.}>*".contains(c));
        let goes_on = after.is_some_and(|c| c.is_alphanumeric() || "._/-\"'`".contains(c));
        starts && (goes_on || !folder.ends_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::Traces;

    fn home(name: &str) -> String {
        ["", "home", name, "src"].join("/")
    }

    #[test]
    fn a_home_folder_is_named_with_its_line() {
        let found = Traces::new([]).found("a.md", &format!("one\nsee {} there\n", home("eve")));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("a.md:2: names the folder"),
            "{}",
            found[0]
        );
    }

    #[test]
    fn a_folder_of_this_machine_is_found() {
        let traces = Traces::new(["/build/here".to_owned()]);
        assert_eq!(traces.found("a.rs", "let x = \"/build/here/x\";").len(), 1);
    }

    #[test]
    fn the_same_word_inside_another_path_is_fine() {
        let text = format!("https://example.com{}\n$ROOT{}\n", home("a"), home("b"));
        let found = Traces::new([]).found("a.md", &text);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn the_host_of_a_registry_is_named() {
        let host = ["proxy", "golang", "org"].join(".");
        let found = Traces::new([]).found("go.env", &format!("GOPROXY=https://{host}"));
        assert!(found[0].contains(&host), "{}", found[0]);
    }
}
