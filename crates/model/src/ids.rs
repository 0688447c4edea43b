//! Ids as types that cannot be mixed up.
//!
//! The field is private and there is no `Default` and no `From<u64>`: an id comes from bytes that
//! someone owned, or from a text parsed once at the edge.

use crate::text::{
    BASE32_128_LEN, ParseIdError, base32_128, cbor_as_bytes, hex, parse_base32_128, parse_hex, serde_as_text,
};
use std::{fmt, num::NonZeroU64, str::FromStr};

/// A 128-bit id: 16 bytes inside, `prefix_` and 26 base-32 digits outside.
macro_rules! id128 {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            pub const LEN: usize = 16;

            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), base32_128(u128::from_be_bytes(self.0)))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                text.strip_prefix(concat!($prefix, "_"))
                    .and_then(parse_base32_128)
                    .map(|number| Self(number.to_be_bytes()))
                    .ok_or_else(|| ParseIdError::new($what, concat!("`", $prefix, "_` and 26 base-32 digits"), text))
            }
        }

        serde_as_text!($name);
        cbor_as_bytes!($name, 16);
    };
}
pub(crate) use id128;

id128!(
    /// The isolation boundary: tenants, content store, queues. Every key starts with one.
    UniverseId, "u", "universe id"
);
id128!(
    /// One durable program instance.
    WorldId, "w", "world id"
);
const _: () = assert!(BASE32_128_LEN == 26);

/// One worker process. It fits the signed 64-bit field of a mailbox frame, and is never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, minicbor::Encode, minicbor::Decode)]
#[cbor(transparent)]
pub struct WorkerId(#[n(0)] NonZeroU64);

impl WorkerId {
    /// `None` for zero and for what a signed 64-bit field cannot hold.
    pub const fn new(number: u64) -> Option<Self> {
        if number > i64::MAX as u64 {
            return None;
        }
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The id under which one operation of an operator holds a lease. Processes draw theirs below it: it is never that of a worker.
    pub fn of_operation(random: [u8; 8]) -> Self {
        Self(NonZeroU64::MIN | (u64::from_be_bytes(random) >> 2) | 1 << 62)
    }

    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k_{:016x}", self.0)
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for WorkerId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        text.strip_prefix("k_")
            .and_then(parse_hex::<8>)
            .and_then(|bytes| Self::new(u64::from_be_bytes(bytes)))
            .ok_or_else(|| ParseIdError::new("worker id", "`k_` and 16 hex digits", text))
    }
}

serde_as_text!(WorkerId);

/// A position in a world's journal. `head` is the next height to be written, so a world without
/// records has head [`Height::GENESIS`].
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    minicbor::Encode,
    minicbor::Decode,
    serde::Serialize,
    serde::Deserialize,
)]
#[cbor(transparent)]
#[serde(transparent)]
pub struct Height(#[n(0)] u64);

impl Height {
    /// The height of the first record of a world that was not forked.
    pub const GENESIS: Self = Self(0);

    pub const fn new(height: u64) -> Self {
        Self(height)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// The height after this one. A journal of 2^64 records cannot be written.
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    pub const fn plus(self, records: u64) -> Self {
        Self(self.0.saturating_add(records))
    }

    /// How many records lie in `earlier..self`; zero when `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Height {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Height {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "height {}", self.0)
    }
}

impl FromStr for Height {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        text.parse().map(Self).map_err(|_| ParseIdError::new("height", "a whole number", text))
    }
}

/// A fencing token. Rises with each acquisition, is never reused, survives release.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    minicbor::Encode,
    minicbor::Decode,
    serde::Serialize,
    serde::Deserialize,
)]
#[cbor(transparent)]
#[serde(transparent)]
pub struct Epoch(#[n(0)] NonZeroU64);

impl Epoch {
    /// The epoch of the first lease that a world is ever given.
    pub const INITIAL: Self = Self(NonZeroU64::MIN);

    pub const fn new(epoch: u64) -> Option<Self> {
        match NonZeroU64::new(epoch) {
            Some(epoch) => Some(Self(epoch)),
            None => None,
        }
    }

    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The epoch of the next acquisition. 2^64 acquisitions of one world cannot happen.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.0)
    }
}

/// The token that an engine gives a transaction at commit: stamps compare as the commits were ordered.
///
/// Eight bytes of commit version and two bytes of order within it, as in FoundationDB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp([u8; 10]);

impl Stamp {
    pub const LEN: usize = 10;
    /// The order that no commit has, because it is above all of a group: see [`InboxSeq::direct`].
    pub const ORDER_DIRECT: u16 = u16::MAX;

    pub const fn from_bytes(bytes: [u8; 10]) -> Self {
        Self(bytes)
    }

    /// The stamp of the transaction at place `order` of the group committed as `version`.
    pub fn new(version: u64, order: u16) -> Self {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&version.to_be_bytes());
        bytes[8..].copy_from_slice(&order.to_be_bytes());
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 10] {
        &self.0
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stamp {}", hex(&self.0))
    }
}

cbor_as_bytes!(Stamp, 10);

