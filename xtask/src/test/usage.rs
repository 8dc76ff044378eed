//! The CPU time of a test executable and of all that it starts, sampled from /proc.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How often /proc is read: rarely enough to cost little, often enough to see every server.
pub(crate) const SAMPLE: Duration = Duration::from_secs(1);

/// The fields of `/proc/<pid>/stat` that are needed here.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProcessStat {
    pid: u32,
    parent: u32,
    name: String,
    /// User and system time in clock ticks.
    ticks: u64,
}

/// The usage so far.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    processes: BTreeMap<u32, ProcessStat>,
}

impl Usage {
    /// Reads /proc once: `root` and its descendants.
    pub(crate) fn sample(&mut self, root: u32) {
        self.take(root, &processes());
    }

    fn take(&mut self, root: u32, all: &[ProcessStat]) {
        let mut family = BTreeSet::from([root]);
        // Parents have lower ids than their children, except after a rare wrap-around.
        for process in all {
            if family.contains(&process.parent) {
                family.insert(process.pid);
            }
        }
        for process in all.iter().filter(|one| family.contains(&one.pid)) {
            self.processes.insert(process.pid, process.clone());
        }
    }

    /// CPU time.
    pub(crate) fn cpu(&self) -> Duration {
        let ticks: u64 = self.processes.values().map(|one| one.ticks).sum();
        time(ticks)
    }

    /// CPU time by program, the largest first.
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

fn processes() -> Vec<ProcessStat> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return vec![];
    };
    let mut all: Vec<ProcessStat> = entries
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter_map(|line| process_stat(&line))
        .collect();
    all.sort_by_key(|one| one.pid);
    all
}

fn process_stat(line: &str) -> Option<ProcessStat> {
    // The name is in parentheses and may contain any character.
    let (pid, rest) = line.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(ProcessStat {
        pid: pid.parse().ok()?,
        parent: fields.get(1)?.parse().ok()?,
        name: name.to_owned(),
        ticks: number(11)? + number(12)?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Usage, process_stat};

    fn stat_line(pid: u32, parent: u32, name: &str, ticks: u64) -> String {
        format!("{pid} ({name}) S {parent} 1 1 0 -1 4194560 1 0 0 0 {ticks} 2 3 4 20 0 1 0 5 6")
    }

    #[test]
    fn only_descendants_of_the_executable_count() {
        let all = [
            stat_line(10, 1, "suite", 100),
            stat_line(11, 10, "etcd", 50),
            stat_line(12, 11, "odd) name", 1),
            stat_line(13, 1, "etcd", 900),
        ];
        let all: Vec<_> = all.iter().filter_map(|line| process_stat(line)).collect();
        let mut usage = Usage::default();
        usage.take(10, &all);
        assert_eq!(usage.cpu().as_millis(), (100 + 50 + 1 + 3 * 2) * 10);
        assert_eq!(usage.count("etcd"), 1);
    }

    #[test]
    fn a_process_that_ended_still_counts_with_its_last_sample() {
        let mut usage = Usage::default();
        usage.take(10, &[process_stat(&stat_line(10, 1, "suite", 1)).unwrap()]);
        usage.take(10, &[]);
        assert_eq!(usage.cpu().as_millis(), 30);
    }
}
