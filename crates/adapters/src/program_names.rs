//! The manifests that the names of programs stand for.

use mundi_model::{Code, Hash, ProgramAddress, ProgramRef, UniverseId};
use mundi_runtime::{Plane, effects::refused};
use mundi_store::protocol::{Failure, FindProgram, Repeat};
use std::collections::BTreeMap;

pub(crate) struct ProgramNames<P> {
    pub(crate) plane: P,
    /// Programs that have a name here and are not in the store: `name` and `name@version`, with their manifests.
    pub(crate) built_in: BTreeMap<String, Hash>,
}

impl<P: Plane> ProgramNames<P> {
    /// The manifest that an address stands for now.
    pub(crate) async fn manifest(&self, universe: UniverseId, program: &ProgramAddress) -> Result<Hash, Failure> {
        match program {
            ProgramAddress::Manifest(manifest) => Ok(*manifest),
            ProgramAddress::Named(named) => self.find(universe, named).await,
        }
    }

    async fn find(&self, universe: UniverseId, named: &ProgramRef) -> Result<Hash, Failure> {
        if let Some(manifest) = self.built_in.get(&named.to_string()) {
            return Ok(*manifest);
        }
        let find = FindProgram { universe, name: named.name().to_owned(), version: named.version() };
        let found = self.plane.run(&find).await.map_err(|error| refused(&error))?.output;
        found.map(|found| found.manifest).ok_or_else(|| Failure {
            code: Code::ProgramUnknown,
            reason: format!("no program is called `{named}` here"),
            repeat: Repeat::Never,
        })
    }
}
