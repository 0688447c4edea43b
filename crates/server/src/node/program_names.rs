//! Programs by name: those that come with the node, and those of a universe that were given a name.

use super::{NodeError, Universe};
use mundi_model::{Hash, ProgramRef, limits};
use mundi_runtime::Plane;
use mundi_store::protocol::{
    FindProgram, ListPrograms, ListVersions, NameProgram, NamedVersion, NamesOfManifests, ProgramNamed, UnnameProgram,
};
use std::collections::{BTreeMap, BTreeSet};

/// The result of looking up a text that names a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundProgram {
    pub manifest: Hash,
    /// The code, and its name with the version; absent if the text was a hash.
    pub named: Option<(Hash, String)>,
}

/// A named program, with its newest versions.
#[derive(Debug, Clone)]
pub struct ListedProgram {
    pub name: String,
    /// It comes with the server.
    pub built_in: bool,
    /// How many there are.
    pub versions_total: usize,
    /// The newest first; not empty.
    pub versions: Vec<NamedVersion>,
}

/// A version of a program that comes with the node.
#[derive(Debug, Clone)]
pub(super) struct BuiltIn {
    pub(super) name: String,
    pub(super) version: NamedVersion,
    pub(super) is_newest: bool,
}

impl Universe {
    /// The manifest that a text means: a hash, the name of a program for its newest version, or `name@version`.
    pub async fn find_program(&self, text: &str) -> Result<FoundProgram, NodeError> {
        if text.starts_with("h_") {
            let manifest = text.parse().map_err(|_| NodeError::ProgramUnknown(text.to_owned()))?;
            return Ok(FoundProgram { manifest, named: None });
        }
        // An embedder may have given any name.
        if let Some(found) = self.built_in.iter().find(|it| it.is_called(text)) {
            return Ok(found.found());
        }
        let wanted: ProgramRef = text.parse().map_err(NodeError::ProgramName)?;
        let (name, version) = (wanted.name().to_owned(), wanted.version());
        let find = FindProgram { universe: self.id(), name: name.clone(), version };
        let found = self.plane().run(&find).await?.output;
        let found = found.ok_or_else(|| NodeError::ProgramUnknown(text.to_owned()))?;
        let named = format!("{name}@{}", found.version);
        Ok(FoundProgram { manifest: found.manifest, named: Some((found.program, named)) })
    }

    /// The manifests that a text means: those of all versions, if it is a name alone.
    pub async fn manifests_called(&self, text: &str) -> Result<BTreeSet<Hash>, NodeError> {
        let found = self.find_program(text).await?;
        if text.contains('@') || found.named.is_none() {
            return Ok([found.manifest].into());
        }
        Ok(self.program_versions(text).await?.into_iter().map(|version| version.manifest).collect())
    }

    /// All versions under a name, the newest first; none if nothing has the name.
    pub async fn program_versions(&self, name: &str) -> Result<Vec<NamedVersion>, NodeError> {
        let mut own: Vec<_> = self.built_in.iter().filter(|it| it.name == name).map(|it| it.version).collect();
        if own.is_empty() {
            own = self.plane().run(&ListVersions { universe: self.id(), name: name.to_owned() }).await?.output;
        }
        own.sort_by_key(|found| std::cmp::Reverse(found.version));
        Ok(own)
    }

    /// All programs that have a name here, those that come with the server first.
    pub async fn list_programs(&self) -> Result<Vec<ListedProgram>, NodeError> {
        let mut listed = Vec::new();
        for name in self.manifests().keys() {
            let versions = self.program_versions(name).await?;
            listed.push(ListedProgram { name: name.clone(), built_in: true, versions_total: versions.len(), versions });
        }
        let list = ListPrograms { universe: self.id(), versions_max: limits::PROGRAM_VERSIONS_LISTED_MAX };
        let given = self.plane().run(&list).await?.output.into_iter();
        listed.extend(given.map(|(name, (record, versions))| {
            let versions_total = record.versions as usize;
            ListedProgram { name, built_in: false, versions_total, versions }
        }));
        Ok(listed)
    }

    /// Gives a manifest that is registered a name and a version; the next one, if none is said.
    pub async fn name_program(
        &self,
        name: &ProgramRef,
        (manifest, program): (Hash, Hash),
    ) -> Result<ProgramNamed, NodeError> {
        self.require_given(name)?;
        let naming = NameProgram {
            universe: self.id(),
            name: name.name().to_owned(),
            version: name.version(),
            manifest,
            program,
            now_ns: self.plane().now_ns(),
        };
        Ok(self.plane().run(&naming).await?.output)
    }

    /// Deletes a version under a name. The manifest stays registered, and worlds that run it continue.
    pub async fn unname_program(&self, name: &str, version: u32) -> Result<(), NodeError> {
        let named = ProgramRef::new(name, Some(version)).map_err(NodeError::ProgramName)?;
        self.require_given(&named)?;
        let unname = UnnameProgram { universe: self.id(), name: name.to_owned(), version };
        match self.plane().run(&unname).await?.output {
            true => Ok(()),
            false => Err(NodeError::ProgramUnknown(named.to_string())),
        }
    }

    fn require_given(&self, name: &ProgramRef) -> Result<(), NodeError> {
        match self.manifests().contains_key(name.name()) {
            true => Err(NodeError::ProgramBuiltIn(name.name().to_owned())),
            false => Ok(()),
        }
    }

    /// The program names of these manifests. A program that comes with the server has its name alone while it is the newest.
    pub async fn names_of(&self, manifests: BTreeSet<Hash>) -> Result<BTreeMap<Hash, String>, NodeError> {
        let names = NamesOfManifests { universe: self.id(), manifests };
        let given = self.plane().run(&names).await?.output;
        let mut named: BTreeMap<_, _> =
            given.into_iter().map(|(manifest, (name, version))| (manifest, format!("{name}@{version}"))).collect();
        for it in &self.built_in {
            if names.manifests.contains(&it.version.manifest) {
                named.insert(it.version.manifest, it.shown());
            }
        }
        Ok(named)
    }
}

impl BuiltIn {
    fn is_called(&self, text: &str) -> bool {
        let numbered = || text.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('@'));
        (self.is_newest && self.name == text) || numbered() == Some(&self.version.version.to_string())
    }

    fn shown(&self) -> String {
        if self.is_newest { self.name.clone() } else { format!("{}@{}", self.name, self.version.version) }
    }

    fn found(&self) -> FoundProgram {
        let NamedVersion { version, manifest, program, .. } = self.version;
        FoundProgram { manifest, named: Some((program, format!("{}@{version}", self.name))) }
    }
}
