//! The quotas by name.

use mundi_store::values::Quotas;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! quotas {
    ($($variant:ident, $field:ident, $doc:literal;)*) => {
        /// Something that there is a quota of.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Quota {
            $(#[doc = $doc] $variant,)*
        }

        impl Quota {
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// As it is written in the configuration, in the API and in metrics.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($field),)* }
            }

            pub fn of(self, quotas: &Quotas) -> Option<u64> {
                match self { $(Self::$variant => quotas.$field,)* }
            }
        }

        /// Quotas of one universe or one token. What is left out is not limited here: a universe and a token that say nothing have
        /// what the configuration says.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct QuotaLimits {
            $(
                #[doc = $doc]
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<u64>,
            )*
        }

        impl From<QuotaLimits> for Quotas {
            fn from(limits: QuotaLimits) -> Self {
                let QuotaLimits { $($field),* } = limits;
                Self { $($field),* }
            }
        }

        impl From<Quotas> for QuotaLimits {
            fn from(quotas: Quotas) -> Self {
                let Quotas { $($field),* } = quotas;
                Self { $($field),* }
            }
        }
    };
}

impl QuotaLimits {
    /// The first of them that only a universe can have: steps and effects belong to no token.
    pub(crate) fn only_of_universes(&self) -> Option<Quota> {
        let quotas = Quotas::from(*self);
        let of_universes = [Quota::FuelPerSecond, Quota::Effects, Quota::EffectsPerSecond];
        of_universes.into_iter().find(|quota| quota.of(&quotas).is_some())
    }
}

quotas! {
    Worlds, worlds_max, "Worlds that are not deleted; of a token, worlds that were made with it.";
    StoredBytes, stored_bytes_max, "Bytes of the content store (blobs, programs, manifests, snapshots, large payloads) and of segments, which are journal records that left the engine. Journal records and inboxes that the engine holds are not counted. Of a token, bytes that were stored with it.";
    EventsPerSecond, events_per_second_max, "Events that are sent or called with, a second, in one process.";
    Calls, calls_max, "Calls, queries and waits for a reply at a time, in one process.";
    FuelPerSecond, fuel_per_second_max, "Fuel of components, a second, in one process: steps wait, and queries are refused. Of universes only.";
    Effects, effects_max, "Effects at a time, in one process, of adapters and of claims of external workers together: more wait. Of universes only.";
    EffectsPerSecond, effects_per_second_max, "Effects that begin, a second, in one process: more wait. Of universes only.";
    Blobs, blobs_max, "Objects of the content store; of a token, blobs that were stored with it.";
    Programs, programs_max, "Programs that are not built in; of a token, programs that were registered with it.";
    Streams, streams_max, "Live tails and exports at a time, in one process.";
}

/// The limits in force where nothing was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaDefaults {
    pub per_universe: Quotas,
    pub per_token: Quotas,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quota_is_what_its_name_says() {
        for (number, quota) in (1_u64..).zip(Quota::ALL) {
            let text = format!("{{\"{}\":{number}}}", quota.as_str());
            let limits: QuotaLimits = serde_json::from_str(&text).unwrap();
            let quotas = Quotas::from(limits);
            assert_eq!(quota.of(&quotas), Some(number));
            assert!(Quota::ALL.iter().filter(|other| *other != quota).all(|other| other.of(&quotas).is_none()));
            assert_eq!((QuotaLimits::from(quotas), serde_json::to_string(&limits).unwrap()), (limits, text));
        }
        assert!(serde_json::from_str::<QuotaLimits>("{\"words_max\":1}").is_err());
    }
}
