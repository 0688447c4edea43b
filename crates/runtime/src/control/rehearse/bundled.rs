//! Rehearsal over a bundle: the same as over a world, and no engine is needed.

use super::{
    CHECKED_AT_ONCE, Checked, DivergingFunction, FUNCTIONS, PAGE_ITEMS, Rehearsed, check_command, checked, running_in,
};
use crate::{
    RuntimeError,
    bundle::{Bundle, BundleCompare, BundleError},
    lifecycle::FUNCTIONS_INBOX,
};
use mundi_kernel::{
    LoadError, Objects, Registry, World,
    objects::MemoryObjects,
    rehearse::{Compare, Divergence, Rehearsal, Rehearser, Trial},
    replay::Replay,
    verify::with_baseline,
};
use mundi_model::{Hash, Height, limits};
use std::{
    io::{Read, Seek},
    sync::Arc,
};

/// The objects of a bundle, and those of the candidate.
struct Beside<'b, R> {
    bundle: &'b Bundle<R>,
    candidate: MemoryObjects,
}

impl<R: Read + Seek> Objects for Beside<'_, R> {
    fn load(&self, hash: &Hash) -> Result<Arc<[u8]>, LoadError> {
        match self.candidate.load(hash) {
            Err(LoadError::Missing(_)) => self.bundle.load(hash),
            found => found,
        }
    }
}

impl<R: Read + Seek> Bundle<R> {
    /// Runs its history under a manifest that it may not contain, from the newest snapshot on below which the world has nothing of its own, or from
    /// its oldest open work; and asks whether each running instance of a durable function could go on at the head.
    pub fn rehearse(
        &self,
        registry: &Arc<Registry>,
        (candidate, objects): (Hash, &MemoryObjects),
        what: BundleCompare,
    ) -> Result<Rehearsed, RuntimeError> {
        let mut objects = Beside { bundle: self, candidate: objects.clone() };
        let (own, head) = (self.header().own_from(), self.header().head);
        let now = self.replay_below(&objects, registry, head)?.finish()?;
        let open = now.open_intents().chain(now.timers()).filter(|open| !open.label.starts_with(FUNCTIONS.cells));
        let since = open.map(|open| open.place.height).min().unwrap_or(head).max(own);
        let (refused, functions) = try_at_head(&objects, now, candidate)?;
        let (from, mut rehearser) = match what {
            BundleCompare::Steps(compare) => {
                let notes = with_baseline(self.snapshots(), &self.header().baseline).map_err(BundleError::from)?;
                let note = notes.iter().rfind(|note| note.height <= own).or(notes.first());
                let note = note.unwrap_or(&self.header().baseline);
                (note.height, Rehearser::begin(&objects, registry, note, candidate, compare)?)
            }
            BundleCompare::OpenWork if since >= head || refused.is_some() || !functions.is_empty() => {
                return Ok(Rehearsed { from: head, to: head, records: 0, divergence: refused, functions });
            }
            BundleCompare::OpenWork => {
                let mut before = self.replay_below(&objects, registry, since)?;
                let taken = before.snapshot(&objects, |_| true)?;
                for (_, bytes) in &taken.objects {
                    objects.candidate.put(bytes.clone());
                }
                let candidate = (candidate, FUNCTIONS);
                let beside = Rehearser::begin_beside(&objects, registry, &taken.note, candidate, Compare::Outputs)?;
                (since, beside)
            }
        };
        let mut same = true;
        self.for_each_record::<RuntimeError>(|height, bytes| {
            same = same && (height < from || rehearser.apply(&objects, &bytes)?);
            Ok(())
        })?;
        let Rehearsal { records, divergence } = rehearser.finish();
        Ok(Rehearsed { from, to: head, records, divergence, functions })
    }

    /// The world after all records below a height.
    fn replay_below(
        &self,
        objects: &dyn Objects,
        registry: &Arc<Registry>,
        end: Height,
    ) -> Result<Replay, RuntimeError> {
        let mut replay = None::<Replay>;
        self.for_each_record::<RuntimeError>(|height, bytes| {
            match &mut replay {
                _ if height >= end => {}
                Some(replay) => replay.apply(objects, &bytes)?,
                None => replay = Some(Replay::from_genesis(objects, registry.clone(), &bytes)?),
            }
            Ok(())
        })?;
        let empty = || BundleError::Record { height: Height::GENESIS, what: "there are no records".to_owned() };
        Ok(replay.ok_or_else(empty)?)
    }
}

/// Whether the candidate can take over a world as it is, and which instances of durable functions could not go on.
fn try_at_head(
    objects: &dyn Objects,
    now: World,
    candidate: Hash,
) -> Result<(Option<Divergence>, Vec<DivergingFunction>), RuntimeError> {
    let running = running_instances(objects, &now)?;
    let mut trial = Trial::new(now);
    let refused = trial.take_over(objects, candidate)?;
    let mut check = |some: &[String]| trial.ask(objects, candidate, FUNCTIONS_INBOX, &check_command(some)).map(checked);
    let mut diverging = Vec::new();
    for some in running.chunks(CHECKED_AT_ONCE) {
        match check(some)? {
            Checked::Known(found) => diverging.extend(found),
            Checked::Unknown => break,
            // Too much for one step, perhaps.
            Checked::Failed(_) => {
                for one in some {
                    match check(std::slice::from_ref(one))? {
                        Checked::Known(found) => diverging.extend(found),
                        Checked::Unknown => {}
                        Checked::Failed(why) => {
                            diverging.push(DivergingFunction { instance: one.clone(), number: 0, why });
                        }
                    }
                }
            }
        }
    }
    Ok((refused, diverging))
}

/// The instances of durable functions that have not ended, as `FUNCTION/KEY`.
fn running_instances(objects: &dyn Objects, now: &World) -> Result<Vec<String>, RuntimeError> {
    let (mut running, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = now.cells().scan(objects, FUNCTIONS.open, after.as_deref(), PAGE_ITEMS)?;
        let Some((last, _)) = page.last().filter(|_| running.len() < limits::FUNCTIONS_REHEARSED_MAX) else {
            running.truncate(limits::FUNCTIONS_REHEARSED_MAX);
            return Ok(running);
        };
        after = Some(last.clone());
        running.extend(running_in(&page));
    }
}
