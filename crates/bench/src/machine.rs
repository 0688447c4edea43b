//! What this machine is, and what this process has used of it.

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::{fs, time::Duration};

/// The facts that stand beside every figure.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
}

impl Machine {
    pub(crate) fn read() -> Self {
        let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpu_info.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpu: model.unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: kernel.trim().to_owned(),
        }
    }
}

/// What the process has used so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    cpu: Duration,
    written_bytes: u64,
}

impl Used {
    pub(crate) fn now() -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let written = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok());
        Self {
            cpu: Duration::new(u64::try_from(cpu.tv_sec).unwrap_or(0), u32::try_from(cpu.tv_nsec).unwrap_or(0)),
            written_bytes: written.unwrap_or(0),
        }
    }

    pub(crate) fn cpu_us_since(&self, before: Self) -> f64 {
        (self.cpu - before.cpu).as_secs_f64() * 1e6
    }

    pub(crate) fn written_bytes_since(&self, before: Self) -> u64 {
        self.written_bytes - before.written_bytes
    }
}

/// The memory of this process that is in use, after everything that can be given back was.
pub(crate) fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
    1_024 * kib.unwrap_or(0u64)
}
