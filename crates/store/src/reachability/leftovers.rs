//! Bodies in the object store that no metadata names: deletions that were not finished, and puts that never were.

use super::{pace::Pace, scan::scan};
use crate::{
    StoreError,
    blobs::{BlobError, Cas, bodies_prefix, body_path, incoming_prefix},
    keyspace::{
        Family,
        cas_doomed::{self, Doomed},
        cas_meta::Generation,
        decode_value,
    },
    protocol::cas_sweep::{DoomOrphan, ForgetDoomed, Postpone},
    run,
};
use mundi_engine::Engine;
use mundi_model::{Hash, UniverseId};
use object_store::{ObjectMeta, path::Path};
use std::{collections::BTreeMap, time::Duration};

/// Finishes deletions that an earlier sweep decided, and forgets them once they are long over.
///
/// A record is forgotten only if a whole grace period has passed since a deletion was last sent, so that none can still
/// be on its way when the first key of that hash is used again.
pub(super) async fn finish_deletions<E: Engine>(
    cas: &Cas<E>,
    universe: UniverseId,
    grace: Duration,
    pace: &Pace,
) -> Result<usize, StoreError> {
    let mut due: Vec<(Hash, Doomed)> = Vec::new();
    let now_ns = cas.clock.now_ns();
    scan(&cas.engine, pace, cas_doomed::span(universe), |key, value| {
        let doomed: Doomed = decode_value(Family::Sweep, key, value)?;
        if is_older(now_ns, doomed.doomed_at_ns, grace) {
            due.push((cas_doomed::parse(universe, key)?, doomed));
        }
        Ok(())
    })
    .await?;
    let mut deleted = 0;
    for (hash, doomed) in due {
        let path = body_path(universe, hash, doomed.generation);
        if cas.objects.size(&path).await.map_err(BlobError::from)?.is_none() {
            run(&cas.engine, &*cas.clock, &ForgetDoomed { universe, hash, doomed }).await?;
            continue;
        }
        let postpone = Postpone { universe, hash, doomed, now_ns: cas.clock.now_ns() };
        if run(&cas.engine, &*cas.clock, &postpone).await?.output {
            cas.objects.delete(&path).await.map_err(BlobError::from)?;
            deleted += 1;
            pace.after_removal().await;
        }
    }
    Ok(deleted)
}

/// Removes bodies whose put never came to its metadata. Each is doomed first, so that a put of the same bytes that is
/// in progress takes another key.
pub(super) async fn remove_orphans<E: Engine>(
    cas: &Cas<E>,
    universe: UniverseId,
    grace: Duration,
    known: &BTreeMap<Hash, Generation>,
    pace: &Pace,
) -> Result<usize, StoreError> {
    let now_ns = cas.clock.now_ns();
    let mut orphans = Vec::new();
    let find = |meta: ObjectMeta| {
        let Some((hash, generation)) = parse_body(&meta.location) else { return };
        if known.get(&hash) != Some(&generation) && is_older(now_ns, modified_ns(&meta), grace) {
            orphans.push((hash, generation));
        }
    };
    cas.objects.list(&bodies_prefix(universe), find).await.map_err(BlobError::from)?;
    let mut deleted = 0;
    for (hash, generation) in orphans {
        let doom = DoomOrphan { universe, hash, generation, now_ns: cas.clock.now_ns() };
        if run(&cas.engine, &*cas.clock, &doom).await?.output {
            cas.objects.delete(&body_path(universe, hash, generation)).await.map_err(BlobError::from)?;
            deleted += 1;
            pace.after_removal().await;
        }
    }
    Ok(deleted)
}

/// Removes uploads whose hash was never known.
pub(super) async fn remove_incoming<E: Engine>(
    cas: &Cas<E>,
    universe: UniverseId,
    grace: Duration,
    pace: &Pace,
) -> Result<usize, StoreError> {
    let now_ns = cas.clock.now_ns();
    let mut old: Vec<Path> = Vec::new();
    let find = |meta: ObjectMeta| {
        if is_older(now_ns, modified_ns(&meta), grace) {
            old.push(meta.location);
        }
    };
    cas.objects.list(&incoming_prefix(universe), find).await.map_err(BlobError::from)?;
    for path in &old {
        cas.objects.delete(path).await.map_err(BlobError::from)?;
        pace.after_removal().await;
    }
    Ok(old.len())
}

fn is_older(now_ns: u64, then_ns: u64, grace: Duration) -> bool {
    Duration::from_nanos(now_ns.saturating_sub(then_ns)) >= grace
}

/// By the object store's clock; before 1970 counts as then, beyond the range of the type as never.
fn modified_ns(meta: &ObjectMeta) -> u64 {
    let ns = meta.last_modified.timestamp_nanos_opt().unwrap_or(i64::MAX);
    u64::try_from(ns).unwrap_or(0)
}

/// The inverse of `body_path`; whatever else lies there is not ours to judge.
fn parse_body(path: &Path) -> Option<(Hash, Generation)> {
    let name = path.filename()?;
    let (digits, generation) = match name.split_once('.') {
        Some((digits, number)) => (digits, Generation::new(number.parse().ok().filter(|number| *number > 0)?)),
        None => (name, Generation::FIRST),
    };
    Some((format!("h_{digits}").parse().ok()?, generation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_body_gives_its_hash_and_generation_back() {
        let (universe, hash) = (UniverseId::from_bytes([1; 16]), Hash::of(b"x"));
        for number in [0, 1, 77] {
            let generation = Generation::new(number);
            assert_eq!(parse_body(&body_path(universe, hash, generation)), Some((hash, generation)));
        }
        for name in ["", "x", "00", "README.md"] {
            assert_eq!(parse_body(&Path::from(format!("cas/u/sha256/{name}"))), None);
        }
    }
}
