//! The kinds of faults, and how a seed selects them.
//!
//! Swarm testing: a seed switches each kind of fault on or off, because some bugs hide exactly when everything goes
//! wrong at once.

use mundi_store::testing::Rng;
use std::{collections::BTreeSet, fmt, str::FromStr};

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// A kind of fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

faults! {
    /// Operations of the engine take their time, some longer than a transaction may live.
    Latency = "latency";
    /// A commit is applied, and its author is notified that nothing is known.
    LostReplies = "lost-replies";
    /// A commit is not applied, and its author is notified that nothing is known.
    LostRequests = "lost-requests";
    /// A commit arrives after its author was told that nothing is known, perhaps after its second try.
    LateCommits = "late-commits";
    /// A commit conflicts without a reason that its author could see.
    Conflicts = "conflicts";
    /// A watch completes without a change.
    SpuriousWakes = "spurious-wakes";
    /// A node does not reach the engine for a while.
    Partitions = "partitions";
    /// A node's tasks are dropped where they stand; it comes back with what is durable.
    Crashes = "crashes";
    /// A node is suspended, some for longer than its leases and claims last.
    Pauses = "pauses";
    /// A node's clock is wrong all the time.
    ClockSkew = "clock-skew";
    /// A node's clock is set, forward or back, while it runs.
    ClockJumps = "clock-jumps";
    /// Calls to the outside take long, some longer than their manifest allows.
    SlowAdapters = "slow-adapters";
    /// Calls to the outside fail, some after they have done what they were asked for.
    FailingAdapters = "failing-adapters";
    /// Calls to the outside never end, and so outlive their claim.
    HangingAdapters = "hanging-adapters";
    /// Objects take long to read and to write.
    LateObjects = "late-objects";
    /// Objects are not found for a while although they are there.
    MissingObjects = "missing-objects";
    /// Objects are written, and the writer learns of a failure; or they are refused.
    LostObjectReplies = "lost-object-replies";
    /// Clients send the same thing twice, under the same key, at the same time.
    Duplicates = "duplicates";
    /// One item per turn, two in an inbox, three records per segment.
    TinyLimits = "tiny-limits";
    /// World workers drain and come back while others take over.
    Churn = "churn";
    /// Worlds are forked in mid-traffic, at any height.
    Forks = "forks";
    /// Worlds get other programs in mid-traffic.
    Upgrades = "upgrades";
    /// Worlds are paused, resumed, archived, taken out, deleted, snapshotted, promoted and exported by whoever does not run them.
    Lifecycle = "lifecycle";
    /// Operators move worlds between workers, and an orchestrator places them.
    Moves = "moves";
    /// Operators answer open intents while adapters carry them out.
    Answers = "answers";
    /// Each worker has room for one world that has work, and one of them is lost for good: what it ran must run elsewhere.
    LittleRoom = "little-room";
    /// All adapters are gone from some time on, and come back hours after everything else is over.
    AdaptersAway = "adapters-away";
}

/// How a fault can meet a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meets {
    /// It strikes a commit, or its author.
    Commits,
    Objects,
    Calls,
}

impl Fault {
    pub const fn meets(self) -> Meets {
        match self {
            Self::SlowAdapters | Self::FailingAdapters | Self::HangingAdapters | Self::AdaptersAway => Meets::Calls,
            Self::LateObjects | Self::MissingObjects | Self::LostObjectReplies => Meets::Objects,
            _ => Meets::Commits,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The faults of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults(BTreeSet<Fault>);

impl Faults {
    pub fn none() -> Self {
        Self::default()
    }

    pub fn all() -> Self {
        Self(Fault::ALL.iter().copied().collect())
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.0.contains(&fault)
    }

    #[must_use]
    pub fn without(&self, fault: Fault) -> Self {
        self.iter().filter(|other| *other != fault).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = Fault> + '_ {
        self.0.iter().copied()
    }

    /// About half of these, as a seed has it.
    #[must_use]
    pub fn swarm(&self, seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5afe_5eed);
        Self(self.iter().filter(|_| rng.below(2) == 0).collect())
    }
}

impl FromIterator<Fault> for Faults {
    fn from_iter<I: IntoIterator<Item = Fault>>(faults: I) -> Self {
        Self(faults.into_iter().collect())
    }
}

/// `all`, `none`, or names with commas between them.
impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = |name: &str| {
            let known = || Fault::ALL.iter().map(|fault| fault.as_str()).collect::<Vec<_>>().join(", ");
            let found = Fault::ALL.iter().copied().find(|fault| fault.as_str() == name);
            found.ok_or_else(|| format!("no fault is named `{name}`; there are all, none, {}", known()))
        };
        match text {
            "all" => Ok(Self::all()),
            "none" => Ok(Self::none()),
            names => names.split(',').map(fault).collect(),
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Fault::as_str).collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_and_a_wrong_name_is_told_the_right_ones() {
        for faults in [Faults::all(), Faults::none(), Faults::all().swarm(7)] {
            assert_eq!(faults.to_string().parse(), Ok(faults));
        }
        assert!("earthquakes".parse::<Faults>().unwrap_err().contains("lost-replies"));
    }

    #[test]
    fn seeds_choose_differently_and_each_fault_is_chosen_and_left_out_by_some() {
        let swarms: Vec<Faults> = (0..64).map(|seed| Faults::all().swarm(seed)).collect();
        for fault in Fault::ALL {
            let chosen = swarms.iter().filter(|faults| faults.has(*fault)).count();
            assert!((16..48).contains(&chosen), "{fault} {chosen}");
        }
    }
}
