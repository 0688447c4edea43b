//! Admission: whether the API accepts new work (R-WORKER-8). It refuses early, before a body is read or a key is accessed.
//!
//! Two bounds. A process that has more in memory than it may takes no new work. A world whose inbox is too old takes no more events
//! until it has caught up: only its own senders are refused, so one hot world does not shut the others out. How old the inbox of a world is
//! that this process holds, its worker knows; of others the engine is asked, beside the requests and now and then only.

use super::{Node, Universe};
use mundi_model::{UniverseId, WorldId};
use mundi_runtime::{Plane, metrics::Metric};
use parking_lot::Mutex;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// The bounds; without one, nothing is refused for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdmissionPolicy {
    /// How long the oldest item of an inbox may have waited.
    pub inbox_age_max: Option<Duration>,
    /// Memory of the process.
    pub memory_bytes_max: Option<u64>,
}

/// Why work is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overload {
    InboxAge { age: Duration, max: Duration },
    Memory { bytes: u64, max: u64 },
}

/// How often the engine is asked for the age of an inbox to which something is sent.
const AGE_SAMPLE_EVERY: Duration = Duration::from_secs(5);

/// Inboxes that are remembered: more worlds than a process sends to within a few seconds.
const AGES_MAX: usize = 65_536;

/// How often the kernel is asked for the memory of the process.
const MEMORY_SAMPLE_EVERY: Duration = Duration::from_millis(250);

#[derive(Default)]
pub(super) struct Admission {
    ages: Mutex<BTreeMap<(UniverseId, WorldId), AgeSample>>,
    memory: Mutex<Option<(Instant, u64)>>,
}

#[derive(Debug, Clone, Copy)]
struct AgeSample {
    asked_at: Instant,
    age_ns: u64,
}

impl Admission {
    /// The known age of an inbox, and whether it is time to read it again.
    fn age(&self, of: (UniverseId, WorldId), now: Instant) -> (u64, bool) {
        let mut ages = self.ages.lock();
        if let Some(sample) = ages.get_mut(&of) {
            let is_old = now.duration_since(sample.asked_at) >= AGE_SAMPLE_EVERY;
            if is_old {
                sample.asked_at = now;
            }
            return (sample.age_ns, is_old);
        }
        if ages.len() >= AGES_MAX {
            ages.retain(|_, sample| now.duration_since(sample.asked_at) < AGE_SAMPLE_EVERY);
        }
        if ages.len() >= AGES_MAX {
            return (0, false);
        }
        ages.insert(of, AgeSample { asked_at: now, age_ns: 0 });
        (0, true)
    }

    fn learn(&self, of: (UniverseId, WorldId), age_ns: u64) {
        if let Some(sample) = self.ages.lock().get_mut(&of) {
            sample.age_ns = age_ns;
        }
    }

    /// The memory of the process, as it was a moment ago; `None` where the system does not say.
    fn memory_bytes(&self, now: Instant) -> Option<u64> {
        let mut memory = self.memory.lock();
        if let Some((asked_at, bytes)) = *memory
            && now.duration_since(asked_at) < MEMORY_SAMPLE_EVERY
        {
            return Some(bytes);
        }
        let bytes = resident_bytes()?;
        *memory = Some((now, bytes));
        Some(bytes)
    }
}

impl Node {
    /// Whether the process takes new work.
    pub(crate) fn admit(&self) -> Result<(), Overload> {
        let Some(max) = self.config().admission.memory_bytes_max else { return Ok(()) };
        match self.note_memory() {
            Some(bytes) if bytes > max => {
                self.metrics().add(Metric::RefusedMemory, 1);
                Err(Overload::Memory { bytes, max })
            }
            _ => Ok(()),
        }
    }

    /// Brings the metric of memory up to date.
    pub(crate) fn note_memory(&self) -> Option<u64> {
        let bytes = self.0.admission.memory_bytes(Instant::now())?;
        self.metrics().set(Metric::MemoryBytes, bytes);
        Some(bytes)
    }

    /// Whether a world takes more events.
    pub(crate) fn admit_to(&self, universe: &Universe, world: WorldId) -> Result<(), Overload> {
        let Some(max) = self.config().admission.inbox_age_max else { return Ok(()) };
        let age = Duration::from_nanos(universe.inbox_age_ns(world).unwrap_or_else(|| self.sampled(universe, world)));
        if age <= max {
            return Ok(());
        }
        self.metrics().add(Metric::RefusedInboxAge, 1);
        Err(Overload::InboxAge { age, max })
    }

    /// The age of an inbox of a world that this process does not hold, as it was when the engine was asked last.
    fn sampled(&self, universe: &Universe, world: WorldId) -> u64 {
        let of = (universe.id(), world);
        let (age_ns, is_due) = self.0.admission.age(of, Instant::now());
        if is_due {
            let (node, ops) = (self.clone(), universe.ops().clone());
            self.plane().spawner().spawn(Box::pin(async move {
                match ops.inbox_age_ns(world).await {
                    Ok(age_ns) => node.0.admission.learn(of, age_ns),
                    Err(error) => {
                        tracing::debug!(%error, %world, "the age of an inbox could not be read");
                        node.0.admission.learn(of, 0);
                    }
                }
            }));
        }
        age_ns
    }
}

/// The resident memory, as Linux counts it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    kib_of(&status, "VmRSS:").map(|kib| kib.saturating_mul(1_024))
}

/// The memory that this process may use: the limit of its control group, or all of the machine.
pub fn memory_limit_bytes() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.and_then(|text| kib_of(&text, "MemTotal:")).map(|kib| kib.saturating_mul(1_024));
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(group).min()
}

fn kib_of(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(n: u8) -> (UniverseId, WorldId) {
        (UniverseId::from_bytes([1; 16]), WorldId::from_bytes([n; 16]))
    }

    #[test]
    fn the_engine_is_asked_once_in_a_while_for_each_inbox() {
        let (admission, begun) = (Admission::default(), Instant::now());
        assert_eq!(admission.age(of(1), begun), (0, true));
        assert_eq!(admission.age(of(1), begun), (0, false), "someone asks already");
        assert_eq!(admission.age(of(2), begun), (0, true), "another inbox is another question");
        admission.learn(of(1), 7);
        assert_eq!(admission.age(of(1), begun + AGE_SAMPLE_EVERY / 2), (7, false));
        assert_eq!(admission.age(of(1), begun + AGE_SAMPLE_EVERY), (7, true));
        assert_eq!(admission.age(of(1), begun + AGE_SAMPLE_EVERY), (7, false));
    }

    #[test]
    fn memory_is_known_where_the_system_says() {
        assert_eq!(kib_of("VmPeak:\t  9 kB\nVmRSS:\t   12 kB\n", "VmRSS:"), Some(12));
        assert_eq!(kib_of("nothing", "VmRSS:"), None);
        if cfg!(target_os = "linux") {
            assert!(resident_bytes().unwrap() > 1 << 20);
            assert!(memory_limit_bytes().unwrap() > resident_bytes().unwrap());
        }
    }
}
