//! The machine of a measurement.

use testkit::tools::Tool;

/// One line: processor, cores, memory, kernel, and the servers of the measurement.
pub(crate) fn description(servers: &[Tool]) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "processor".into());
    let memory = field("/proc/meminfo", "MemTotal").and_then(|text| mebibytes(&text));
    let memory = memory.map_or_else(String::new, |size| {
        format!(", {:.0} GiB memory", f64::from(size) / 1024.0)
    });
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.split('-').next().unwrap_or_default().trim();
    let servers: Vec<String> = servers.iter().map(|server| named(*server)).collect();
    format!(
        "{cores} cores ({processor}){memory}, Linux {kernel}; on the same cores {}",
        servers.join(", "),
    )
}

fn named(server: Tool) -> String {
    let how = if server == Tool::Etcd {
        " (no fsync)"
    } else {
        ""
    };
    format!("{} {}{how}", server.name(), server.version())
}

/// The load average of the last minute.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}

/// Resident memory of a process in MiB, now.
pub(crate) fn resident(pid: u32) -> Option<f64> {
    memory(pid, "VmRSS")
}

/// The most resident memory of a process since its start, in MiB.
pub(crate) fn peak(pid: u32) -> Option<f64> {
    memory(pid, "VmHWM")
}

fn memory(pid: u32, name: &str) -> Option<f64> {
    let kibibytes = field(&format!("/proc/{pid}/status"), name)?;
    let number: u32 = kibibytes.split_whitespace().next()?.parse().ok()?;
    Some(f64::from(number) / 1024.0)
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    value(&text, name)
}

/// The value in the first line `name : value`.
fn value(text: &str, name: &str) -> Option<String> {
    let of = |line: &str| {
        let (field, value) = line.split_once(':')?;
        (field.trim() == name).then(|| value.trim().to_owned())
    };
    text.lines().find_map(of)
}

fn mebibytes(kibibytes: &str) -> Option<u32> {
    let number: u64 = kibibytes.split_whitespace().next()?.parse().ok()?;
    u32::try_from(number / 1024).ok()
}

#[cfg(test)]
mod tests {
    use super::{peak, resident, value};

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "model\t\t: 85\nmodel name\t: Fast: 2 GHz\n";
        assert_eq!(value(text, "model name").unwrap(), "Fast: 2 GHz");
        assert_eq!(value(text, "name"), None);
    }

    #[test]
    fn this_program_uses_memory() {
        let pid = std::process::id();
        assert!(resident(pid).unwrap() > 0.5);
        assert!(peak(pid).unwrap() > 0.5);
    }
}
