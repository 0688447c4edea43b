//! Programs that are no part of the process: code from the content store, made ready to run by someone else.

use crate::{
    manifest::{Manifest, ManifestError},
    objects::{LoadError, Objects},
    program::Program,
};
use mundi_model::{Code, Hash, UniverseId, limits::CHECKS_WAITING_MAX};
use std::sync::{Arc, atomic::AtomicU64};

/// Where checks against schemas run that take long. They keep nobody waiting: they run on a thread of their own, or while another thread does
/// the duties of this one.
pub trait Apart: Send + Sync {
    /// A check before a step, or without one: it runs when it is the turn of its universe. It has not run if this is an error.
    fn in_turn(&self, check: &mut dyn FnMut()) -> Result<(), ChecksCrowded>;

    /// A check within a step, which has its turn already.
    fn at_once(&self, check: &mut dyn FnMut());
}

/// Why a check does not run now. It may at another time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{CHECKS_WAITING_MAX} long checks against schemas of this universe wait for a processor already")]
pub struct ChecksCrowded;

impl From<ChecksCrowded> for LoadError {
    fn from(crowded: ChecksCrowded) -> Self {
        Self::Abandoned { code: Code::StepCrowded, why: crowded.to_string() }
    }
}

/// Where nobody waits for a thread: checks run on that of their caller.
#[derive(Debug, Clone, Copy)]
pub struct InPlace;

impl Apart for InPlace {
    fn in_turn(&self, check: &mut dyn FnMut()) -> Result<(), ChecksCrowded> {
        check();
        Ok(())
    }

    fn at_once(&self, check: &mut dyn FnMut()) {
        check();
    }
}

/// Reads the code of a program when it is needed: it may be gone, or out of reach for the moment.
pub type CodeSource = Arc<dyn Fn(Hash) -> Option<Arc<[u8]>> + Send + Sync>;

/// Makes programs of code that worlds bring along. The kernel does not know how.
pub trait Loader: Send + Sync {
    /// Whether this code can ever run here. Quick: it looks, and compiles nothing.
    fn inspect(&self, code: &[u8]) -> Result<(), ManifestError>;

    /// Where the preparation of a program stands. With its code, a preparation that has not begun begins.
    fn prepare(&self, program: Hash, code: Option<Arc<[u8]>>) -> Readiness;

    /// Whether a manifest can hold here: it pins what this process has.
    fn check(&self, manifest: &Manifest) -> Result<(), ManifestError>;

    /// The program that a manifest names, within the manifest's bounds. While it is being prepared, this says so.
    fn load(&self, objects: &dyn Objects, manifest: &Manifest) -> Result<Arc<dyn Program>, ManifestError>;

    /// Where checks against schemas run that take long: they happen on the threads that run worlds and serve requests.
    fn apart(&self) -> Arc<dyn Apart> {
        Arc::new(InPlace)
    }

    /// The same loader for the worlds of one universe. None if this loader treats all alike.
    fn for_universe(&self, share: UniverseShare) -> Option<Arc<dyn Loader>> {
        let _ = share;
        None
    }
}

/// How the worlds of one universe share what runs programs.
#[derive(Clone)]
pub struct UniverseShare {
    pub universe: UniverseId,
    /// Among the other universes, when they compete.
    pub weight: u32,
    /// Where the code of its programs is read from.
    pub source: CodeSource,
    /// Counts the fuel that its steps and queries use.
    pub fuel: Arc<AtomicU64>,
}

/// How far a program is.
#[derive(Debug, Clone, PartialEq)]
pub enum Readiness {
    /// Nobody has brought its code yet.
    Unknown,
    /// Behind so many others.
    Queued {
        ahead: usize,
    },
    /// Being compiled.
    Compiling {
        bytes: usize,
    },
    /// It runs. The manifest is what the program says about itself, with what this process adds.
    Ready(Box<Manifest>),
    Refused(String),
}
