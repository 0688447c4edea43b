//! Give a program a name and a version, find it by them, list and delete versions.
//!
//! Guarantees: a version under a name stands for one manifest for as long as it is there; a request with another
//! one is refused, and nothing changes. Given again without a number, the manifest of the newest version keeps that version;
//! any other gets a number above all that were given under the name since it had no version. A named manifest is registered, and
//! cannot be deleted.
//! Unknown commit: run again; each is idempotent.

use crate::protocol::ProgramError;
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{
        Family, decode_value,
        program_name::{self, ProgramName},
        program_of_manifest,
        program_version::{self, ProgramVersion},
        registered::{self, RegisteredKind},
    },
};
use mundi_engine::Transaction;
use mundi_model::{Hash, UniverseId, limits};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
pub struct NameProgram {
    pub universe: UniverseId,
    /// The caller has checked that it is one.
    pub name: String,
    /// `None` for the next one.
    pub version: Option<u32>,
    pub manifest: Hash,
    /// The code that the manifest names.
    pub program: Hash,
    pub now_ns: u64,
}

/// The version that a manifest has under a name, and whether it was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramNamed {
    pub version: u32,
    pub before: bool,
}

/// The decision about a name.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Keep(u32),
    Add(u32),
}

impl NameProgram {
    /// `taken` is what stands at the version that is asked for, `newest` the newest one of the name.
    fn plan(
        &self,
        known: Option<ProgramName>,
        taken: Option<Hash>,
        newest: Option<(u32, Hash)>,
    ) -> Result<Plan, ProgramError> {
        let highest = known.map_or(0, |known| known.highest);
        let full = |what| ProgramError::NamesFull { name: self.name.clone(), what };
        let add = |version| {
            let versions = known.map_or(0, |known| known.versions) as usize;
            let has_room = versions < limits::PROGRAM_VERSIONS_MAX;
            if has_room { Ok(Plan::Add(version)) } else { Err(full("versions")) }
        };
        match (self.version, taken, newest) {
            (Some(version), Some(manifest), _) if manifest == self.manifest => Ok(Plan::Keep(version)),
            (Some(version), Some(manifest), _) => {
                Err(ProgramError::VersionTaken { name: self.name.clone(), version, manifest })
            }
            (Some(version), None, _) => add(version),
            (None, _, Some((version, manifest))) if manifest == self.manifest => Ok(Plan::Keep(version)),
            (None, ..) => add(highest.checked_add(1).ok_or_else(|| full("version numbers"))?),
        }
    }
}

impl Protocol for NameProgram {
    type Output = ProgramNamed;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<ProgramNamed, StoreError> {
        let Self { universe, name, version, manifest, program, now_ns } = self;
        let (universe, manifest) = (*universe, *manifest);
        if registered::read(tx, universe, RegisteredKind::Manifest, manifest).await?.is_none() {
            return Err(ProgramError::NotRegistered(manifest).into());
        }
        let known = program_name::read(tx, universe, name).await?;
        let taken = match *version {
            Some(version) => program_version::read(tx, universe, name, version).await?.map(|taken| taken.manifest),
            None => None,
        };
        let newest = program_version::newest(tx, universe, name, 1).await?;
        let newest = newest.first().map(|(version, newest)| (*version, newest.manifest));
        let version = match self.plan(known, taken, newest)? {
            Plan::Keep(version) => return Ok(ProgramNamed { version, before: true }),
            Plan::Add(version) => version,
        };
        if known.is_none() {
            let names = tx.range(program_name::prefix(universe).span().read(limits::PROGRAM_NAMES_MAX)).await?;
            if names.items.len() >= limits::PROGRAM_NAMES_MAX {
                return Err(ProgramError::NamesFull { name: name.clone(), what: "names" }.into());
            }
        }
        let known = known.unwrap_or(ProgramName { versions: 0, highest: 0 });
        let now = ProgramName { versions: known.versions + 1, highest: known.highest.max(version) };
        program_name::write(tx, universe, name, &now)?;
        let record = ProgramVersion { manifest, program: *program, at_ns: *now_ns };
        program_version::write(tx, universe, (name, version), &record)?;
        program_of_manifest::write(tx, &program_of_manifest::key(universe, manifest, name, version))?;
        Ok(ProgramNamed { version, before: false })
    }
}

/// Deletes a version under a name, and says whether there was one. Its manifest stays registered.
#[derive(Debug, Clone)]
pub struct UnnameProgram {
    pub universe: UniverseId,
    pub name: String,
    pub version: u32,
}

