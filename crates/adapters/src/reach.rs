//! How effects reach other worlds: what `fabric.send` and `world.call` share.

use mundi_model::{Code, UniverseId, WorldAddress, limits};
use mundi_runtime::{Delivery, LocalWorlds, Plane};
use mundi_store::protocol::{Failure, FindNamed, Repeat};
use std::sync::Arc;

/// Which universes accept messages of which others. Within a universe there is nothing to ask.
pub trait UniversePolicy: Send + Sync {
    fn accepts(&self, to: UniverseId, from: UniverseId) -> bool;
}

/// No universe accepts messages of another one.
pub struct ClosedUniverses;

impl UniversePolicy for ClosedUniverses {
    fn accepts(&self, _: UniverseId, _: UniverseId) -> bool {
        false
    }
}

/// The way to other worlds.
#[derive(Clone)]
pub struct Reach<P> {
    pub(crate) plane: P,
    pub(crate) dedupe_window_ns: u64,
    local: Option<Arc<dyn LocalWorlds>>,
    universes: Arc<dyn UniversePolicy>,
}

impl<P: Plane> Reach<P> {
    pub fn new(plane: P) -> Self {
        let dedupe_window_ns = limits::DEDUPE_WINDOW_NS;
        Self { plane, dedupe_window_ns, local: None, universes: Arc::new(ClosedUniverses) }
    }

    /// How long the name of what was sent stays once its effect is over. Nothing is delivered twice, whatever this is.
    #[must_use]
    pub fn with_dedupe_window_ns(self, dedupe_window_ns: u64) -> Self {
        Self { dedupe_window_ns, ..self }
    }

    /// These worlds are woken directly by what is sent to them.
    #[must_use]
    pub fn with_local_worlds(self, local: Arc<dyn LocalWorlds>) -> Self {
        Self { local: Some(local), ..self }
    }

    /// The rules for sends to another universe; without them, none is allowed.
    #[must_use]
    pub fn with_universes(self, universes: Arc<dyn UniversePolicy>) -> Self {
        Self { universes, ..self }
    }

    pub(crate) fn check_accepted(&self, to: UniverseId, from: UniverseId, what: &str) -> Result<(), Failure> {
        if to == from || self.universes.accepts(to, from) {
            return Ok(());
        }
        let reason = format!(
            "{to} does not accept {what} from {from}: the configuration allows it as `universes.NAME.accepts_from` of the receiving universe"
        );
        Err(Failure { code: Code::UniverseDenied, reason, repeat: Repeat::Never })
    }

    /// The world that has a name which its id does not follow from: an import, or a fork that was made under an id. Only looked for if the
    /// name stands for no other.
    pub(crate) async fn world_named(&self, universe: UniverseId, to: &WorldAddress) -> Option<WorldAddress> {
        let name = to.name()?.clone();
        let found = self.plane.run(&FindNamed { universe, name }).await.ok()?.output?;
        Some(found.into())
    }

    pub(crate) fn delivery(&self) -> Delivery<'_, P::Engine, P::Blobs> {
        Delivery {
            engine: self.plane.engine(),
            clock: &**self.plane.clock(),
            blobs: self.plane.blobs(),
            local: self.local.as_deref(),
            dedupe_window_ns: self.dedupe_window_ns,
        }
    }
}
