//! Kill points that a story chooses while the operator runs.

use std::{fs, io::ErrorKind, path::PathBuf};

use anyhow::{Context, Result};

/// What the operator logs before it aborts: `kill point <point>#<n>`.
const ABORTED: &str = "kill point ";

/// The file of kill points that a running operator reads at each of its points.
///
/// A point is `<name>` for each execution, or `<name>#<n>` for the n-th since the start of the process.
/// A pass that waits logs `kill point <name> held`, and has no deadline. Points of synchronous code
/// never wait. Only a chaos build reads the file.
#[derive(Debug)]
pub struct KillFile {
    path: PathBuf,
    log: PathBuf,
}

impl KillFile {
    pub(crate) fn new(path: PathBuf, log: PathBuf) -> Self {
        Self { path, log }
    }

    /// The file, which may not exist yet.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// The operator aborts at `point`, once: a restart by [`Operator`](crate::Operator) removes it.
    pub fn abort(&self, point: &str) -> Result<()> {
        self.choose(point, "abort")
    }

    /// The operator waits at `point` until [`KillFile::release`].
    pub fn pause(&self, point: &str) -> Result<()> {
        self.choose(point, "hold")
    }

    /// The operator goes on at `point`, as named in [`KillFile::pause`].
    pub fn release(&self, point: &str) -> Result<()> {
        let lines = self.lines()?;
        self.write(&without(&lines, point))
    }

    /// The points at which the operator aborted, as `<name>#<n>`, over all its restarts.
    pub fn fired(&self) -> Result<Vec<String>> {
        let log = match fs::read(&self.log) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            log => log.with_context(|| format!("cannot read {}", self.log.display()))?,
        };
        Ok(fired(&String::from_utf8_lossy(&log)))
    }

    /// Removes the choice of the last abort, as a supervisor does before it starts the operator again.
    pub(crate) fn remove_fired(&self) -> Result<()> {
        let Some(last) = self.fired()?.pop() else {
            return Ok(());
        };
        let lines = self.lines()?;
        self.write(&without_fired(&lines, &last))
    }

    /// Whether the operator may abort.
    pub(crate) fn has_abort(&self) -> Result<bool> {
        Ok(self.lines()?.iter().any(|line| line.ends_with(" abort")))
    }

    fn choose(&self, point: &str, action: &str) -> Result<()> {
        let lines = self.lines()?;
        let mut lines = without(&lines, point);
        lines.push(format!("{point} {action}"));
        self.write(&lines)
    }

    fn lines(&self) -> Result<Vec<String>> {
        match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            text => {
                let text = text.with_context(|| format!("cannot read {}", self.path.display()))?;
                Ok(text.lines().map(str::to_owned).collect())
            }
        }
    }

    /// Replaces the file as a whole, because the operator may read it at any time.
    fn write(&self, lines: &[String]) -> Result<()> {
        let new = self.path.with_extension("new");
        let append = |text: String, line: &String| text + line + "\n";
        let text = lines.iter().fold(String::new(), append);
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &self.path))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// The lines for other points.
fn without(lines: &[String], point: &str) -> Vec<String> {
    let others = lines.iter().filter(|line| {
        let chosen = line.split_once(' ').map_or("", |(chosen, _)| chosen);
        chosen != point
    });
    others.cloned().collect()
}

/// The lines without the first one that made the operator abort at `fired`, which is `<name>#<n>`.
fn without_fired(lines: &[String], fired: &str) -> Vec<String> {
    let name = fired.rsplit_once('#').map_or(fired, |(name, _)| name);
    let chosen = [format!("{fired} abort"), format!("{name} abort")];
    let mut lines = lines.to_vec();
    if let Some(first) = lines.iter().position(|line| chosen.contains(line)) {
        lines.remove(first);
    }
    lines
}

/// The points of the aborts in a log.
fn fired(log: &str) -> Vec<String> {
    let points = log.lines().filter_map(|line| line.strip_prefix(ABORTED));
    let aborted = points.filter(|point| point.contains('#') && !point.contains(' '));
    aborted.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (tempfile::TempDir, KillFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = KillFile::new(folder.path().join("kill"), folder.path().join("log"));
        (folder, file)
    }

    #[test]
    fn a_point_has_one_choice_until_it_is_released() {
        let (_folder, file) = file();
        file.release("put").unwrap();
        file.pause("put").unwrap();
        file.pause("put#2").unwrap();
        assert!(!file.has_abort().unwrap());
        file.abort("put").unwrap();
        assert_eq!(file.lines().unwrap(), ["put#2 hold", "put abort"]);
        assert!(file.has_abort().unwrap());
        file.release("put#2").unwrap();
        assert_eq!(file.lines().unwrap(), ["put abort"]);
    }

    #[test]
    fn only_the_choice_that_fired_is_removed() {
        let (_folder, file) = file();
        for point in ["put#3", "put", "get", "put#9"] {
            file.abort(point).unwrap();
        }
        file.remove_fired().unwrap();
        assert_eq!(file.lines().unwrap().len(), 4, "nothing has fired");
        let log = "kill point get held\nkill point put#3\nother\n";
        fs::write(&file.log, log).unwrap();
        file.remove_fired().unwrap();
        assert_eq!(
            file.lines().unwrap(),
            ["put abort", "get abort", "put#9 abort"]
        );
        fs::write(&file.log, format!("{log}kill point put#1\n")).unwrap();
        file.remove_fired().unwrap();
        assert_eq!(file.lines().unwrap(), ["get abort", "put#9 abort"]);
        assert_eq!(file.fired().unwrap(), ["put#3", "put#1"]);
    }
}
