//! The index of worlds: after every commit, the entries of each world that it touches are those that follow from the world's record, its manifest and its last
//! activity; a name leads to the world that has it, and never to another one.

use super::Evidence;
use crate::{history::WorldAddress, log::Write};
use bytes::Bytes;
use mundi_model::{Hash, WorldId, cbor};
use mundi_store::keyspace::{
    Family, Parts,
    last_active::LastActive,
    manifest_at,
    named_world::{self, NamedWorld},
    world_index::{self, Indexed},
    world_meta::WorldMeta,
};
use std::collections::{BTreeMap, BTreeSet};

/// The entries of the log so far.
#[derive(Default)]
struct Told {
    metas: BTreeMap<WorldAddress, WorldMeta>,
    /// The newest manifest; heights only rise.
    manifests: BTreeMap<WorldAddress, Hash>,
    active: BTreeMap<WorldAddress, u64>,
    entries: BTreeMap<WorldAddress, BTreeSet<Bytes>>,
    names: BTreeMap<Bytes, WorldId>,
}

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let mut told = Told::default();
    for (number, commit) in evidence.commits.iter().enumerate() {
        let mut touched = BTreeSet::new();
        for write in &commit.writes {
            touched.extend(told.hear(write)?);
        }
        for place in touched {
            told.check(place).map_err(|why| format!("{why} (commit {number}, {})", commit.protocol))?;
        }
    }
    Ok(())
}

impl Told {
    /// The world that a write is about, if the index has to do with it.
    fn hear(&mut self, write: &Write) -> Result<Option<WorldAddress>, String> {
        let key = write.key();
        let Some(parts) = Parts::of(key) else { return Ok(None) };
        let place = match (parts.family, parts.world) {
            (Family::WorldIndex, _) => (parts.universe, world_index::world_of(key).ok_or("an entry without a world")?),
            (Family::WorldMeta | Family::ManifestAt | Family::LastActive, Some(world)) => (parts.universe, world),
            (Family::NamedWorld, _) => {
                if let Write::Put(key, value) = write {
                    let named: NamedWorld = cbor::decode(value).map_err(|error| error.to_string())?;
                    if let Some(before) = self.names.insert(key.clone(), named.world)
                        && before != named.world
                    {
                        return Err(format!("the name of {before} was given to {}, too", named.world));
                    }
                }
                return Ok(None);
            }
            _ => return Ok(None),
        };
        match (write, parts.family) {
            (Write::Put(_, value), Family::WorldMeta) => {
                self.metas.insert(place, cbor::decode(value).map_err(|error| error.to_string())?);
            }
            (Write::Put(key, value), Family::ManifestAt) => {
                self.manifests.insert(place, manifest_at::decode(key, value).map_err(|error| error.to_string())?);
            }
            (Write::Put(_, value), Family::LastActive) => {
                let active: LastActive = cbor::decode(value).map_err(|error| error.to_string())?;
                self.active.insert(place, active.at_ns);
            }
            (Write::Put(key, _), Family::WorldIndex) => {
                self.entries.entry(place).or_default().insert(key.clone());
            }
            (Write::Delete(key), Family::WorldIndex) => {
                self.entries.entry(place).or_default().remove(key);
            }
            _ => {}
        }
        Ok(Some(place))
    }

    fn check(&self, place: WorldAddress) -> Result<(), String> {
        let (universe, world) = place;
        let Some(meta) = self.metas.get(&place) else { return Ok(()) };
        let mut expected = world_index::entries(universe, world, meta);
        if !meta.state.is_gone()
            && let Some(manifest) = self.manifests.get(&place)
        {
            expected.insert(world_index::key(universe, Indexed::Manifest(*manifest), world));
        }
        if !meta.state.is_gone() {
            let active_ns = self.active.get(&place).copied().unwrap_or(0);
            expected.insert(world_index::key(universe, Indexed::ActiveAt(active_ns), world));
        }
        let none = BTreeSet::new();
        let found = self.entries.get(&place).unwrap_or(&none);
        if !expected.iter().map(|key| key.as_bytes()).eq(found.iter().map(|key| &key[..])) {
            let (expected, found) = (expected.len(), found.len());
            return Err(format!("{world} has other entries in the index than follow from it: {found}, not {expected}"));
        }
        if let Some(name) = &meta.name {
            let key = named_world::key(universe, name);
            if self.names.get(key.as_bytes()) != Some(&world) {
                return Err(format!("the name `{name}` does not lead to {world}"));
            }
        }
        Ok(())
    }
}
