//! The figures of a run under load, with stable names.

use crate::machine::Machine;
use serde::Serialize;
use std::fmt;

/// The results of one run, or the median of several.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) events_per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) p99_ms: f64,
    /// User and system time of the server.
    pub(crate) cpu_us_per_call: f64,
    pub(crate) written_bytes_per_call: f64,
    pub(crate) rss_mib: f64,
    /// The rate of appending as many bytes per event to one synced file, in the same run.
    pub(crate) raw_events_per_s: f64,
    /// Of the raw limit.
    pub(crate) efficiency: f64,
}

type Quantity = (&'static str, fn(&mut Figures) -> &mut f64);

pub(crate) const QUANTITIES: [Quantity; 9] = [
    ("events_per_s", |figures| &mut figures.events_per_s),
    ("p50_ms", |figures| &mut figures.p50_ms),
    ("p95_ms", |figures| &mut figures.p95_ms),
    ("p99_ms", |figures| &mut figures.p99_ms),
    ("cpu_us_per_call", |figures| &mut figures.cpu_us_per_call),
    ("written_bytes_per_call", |figures| &mut figures.written_bytes_per_call),
    ("rss_mib", |figures| &mut figures.rss_mib),
    ("raw_events_per_s", |figures| &mut figures.raw_events_per_s),
    ("efficiency", |figures| &mut figures.efficiency),
];

#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) workload: &'static str,
    /// The server that was measured.
    pub(crate) of: String,
    pub(crate) clients: usize,
    pub(crate) worlds: usize,
    pub(crate) batch: usize,
    pub(crate) seconds: u64,
    /// The median of all runs, quantity by quantity.
    #[serde(flatten)]
    pub(crate) median: Figures,
    pub(crate) low: Figures,
    pub(crate) high: Figures,
    pub(crate) runs: Vec<Figures>,
    pub(crate) machine: Machine,
}

impl Measured {
    pub(crate) fn title(&self) -> String {
        let Self { workload, clients, batch, .. } = self;
        let together = if *batch > 1 { format!(", {batch} together") } else { String::new() };
        format!("{workload}, {clients} clients{together}")
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, worlds, seconds, runs, machine, .. } = self;
        writeln!(f, "{machine:?}")?;
        writeln!(f, "{of}: {}, {worlds} worlds, {} runs of {seconds} s", self.title(), runs.len())?;
        for (name, quantity) in QUANTITIES {
            let [median, low, high] = [self.median, self.low, self.high].map(|mut figures| *quantity(&mut figures));
            writeln!(f, "  {name:<24} {median:>12.2}   ({low:.2} … {high:.2})")?;
        }
        Ok(())
    }
}

/// The lowest, the median and the highest of every quantity.
pub(super) fn spread(runs: &[Figures]) -> [Figures; 3] {
    let mut spread = [Figures::default(); 3];
    for (_, quantity) in QUANTITIES {
        let mut values: Vec<f64> = runs.iter().map(|run| *quantity(&mut run.clone())).collect();
        values.sort_by(f64::total_cmp);
        let places = [0, values.len() / 2, values.len().saturating_sub(1)];
        for (figures, place) in spread.iter_mut().zip(places) {
            *quantity(figures) = values.get(place).copied().unwrap_or_default();
        }
    }
    spread
}