/// The place of an item in a world's inbox: the stamp of the transaction that enqueued it, and its
/// index among the items of that transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboxSeq([u8; 12]);

impl InboxSeq {
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

    /// The place of an item that its world takes without an inbox entry, in a turn that has seen every commit up to
    /// `version` and taken all that they enqueued: behind all of them, and before whatever is committed later.
    pub fn direct(version: u64, index: u16) -> Self {
        Self::new(Stamp::new(version, Stamp::ORDER_DIRECT), index)
    }

    /// Whether it never stood in an inbox.
    pub fn is_direct(&self) -> bool {
        self.0[8..Stamp::LEN] == Stamp::ORDER_DIRECT.to_be_bytes()
    }

    pub const fn as_bytes(&self) -> &[u8; 12] {
        &self.0
    }
}

impl fmt::Display for InboxSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s_{}", hex(&self.0))
    }
}

impl fmt::Debug for InboxSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for InboxSeq {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        text.strip_prefix("s_")
            .and_then(parse_hex)
            .map(Self)
            .ok_or_else(|| ParseIdError::new("inbox sequence", "`s_` and 24 hex digits", text))
    }
}

serde_as_text!(InboxSeq);
cbor_as_bytes!(InboxSeq, 12);

/// A call: where its reply is to be had.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CallId {
    pub seq: InboxSeq,
    /// The height of the reply, if its maker got it from the very turn that took the call: then the journal alone has it.
    pub replied_at: Option<Height>,
}

impl From<InboxSeq> for CallId {
    fn from(seq: InboxSeq) -> Self {
        Self { seq, replied_at: None }
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.replied_at {
            Some(height) => write!(f, "{}.{height}", self.seq),
            None => fmt::Display::fmt(&self.seq, f),
        }
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for CallId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let (seq, height) = text.split_once('.').map_or((text, None), |(seq, height)| (seq, Some(height)));
        let invalid = || ParseIdError::new("call", "`s_` and 24 hex digits, perhaps with a dot and a height", text);
        // As it is written: no sign, no zero before it.
        let written = |text: &str| text.parse::<u64>().ok().filter(|number| number.to_string() == text);
        let replied_at = height.map(|height| written(height).map(Height::new).ok_or_else(invalid)).transpose()?;
        Ok(Self { seq: seq.parse().map_err(|_| invalid())?, replied_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_forms_are_stable() {
        let universe = UniverseId::from_bytes([0x01; 16]);
        assert_eq!(universe.to_string(), "u_01040g2081040g2081040g2081");
        assert_eq!(WorldId::from_bytes([0xff; 16]).to_string(), "w_7zzzzzzzzzzzzzzzzzzzzzzzzz");
        assert_eq!(WorkerId::new(255).unwrap().to_string(), "k_00000000000000ff");
        assert_eq!(InboxSeq::new(Stamp::new(1, 2), 3).to_string(), "s_000000000000000100020003");
    }

    #[test]
    fn a_text_with_the_prefix_of_another_kind_is_refused() {
        let world = WorldId::from_bytes([7; 16]).to_string();
        let refused = world.parse::<UniverseId>().unwrap_err();
        assert!(refused.to_string().contains("universe id"), "{refused}");
        assert_eq!(crate::Coded::code(&refused), crate::Code::IdInvalid);
    }

    #[test]
    fn epochs_and_heights_rise_by_one() {
        assert_eq!(Epoch::INITIAL.get(), 1);
        assert_eq!(Epoch::INITIAL.next().get(), 2);
        assert_eq!(Height::GENESIS.next(), Height::new(1));
        assert_eq!(Height::new(7).since(Height::new(9)), 0);
        assert!(Epoch::new(0).is_none() && WorkerId::new(0).is_none() && WorkerId::new(1 << 63).is_none());
    }

    proptest! {
        #[test]
        fn ids_survive_their_text_and_sort_alike(a: [u8; 16], b: [u8; 16]) {
            let (a, b) = (WorldId::from_bytes(a), WorldId::from_bytes(b));
            prop_assert_eq!(a.to_string().parse::<WorldId>().unwrap(), a);
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in ".*") {
            if let Ok(id) = text.parse::<WorldId>() {
                prop_assert_eq!(id.to_string(), text.clone());
            }
            if let Ok(seq) = text.parse::<InboxSeq>() {
                prop_assert_eq!(seq.to_string(), text);
            }
        }

        #[test]
        fn calls_survive_their_text_and_have_one(seq: [u8; 12], height: Option<u64>, noise in "[+.0-9]{0,3}") {
            let call = CallId { seq: InboxSeq::from_bytes(seq), replied_at: height.map(Height::new) };
            prop_assert_eq!(call.to_string().parse::<CallId>().unwrap(), call);
            let noisy = format!("{}{noise}", call.seq);
            if let Ok(other) = noisy.parse::<CallId>() {
                prop_assert_eq!(other.to_string(), noisy);
            }
        }

        #[test]
        fn stamps_sort_by_version_then_order(a: (u64, u16), b: (u64, u16)) {
            prop_assert_eq!(Stamp::new(a.0, a.1).cmp(&Stamp::new(b.0, b.1)), a.cmp(&b));
        }
    }
}
