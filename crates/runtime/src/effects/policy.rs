//! The policy context of an effect: the manifest that it was asked for under.
//!
//! An effect in the queue names the manifest that allowed it. The worker that takes it out of the queue reads that manifest and checks
//! that it allows the kind; an effect whose context does not is not carried out. An effect that a turn gives to an adapter of its
//! own process was checked by the kernel, under the same manifest, in the step that asked for it.

use mundi_kernel::manifest::{Manifest, ManifestError};
use mundi_model::{Code, Coded, Hash, UniverseId};
use mundi_store::{StoreError, blob::Blobs, keyspace::effect_pending::EffectItem};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// Manifests that are remembered; beyond it all are read again.
const CONTEXTS_MAX: usize = 256;

/// The manifest's grant for a kind that it allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EffectGrant {
    /// Receipts must be signed.
    pub signed: bool,
}

/// Why an effect must not be carried out.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PolicyError {
    #[error(
        "the manifest {context} that the effect was asked for under does not allow `{kind}`: name it in the manifest's `effects`"
    )]
    Denied { context: Hash, kind: String },
    #[error("the manifest {context} that the effect was asked for under is unusable: {cause}")]
    Unusable { context: Hash, cause: ManifestError },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Coded for PolicyError {
    fn code(&self) -> Code {
        match self {
            Self::Denied { .. } | Self::Unusable { .. } => Code::EffectDenied,
            Self::Store(error) => error.code(),
        }
    }
}

type Grants = Arc<BTreeMap<String, EffectGrant>>;

/// The manifests that effects were asked for under, as far as they were read. Manifests never change.
#[derive(Default)]
pub struct PolicyContexts(Mutex<BTreeMap<(UniverseId, Hash), Grants>>);

impl PolicyContexts {
    /// Checks the grant of the effect's context. An effect of before there were contexts is granted what it asks for.
    pub async fn check<B: Blobs>(
        &self,
        blobs: &B,
        universe: UniverseId,
        item: &EffectItem,
    ) -> Result<EffectGrant, PolicyError> {
        let Some(context) = item.policy_context else { return Ok(EffectGrant::default()) };
        let known = self.0.lock().get(&(universe, context)).cloned();
        let grants = match known {
            Some(grants) => grants,
            None => self.read(blobs, universe, context).await?,
        };
        let denied = || PolicyError::Denied { context, kind: item.kind.clone() };
        grants.get(&item.kind).copied().ok_or_else(denied)
    }

    async fn read<B: Blobs>(&self, blobs: &B, universe: UniverseId, context: Hash) -> Result<Grants, PolicyError> {
        let bytes = blobs.get(universe, context).await?;
        let manifest = Manifest::from_bytes(&bytes).map_err(|cause| PolicyError::Unusable { context, cause })?;
        let grant =
            |(kind, rule): (String, mundi_kernel::manifest::EffectRule)| (kind, EffectGrant { signed: rule.signed });
        let grants: Grants = Arc::new(manifest.effects.into_iter().map(grant).collect());
        let mut contexts = self.0.lock();
        if contexts.len() >= CONTEXTS_MAX {
            contexts.clear();
        }
        contexts.insert((universe, context), grants.clone());
        Ok(grants)
    }
}
