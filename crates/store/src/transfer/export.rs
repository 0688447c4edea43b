//! From an engine and its objects to an export.

use super::{
    FORMAT, Header, Progress, TransferError, after, all_keys, copy, header_path, object_path, page, part, part_path,
    read_all,
};
use crate::{blobs::bodies_prefix, keyspace::universe_import, objects::Objects, segments::objects_prefix};
use bytes::Bytes;
use mundi_engine::{Engine, Transaction};
use mundi_model::{UniverseId, cbor};

/// Writes a universe. Whoever calls has made sure that nothing of it runs; what changed meanwhile is noticed and refused.
///
/// An export that was broken off continues where it was.
pub async fn export<E: Engine>(
    engine: &E,
    objects: &Objects,
    (name, universe): (&str, UniverseId),
    to: &Objects,
    now_ns: u64,
    mut progress: impl FnMut(Progress),
) -> Result<Header, TransferError> {
    if read_all(to, &header_path()).await?.is_some() {
        return Err(TransferError::Refused("there is a whole export already".to_owned()));
    }
    let (parts, keys) = write_keys(engine, universe, to, &mut progress).await?;
    let mut copied = 0;
    for prefix in [bodies_prefix(universe), objects_prefix(universe)] {
        let mut found = Vec::new();
        objects.list(&prefix, |meta| found.push((meta.location, meta.size))).await?;
        for (path, size) in found {
            copy(objects, &path, to, &object_path(&path), size).await?;
            copied += 1;
            progress(Progress::Objects(copied));
        }
    }
    compare(engine, universe, to, parts, &mut progress).await?;
    // A deletion of nothing changes nothing, and has its place in the order of commits all the same.
    let mut tx = engine.begin().await?;
    tx.delete(universe_import::key(universe).as_bytes())?;
    let last = tx.commit().await?.stamp();
    let stamp = last.ok_or_else(|| TransferError::Invalid("the engine gave no stamp".to_owned()))?;
    let header = Header {
        format: FORMAT,
        name: name.to_owned(),
        universe,
        stamp,
        parts,
        keys,
        objects: copied,
        created_at_ns: now_ns,
    };
    to.put(&header_path(), cbor::encode(&header).into()).await?;
    Ok(header)
}

/// How many parts and keys there are.
async fn write_keys<E: Engine>(
    engine: &E,
    universe: UniverseId,
    to: &Objects,
    progress: &mut impl FnMut(Progress),
) -> Result<(u64, u64), TransferError> {
    let (mut from, end) = all_keys(universe);
    let (mut number, mut keys) = (0, 0);
    loop {
        // What an earlier run has written is taken as it is; the comparison at the end finds what has changed since.
        let written = read_all(to, &part_path(number)).await?.and_then(|bytes| part::decode(number, &bytes).ok());
        let (items, more) = match written {
            Some(items) => (items, true),
            None => {
                let (items, more) = page(engine, &from, &end).await?;
                to.put(&part_path(number), part::encode(&items)).await?;
                (items, more)
            }
        };
        number += 1;
        keys += items.len() as u64;
        progress(Progress::Keys(keys));
        match items.last() {
            Some((last, _)) if more => from = after(last),
            _ => return Ok((number, keys)),
        }
    }
}

/// Whether the engine still holds exactly what the parts say.
pub(super) async fn compare<E: Engine>(
    engine: &E,
    universe: UniverseId,
    parts: &Objects,
    count: u64,
    progress: &mut impl FnMut(Progress),
) -> Result<(), TransferError> {
    let ((mut from, end), mut compared) = (all_keys(universe), 0);
    for number in 0..count {
        let stored = read_all(parts, &part_path(number)).await?;
        let stored = stored.ok_or_else(|| TransferError::Invalid(format!("part {number} is missing")))?;
        let mut expected = part::decode(number, &stored)?.into_iter().peekable();
        while let Some((last, _)) = expected.peek().cloned() {
            let (found, _) = page(engine, &from, &end).await?;
            let Some((newest, _)) = found.last().cloned() else { return Err(differs(&last)) };
            for item in found {
                match expected.next() {
                    Some(same) if same == item => compared += 1,
                    Some((key, _)) => return Err(differs(&key)),
                    // The part has ended within the page: the next one begins there.
                    None => {
                        from = item.0;
                        break;
                    }
                }
                from = after(&item.0);
            }
            debug_assert!(from <= after(&newest));
            progress(Progress::Compared(compared));
        }
    }
    match page(engine, &from, &end).await?.0.first() {
        None => Ok(()),
        Some((key, _)) => Err(differs(key)),
    }
}

fn differs(key: &Bytes) -> TransferError {
    let key: String = key.iter().take(40).map(|byte| format!("{byte:02x}")).collect();
    TransferError::Refused(format!(
        "the engine holds something else than the export at key {key}…: is the universe in use?"
    ))
}
