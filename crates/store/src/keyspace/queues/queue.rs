//! The shared queues by number, the sequence of their items, and the claim on one of them.

use minicbor::{Decode, Encode};
use mundi_model::{ParseIdError, Stamp, WorkerId, hex, parse_hex};
use std::{fmt, str::FromStr};

/// The shared queues. Ordinals are persisted in keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
#[repr(u8)]
pub enum Queue {
    #[n(1)]
    Effects = 1,
    #[n(2)]
    Timers = 2,
    #[n(3)]
    Mailboxes = 3,
    /// Inbox items that no world could take.
    #[n(4)]
    Inboxes = 4,
    /// Dedupe records, in the order in which they end.
    #[n(5)]
    Dedupe = 5,
    /// Effects that wait for their next attempt.
    #[n(6)]
    EffectRetries = 6,
    /// Effects that an adapter works on.
    #[n(7)]
    EffectClaims = 7,
}

impl Queue {
    pub const ALL: [Self; 7] = [
        Self::Effects,
        Self::Timers,
        Self::Mailboxes,
        Self::Inboxes,
        Self::Dedupe,
        Self::EffectRetries,
        Self::EffectClaims,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Effects => "effects",
            Self::Timers => "timers",
            Self::Mailboxes => "mailboxes",
            Self::Inboxes => "inboxes",
            Self::Dedupe => "dedupe",
            Self::EffectRetries => "effect-retries",
            Self::EffectClaims => "effect-claims",
        }
    }

    pub fn from_ordinal(ordinal: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|queue| *queue as u8 == ordinal)
    }
}

/// The place of an item in a queue: the stamp of the transaction that published it, and its index there.
///
/// An item keeps it permanently. It comes from the engine's order of commits, so it never restarts, not even
/// when a queue runs empty.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(transparent)]
pub struct QueueSeq(
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    [u8; 12],
);

impl QueueSeq {
    pub const LEN: usize = 12;

    pub const fn from_bytes(bytes: [u8; 12]) -> Self {
        Self(bytes)
    }

    pub fn new(stamp: Stamp, index: u16) -> Self {
        let mut bytes = [0; Self::LEN];
        bytes[..Stamp::LEN].copy_from_slice(stamp.as_bytes());
        bytes[Stamp::LEN..].copy_from_slice(&index.to_be_bytes());
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 12] {
        &self.0
    }
}

impl fmt::Display for QueueSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "q_{}", hex(&self.0))
    }
}

impl fmt::Debug for QueueSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for QueueSeq {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let bytes = text.strip_prefix("q_").and_then(parse_hex);
        bytes.map(Self).ok_or_else(|| ParseIdError::new("queue sequence", "`q_` and 24 hex digits", text))
    }
}

/// Proof of the right to finish one queued item. The token is new with each claim, so a slow worker whose
/// claim was reaped cannot acknowledge what another one has claimed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Claim {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub token: [u8; 16],
    #[n(1)]
    pub worker: WorkerId,
    #[n(2)]
    pub deadline_ns: u64,
    /// The first claim of an item is attempt 1.
    #[n(3)]
    pub attempt: u32,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    pub(crate) fn queue_seqs() -> impl Strategy<Value = QueueSeq> {
        any::<[u8; 12]>().prop_map(QueueSeq::from_bytes)
    }

    pub(crate) fn claims() -> impl Strategy<Value = Claim> {
        (any::<[u8; 16]>(), laws::workers(), any::<u64>(), any::<u32>())
            .prop_map(|(token, worker, deadline_ns, attempt)| Claim { token, worker, deadline_ns, attempt })
    }

    #[test]
    fn queues_are_found_by_their_ordinal() {
        assert_eq!(Queue::ALL.map(|queue| queue as u8), [1, 2, 3, 4, 5, 6, 7]);
        assert!(Queue::ALL.into_iter().all(|queue| Queue::from_ordinal(queue as u8) == Some(queue)));
        assert_eq!(Queue::from_ordinal(0), None);
    }
}
