//! Reserved loopback ports.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
};

use anyhow::{Context, Result, bail};

use crate::scratch::ROOT;

/// Below the kernel's range for outgoing connections, so that the port of a stopped server stays free
/// until its restart.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// A port on 127.0.0.1. While this value exists, no other test run uses the port, whether something
/// listens there or not.
///
/// # When not to use it
/// For a listener in this process: bind port 0 and read the address.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// A free port.
    pub fn free() -> Result<Self> {
        let folder = ROOT.join("ports");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for _ in 0..1000 {
            let number = fastrand::u16(RANGE);
            let lock = File::create(folder.join(number.to_string()))?;
            if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self {
                    number,
                    _lock: lock,
                });
            }
        }
        bail!("no free port in {RANGE:?} on 127.0.0.1; stop what listens there")
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// `127.0.0.1:<number>`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.number)
    }
}
