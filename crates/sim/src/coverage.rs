//! Which fault met which protocol, and how often.

use crate::{
    faults::{Fault, Meets},
    protocol::Protocol,
};
use std::{collections::BTreeMap, fmt};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<(Fault, Protocol), u64>);

impl Coverage {
    pub fn met(&mut self, fault: Fault, protocol: Protocol) {
        *self.0.entry((fault, protocol)).or_default() += 1;
    }

    pub fn count(&self, fault: Fault, protocol: Protocol) -> u64 {
        self.0.get(&(fault, protocol)).copied().unwrap_or(0)
    }

    pub fn merge(&mut self, other: &Self) {
        for (pair, count) in &other.0 {
            *self.0.entry(*pair).or_default() += count;
        }
    }

    /// The pairs that could have met and never did.
    pub fn gaps(&self) -> Vec<(Fault, Protocol)> {
        let all = Fault::ALL.iter().flat_map(|fault| Protocol::ALL.iter().map(|protocol| (*fault, *protocol)));
        all.filter(|(fault, protocol)| can_meet(*fault, *protocol) && self.count(*fault, *protocol) == 0).collect()
    }
}

/// Whether a fault can strike a protocol at all.
fn can_meet(fault: Fault, protocol: Protocol) -> bool {
    match (fault.meets(), protocol) {
        (Meets::Calls, protocol) => protocol == Protocol::EffectCall,
        // What is late or missing is read; what is late or lost is written.
        (Meets::Objects, Protocol::ObjectRead) => fault != Fault::LostObjectReplies,
        (Meets::Objects, Protocol::ObjectWrite) => fault != Fault::MissingObjects,
        (Meets::Objects, _) => false,
        (Meets::Commits, Protocol::EffectCall | Protocol::ObjectRead | Protocol::ObjectWrite) => false,
        // A watch wakes those who look, and what they commit then is their own.
        (Meets::Commits, _) => fault != Fault::SpuriousWakes,
    }
}

/// A row per protocol, a column per fault.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (meets, title) in [(Meets::Commits, "commits"), (Meets::Objects, "objects"), (Meets::Calls, "calls")] {
            let faults: Vec<Fault> = Fault::ALL.iter().copied().filter(|fault| fault.meets() == meets).collect();
            let mut rows = Protocol::ALL.iter().filter(|protocol| faults.iter().any(|it| can_meet(*it, **protocol)));
            for (number, fault) in (1..).zip(&faults) {
                writeln!(f, "{number:>3} {fault}")?;
            }
            write!(f, "{title:<22}")?;
            (1..=faults.len()).try_for_each(|number| write!(f, "{number:>9}"))?;
            writeln!(f)?;
            rows.try_for_each(|protocol| {
                write!(f, "{protocol:<22}")?;
                for fault in &faults {
                    match (can_meet(*fault, *protocol), self.count(*fault, *protocol)) {
                        (false, _) => write!(f, "{:>9}", "-")?,
                        (true, 0) => write!(f, "{:>9}", "GAP")?,
                        (true, count) => write!(f, "{count:>9}")?,
                    }
                }
                writeln!(f)
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_that_never_met_is_a_gap_and_one_that_cannot_meet_is_none() {
        let mut coverage = Coverage::default();
        let pair = (Fault::Crashes, Protocol::CommitTurn);
        assert!(coverage.gaps().contains(&pair));
        coverage.met(pair.0, pair.1);
        assert!(!coverage.gaps().contains(&pair));
        assert!(!coverage.gaps().contains(&(Fault::SlowAdapters, Protocol::CommitTurn)));
        assert!(coverage.to_string().contains("GAP"));
    }
}
