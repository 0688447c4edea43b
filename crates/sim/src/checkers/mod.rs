//! The checkers, one file for each promise. They read the committed transactions and the histories of clients, and nothing else; only
//! [`replay`] also reads back through the store, because that is what it promises.

mod baselines;
mod calls;
pub(crate) mod children;
mod claims;
mod fences;
mod forks;
pub(crate) mod functions;
mod holds;
mod index;
mod ingress;
mod journals;
mod labels;
pub(crate) mod leased_effects;
mod leases;
pub(crate) mod pools;
mod receipts;
mod replay;
mod sandboxes;
mod segments;
mod timers;
mod universes;
pub(crate) mod watches;

use crate::{
    cluster::{Ground, Handed, SimPlane},
    history::Histories,
    log::Commit,
    notes::{Notes, Pages},
    run::Failure,
    run_state::RunState,
};
use mundi_kernel::{MemoryObjects, Registry};
use std::sync::Arc;

/// All that is known about a run.
pub(crate) struct Evidence {
    pub(crate) commits: Vec<Commit>,
    pub(crate) history: Histories,
    pub(crate) notes: Pages,
    pub(crate) handed: Handed,
    /// Whether everything came to its end, so that what is missing now will never come.
    pub(crate) settled: bool,
    /// Everything in the content store.
    pub(crate) objects: MemoryObjects,
    pub(crate) registry: Arc<Registry>,
    pub(crate) read_back: replay::ReadBack,
}

type Checker = (&'static str, fn(&Evidence) -> Result<(), String>);

/// All of them, by name. The order is that of what explains the most.
const CHECKERS: &[Checker] = &[
    ("universes", universes::check),
    ("leases", leases::check),
    ("fences", fences::check),
    ("journals", journals::check),
    ("segments", segments::check),
    ("baselines", baselines::check),
    ("ingress", ingress::check),
    ("claims", claims::check),
    ("receipts", receipts::check),
    ("calls", calls::check),
    ("timers", timers::check),
    ("forks", forks::check),
    ("sandboxes", sandboxes::check),
    ("holds", holds::check),
    ("index", index::check),
    ("labels", labels::check),
    ("replay", replay::check),
];

impl Evidence {
    pub(crate) async fn gather(
        run_state: &RunState,
        ground: &Ground,
        plane: &SimPlane,
        notes: &Notes,
        settled: bool,
    ) -> Result<Self, Failure> {
        let commits = run_state.commits();
        let history = Histories::of(&commits).map_err(|what| Failure { checker: "log", what })?;
        let objects = replay::objects(ground, &commits).await.map_err(|what| Failure { checker: "replay", what })?;
        let read_back = replay::read_back(plane, &history).await;
        let registry = ground.registry.clone();
        let handed = ground.doors.handed();
        Ok(Self { commits, history, notes: notes.pages(), handed, settled, objects, registry, read_back })
    }
}

/// Their names.
pub fn names() -> impl Iterator<Item = &'static str> {
    CHECKERS.iter().map(|(name, _)| *name)
}

/// The first promise that was not kept.
pub(crate) fn check(evidence: &Evidence) -> Result<(), Failure> {
    CHECKERS.iter().try_for_each(|(checker, check)| check(evidence).map_err(|what| Failure { checker, what }))
}
