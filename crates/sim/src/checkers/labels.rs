//! Labels: they change only by commands that are on record. Every commit that changes the labels of a world puts the command that says so into the world's
//! inbox, and the labels of a new world are those of its parent at that moment, changed by its own command.

use super::Evidence;
use crate::{history::WorldAddress, log::Write};
use mundi_model::{
    LabelChange, Labels, cbor,
    record::{InboxItem, Input, Payload},
};
use mundi_store::keyspace::{Family, Parts, world_meta::WorldMeta};
use std::collections::BTreeMap;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let mut told: BTreeMap<WorldAddress, Labels> = BTreeMap::new();
    for (number, commit) in evidence.commits.iter().enumerate() {
        let (mut changes, mut metas) = (BTreeMap::<WorldAddress, Vec<LabelChange>>::new(), Vec::new());
        for write in &commit.writes {
            let Write::Put(key, value) = write else { continue };
            let Some(Parts { universe, world: Some(world), family, .. }) = Parts::of(key) else { continue };
            match family {
                Family::WorldMeta => metas.push(((universe, world), decode::<WorldMeta>(value)?)),
                Family::InboxEntry => changes.entry((universe, world)).or_default().extend(change(&decode(value)?)?),
                _ => {}
            }
        }
        for (place, meta) in metas {
            let parent = meta.lineage.as_ref().and_then(|lineage| told.get(&(place.0, lineage.parent)));
            let mut labels = told.get(&place).or(parent).cloned().unwrap_or_default();
            for change in changes.remove(&place).unwrap_or_default() {
                labels = labels.after(&change).map_err(|error| format!("{}: {error}", place.1))?;
            }
            let found = meta.labels.unwrap_or_default();
            if found != labels {
                let (world, protocol) = (place.1, commit.protocol);
                return Err(format!(
                    "{world} has other labels than its commands say: {found:?}, not {labels:?} (commit {number}, {protocol})"
                ));
            }
            told.insert(place, found);
        }
    }
    Ok(())
}

/// The change of labels in a command, if it is one about them.
fn change(item: &InboxItem) -> Result<Option<LabelChange>, String> {
    match &item.input {
        Input::Control { command, payload: Payload::Inline(bytes) } if command == LabelChange::COMMAND => {
            decode(bytes).map(Some)
        }
        _ => Ok(None),
    }
}

fn decode<V: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()>>(bytes: &[u8]) -> Result<V, String> {
    cbor::decode(bytes).map_err(|error| error.to_string())
}
