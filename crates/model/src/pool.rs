//! Pools of resources: the ids of what they lease, and what a lease entitles to.

use crate::{
    Hash, Height, ParseIdError, WorldId,
    ids::id128,
    text::{base32_128, cbor_as_bytes, parse_base32_128, serde_as_text},
};
use minicbor::{Decode, Encode};
use std::{fmt, str::FromStr};

id128!(
    /// One lease of a pool: `(shard << 64) | lsn`. It rises with each lease of a shard and is never used twice.
    LeaseId, "l", "lease id"
);
id128!(
    /// One resource of a pool.
    ResourceId, "r", "resource id"
);
id128!(
    /// The holder of a lease: a world, or a name that a client chose.
    HolderId, "holder", "holder id"
);
id128!(
    /// The sender of a command. Two clients never share an operation.
    ClientId, "client", "client id"
);
id128!(
    /// One command of a client, however often it is sent.
    OperationId, "op", "operation id"
);

/// An id that may be written as a name: its 128 bits follow from the name.
macro_rules! named {
    ($name:ident, $domain:literal) => {
        impl $name {
            /// The id that a name stands for.
            pub fn of_name(name: &str) -> Self {
                let hash = Hash::of_parts([concat!("mundi.pool.", $domain, ".1\0").as_bytes(), name.as_bytes()]);
                let mut id = [0; Self::LEN];
                id.copy_from_slice(&hash.as_bytes()[..Self::LEN]);
                Self::from_bytes(id)
            }

            /// The id that is written there, or that of the name.
            pub fn of_text(text: &str) -> Self {
                text.parse().unwrap_or_else(|_| Self::of_name(text))
            }
        }
    };
}
named!(ResourceId, "resource");
named!(HolderId, "holder");
named!(ClientId, "client");
named!(OperationId, "operation");

impl LeaseId {
    pub fn new(shard: u64, lsn: Height) -> Self {
        Self::from_bytes(((u128::from(shard) << 64) | u128::from(lsn.get())).to_be_bytes())
    }

    pub fn shard(self) -> u64 {
        (u128::from_be_bytes(self.0) >> 64) as u64
    }

    /// The height of the command that made it.
    pub fn lsn(self) -> Height {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is what is meant")]
        let lsn = u128::from_be_bytes(self.0) as u64;
        Height::new(lsn)
    }
}

impl From<WorldId> for HolderId {
    fn from(world: WorldId) -> Self {
        Self(*world.as_bytes())
    }
}

impl From<WorldId> for ClientId {
    fn from(world: WorldId) -> Self {
        Self(*world.as_bytes())
    }
}

/// The entitlement of a lease's holder, while the lease is active: what an effect that names the lease is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct LeaseAuthority {
    #[n(0)]
    pub epoch: u64,
    #[n(1)]
    pub holder: HolderId,
}

/// A lease that becomes active or ceases to be, or whose reclaim is left to a watcher or done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthorityChange {
    pub lease: LeaseId,
    /// `None` from where the holder has no authority any more.
    pub authority: Option<LeaseAuthority>,
    /// Of a lease that is being revoked: a watcher reclaims it when so much time has passed.
    pub reclaim_after_ms: Option<u64>,
}

impl AuthorityChange {
    pub fn granted(lease: LeaseId, authority: LeaseAuthority) -> Self {
        Self { lease, authority: Some(authority), reclaim_after_ms: None }
    }

    /// The holder has no authority any more, and nobody is to reclaim the lease.
    pub fn withdrawn(lease: LeaseId) -> Self {
        Self { lease, authority: None, reclaim_after_ms: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_lease_id_is_its_shard_and_its_lsn() {
        let lease = LeaseId::new(3, Height::new(7));
        assert_eq!(u128::from_be_bytes(*lease.as_bytes()), (3 << 64) | 7);
        assert_eq!((lease.shard(), lease.lsn()), (3, Height::new(7)));
    }

    #[test]
    fn a_name_and_an_id_are_told_apart() {
        let gpu = ResourceId::of_name("gpu-1");
        assert_eq!(ResourceId::of_text("gpu-1"), gpu);
        assert_eq!(ResourceId::of_text(&gpu.to_string()), gpu);
        assert_ne!(gpu.as_bytes(), HolderId::of_name("gpu-1").as_bytes());
    }

    proptest! {
        #[test]
        fn later_leases_of_a_shard_sort_after_earlier_ones(shard: u64, a: u64, b: u64) {
            let lease = |lsn| LeaseId::new(shard, Height::new(lsn));
            prop_assert_eq!(lease(a).cmp(&lease(b)), a.cmp(&b));
            prop_assert_eq!(lease(a).to_string().parse::<LeaseId>().unwrap(), lease(a));
        }
    }
}
