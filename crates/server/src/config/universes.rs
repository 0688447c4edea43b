//! The sections `[universes.NAME]` and `[quotas]`: rules and quotas of tenants.

use super::ConfigError;
use crate::{
    node::UniverseRules,
    quotas::{QuotaDefaults, QuotaLimits},
};
use mundi_model::parse_hex;
use mundi_runtime::effects::signature::{AdapterKeys, PUBLIC_KEY_LEN};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// Rules of one universe. They must be the same in every process of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UniverseSection {
    /// The universes whose worlds may send messages to worlds of this one, by name or id; none by default.
    pub accepts_from: BTreeSet<String>,
    /// The Ed25519 public keys of adapters and workers, by the name in their receipts: 64 hex digits each. Receipts in the
    /// name of an adapter with a key must be signed with it.
    pub adapter_keys: BTreeMap<String, String>,
    /// Its quotas: they override `quotas.per_universe`; quotas that are set by the API override them.
    pub quotas: QuotaLimits,
}

impl UniverseSection {
    pub(super) fn rules(&self) -> Result<UniverseRules, String> {
        let key = |(adapter, digits): (&String, &String)| {
            let key = parse_hex::<PUBLIC_KEY_LEN>(digits);
            let invalid = || format!("the key of `{adapter}` is not an Ed25519 public key: expected 64 hex digits");
            Ok((adapter.clone(), key.ok_or_else(invalid)?))
        };
        let keys = self.adapter_keys.iter().map(key).collect::<Result<Vec<_>, String>>()?;
        Ok(UniverseRules {
            accepts_from: self.accepts_from.clone(),
            adapter_keys: AdapterKeys::new(keys),
            quotas: self.quotas.into(),
        })
    }
}

/// Default quotas. Nothing is limited unless it is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QuotasSection {
    /// The quotas of each universe.
    pub per_universe: QuotaLimits,
    /// The quotas of each token.
    pub per_token: QuotaLimits,
}

impl QuotasSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match self.per_token.only_of_universes() {
            Some(quota) => Err(ConfigError::new(
                format!("quotas.per_token.{}", quota.as_str()),
                "it is a quota of universes: a token cannot have it",
            )),
            None => Ok(()),
        }
    }

    pub(super) fn defaults(&self) -> QuotaDefaults {
        QuotaDefaults { per_universe: self.per_universe.into(), per_token: self.per_token.into() }
    }
}
