//! The machine, and the resources that this process has used.

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::{fs, time::Duration};

/// The facts that stand beside every figure.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
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

/// The resources that a process has used so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    cpu: Duration,
    written_bytes: u64,
}

impl Used {
    pub(crate) fn now() -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            cpu: Duration::new(u64::try_from(cpu.tv_sec).unwrap_or(0), u32::try_from(cpu.tv_nsec).unwrap_or(0)),
            written_bytes: written_bytes("self"),
        }
    }

    /// Of another process: user and system time, in hundredths of a second.
    pub(crate) fn of(pid: u32) -> Self {
        Self::by_times(pid, 2)
    }

    /// The same, with what its children used that have ended.
    pub(crate) fn with_children(pid: u32) -> Self {
        Self::by_times(pid, 4)
    }

    fn by_times(pid: u32, times: usize) -> Self {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name in parentheses may hold spaces; after it, the twelfth and thirteenth field are the times of the process, and the
        // next two those of its children.
        let after_name = stat.rsplit_once(')').map_or("", |it| it.1);
        let fields = after_name.split_whitespace().skip(11).take(times);
        let ticks: u64 = fields.filter_map(|it| it.parse::<u64>().ok()).sum();
        Self { cpu: Duration::from_millis(10 * ticks), written_bytes: written_bytes(&pid.to_string()) }
    }

    pub(crate) fn cpu_us_since(&self, before: Self) -> f64 {
        self.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6
    }

    pub(crate) fn written_bytes_since(&self, before: Self) -> u64 {
        self.written_bytes.saturating_sub(before.written_bytes)
    }
}

/// Of several processes together.
impl std::iter::Sum for Used {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, used| Self {
            cpu: sum.cpu + used.cpu,
            written_bytes: sum.written_bytes + used.written_bytes,
        })
    }
}

/// The parent of a process; `None` if there is no such process.
pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The children of a process that run now.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    pids.filter(|child| parent_of(*child) == Some(pid)).collect()
}

fn written_bytes(process: &str) -> u64 {
    let io = fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok()).unwrap_or(0)
}

/// The memory of this process that is in use, after everything that can be given back was.
pub(crate) fn resident_bytes() -> u64 {
    resident_bytes_of("self")
}

pub(crate) fn resident_bytes_of(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
    1_024 * kib.unwrap_or(0u64)
}

/// While it lives, this thread waits for a processor to be free, or for its turn, where it would else interrupt who has one
/// whenever it is woken. What it starts does not inherit that.
pub(crate) struct Polite;

impl Polite {
    pub(crate) fn begin() -> Self {
        Self::set(true);
        Self
    }

    #[cfg(target_os = "linux")]
    #[expect(unsafe_code, reason = "there is no safe call for it")]
    fn set(polite: bool) {
        let policy = if polite { libc::SCHED_BATCH } else { libc::SCHED_OTHER } | libc::SCHED_RESET_ON_FORK;
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: the parameters live as long as the call, which reads them and concerns this thread only.
        let _as_before = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    }

    #[cfg(not(target_os = "linux"))]
    fn set(_: bool) {}
}

impl Drop for Polite {
    fn drop(&mut self) {
        Self::set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_and_what_it_used_is_counted_when_it_has_ended() {
        let spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo; read line";
        let mut command = std::process::Command::new("sh");
        let piped = std::process::Stdio::piped;
        let mut child = command.args(["-c", spin]).stdin(piped()).stdout(piped()).spawn().unwrap();
        let mut said = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        let this = std::process::id();
        assert_eq!(parent_of(child.id()), Some(this));
        assert!(children_of(this).contains(&child.id()));
        let used = Used::of(child.id()).cpu;
        assert!(!used.is_zero());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!children_of(this).contains(&child.id()));
        let nothing = Used::default();
        assert!(Used::with_children(this).cpu_us_since(nothing) >= used.as_secs_f64() * 1e6);
    }
}