impl Protocol for UnnameProgram {
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        let Self { universe, name, version } = self;
        let Some(found) = program_version::read(tx, *universe, name, *version).await? else { return Ok(false) };
        tx.delete(program_version::key(*universe, name, *version).as_bytes())?;
        tx.delete(program_of_manifest::key(*universe, found.manifest, name, *version).as_bytes())?;
        match program_name::read(tx, *universe, name).await? {
            Some(ProgramName { versions, highest }) if versions > 1 => {
                program_name::write(tx, *universe, name, &ProgramName { versions: versions - 1, highest })?;
            }
            _ => tx.delete(program_name::key(*universe, name).as_bytes())?,
        }
        Ok(true)
    }
}

/// A version of a named program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedVersion {
    pub version: u32,
    pub manifest: Hash,
    pub program: Hash,
    pub at_ns: u64,
}

impl NamedVersion {
    fn new((version, found): (u32, ProgramVersion)) -> Self {
        let ProgramVersion { manifest, program, at_ns } = found;
        Self { version, manifest, program, at_ns }
    }
}

/// The version under a name, or the newest one.
#[derive(Debug, Clone)]
pub struct FindProgram {
    pub universe: UniverseId,
    pub name: String,
    pub version: Option<u32>,
}

impl Protocol for FindProgram {
    type Output = Option<NamedVersion>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<NamedVersion>, StoreError> {
        let Self { universe, name, version } = self;
        let found = match version {
            Some(version) => {
                let found = program_version::read(tx, *universe, name, *version).await?;
                found.map(|found| (*version, found))
            }
            None => program_version::newest(tx, *universe, name, 1).await?.into_iter().next(),
        };
        Ok(found.map(NamedVersion::new))
    }
}

/// All names of a universe, each with its newest versions, the newest first.
#[derive(Debug, Clone, Copy)]
pub struct ListPrograms {
    pub universe: UniverseId,
    pub versions_max: usize,
}

impl Protocol for ListPrograms {
    type Output = BTreeMap<String, (ProgramName, Vec<NamedVersion>)>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Self::Output, StoreError> {
        let Self { universe, versions_max } = *self;
        let names = tx.range(program_name::prefix(universe).span().read(limits::PROGRAM_NAMES_MAX).snapshot()).await?;
        let mut listed = BTreeMap::new();
        for (key, bytes) in &names.items {
            let name = program_name::parse(universe, key)?;
            let record = decode_value(Family::ProgramName, key, bytes)?;
            let versions = newest(tx, universe, &name, versions_max).await?;
            listed.insert(name, (record, versions));
        }
        Ok(listed)
    }
}

/// The versions under a name, the newest first. There are so few that they are read whole.
#[derive(Debug, Clone)]
pub struct ListVersions {
    pub universe: UniverseId,
    pub name: String,
}

impl Protocol for ListVersions {
    type Output = Vec<NamedVersion>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Self::Output, StoreError> {
        newest(tx, self.universe, &self.name, limits::PROGRAM_VERSIONS_MAX).await
    }
}

async fn newest<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    name: &str,
    versions_max: usize,
) -> Result<Vec<NamedVersion>, StoreError> {
    let versions_max = versions_max.clamp(1, limits::PROGRAM_VERSIONS_MAX);
    let found = program_version::newest(tx, universe, name, versions_max).await?;
    Ok(found.into_iter().map(NamedVersion::new).collect())
}

/// The names of manifests: of each that has one, the highest version that stands for it.
#[derive(Debug, Clone)]
pub struct NamesOfManifests {
    pub universe: UniverseId,
    /// As many as one page of worlds has.
    pub manifests: BTreeSet<Hash>,
}

impl Protocol for NamesOfManifests {
    type Output = BTreeMap<Hash, (String, u32)>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Self::Output, StoreError> {
        let mut named = BTreeMap::new();
        for manifest in self.manifests.iter().take(limits::LIST_ITEMS_MAX) {
            if let Some(name) = program_of_manifest::newest(tx, self.universe, *manifest).await? {
                named.insert(*manifest, name);
            }
        }
        Ok(named)
    }
}

/// Refuses to let a manifest go that a version stands for. The commit depends on it: a name that is given meanwhile conflicts.
pub(in crate::protocol) async fn require_unnamed<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    manifest: Hash,
) -> Result<(), StoreError> {
    match program_of_manifest::newest(tx, universe, manifest).await? {
        Some((name, version)) => Err(ProgramError::Named { manifest, name, version }.into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
