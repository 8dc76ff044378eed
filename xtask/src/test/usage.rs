//! What a test executable and all that it starts use of the machine, sampled from /proc.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How often /proc is read: seldom enough to cost nothing, often enough to see every server.
pub(crate) const SAMPLE: Duration = Duration::from_secs(1);

/// One line of `/proc/<pid>/stat`, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    name: String,
    /// User and system time in clock ticks.
    ticks: u64,
}

/// What was used so far.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    processes: BTreeMap<u32, Process>,
}

impl Usage {
    /// Reads /proc once: `root` and all below it.
    pub(crate) fn sample(&mut self, root: u32) {
        self.take(root, &processes());
    }

    fn take(&mut self, root: u32, all: &[Process]) {
        let mut family = BTreeSet::from([root]);
        // Parents have lower numbers than their children, but for the rare wrap-around.
        for process in all {
            if family.contains(&process.parent) {
                family.insert(process.pid);
            }
        }
        for process in all.iter().filter(|one| family.contains(&one.pid)) {
            self.processes.insert(process.pid, process.clone());
        }
    }

    /// Processor time.
    pub(crate) fn cpu(&self) -> Duration {
        let ticks: u64 = self.processes.values().map(|one| one.ticks).sum();
        time(ticks)
    }

    /// Processor time by program, the greediest first.
    pub(crate) fn by_program(&self) -> Vec<(&str, Duration)> {
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for one in self.processes.values() {
            *by_name.entry(&one.name).or_default() += one.ticks;
        }
        let mut programs: Vec<_> = by_name
            .into_iter()
            .map(|(name, ticks)| (name, time(ticks)))
            .collect();
        programs.sort_by_key(|(_, time)| Reverse(*time));
        programs
    }

    /// How many programs of this name ran.
    pub(crate) fn count(&self, name: &str) -> usize {
        let named = self.processes.values().filter(|one| one.name == name);
        named.count()
    }
}

fn time(ticks: u64) -> Duration {
    // USER_HZ is 100 on every platform that Linux supports today.
    Duration::from_millis(ticks * 10)
}

fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return vec![];
    };
    let mut all: Vec<Process> = entries
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter_map(|line| process(&line))
        .collect();
    all.sort_by_key(|one| one.pid);
    all
}

fn process(line: &str) -> Option<Process> {
    // The name stands in parentheses and may hold anything.
    let (pid, rest) = line.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process {
        pid: pid.parse().ok()?,
        parent: fields.get(1)?.parse().ok()?,
        name: name.to_owned(),
        ticks: number(11)? + number(12)?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Usage, process};

    fn line(pid: u32, parent: u32, name: &str, ticks: u64) -> String {
        format!("{pid} ({name}) S {parent} 1 1 0 -1 4194560 1 0 0 0 {ticks} 2 3 4 20 0 1 0 5 6")
    }

    #[test]
    fn what_an_executable_started_counts_and_nothing_else() {
        let all = [
            line(10, 1, "suite", 100),
            line(11, 10, "etcd", 50),
            line(12, 11, "odd) name", 1),
            line(13, 1, "etcd", 900),
        ];
        let all: Vec<_> = all.iter().filter_map(|line| process(line)).collect();
        let mut usage = Usage::default();
        usage.take(10, &all);
        assert_eq!(usage.cpu().as_millis(), (100 + 50 + 1 + 3 * 2) * 10);
        assert_eq!(usage.count("etcd"), 1);
    }

    #[test]
    fn a_process_that_ended_still_counts_with_its_last_sample() {
        let mut usage = Usage::default();
        usage.take(10, &[process(&line(10, 1, "suite", 1)).unwrap()]);
        usage.take(10, &[]);
        assert_eq!(usage.cpu().as_millis(), 30);
    }
}
