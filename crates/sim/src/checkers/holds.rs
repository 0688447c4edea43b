//! Holds: one world's failing turns never stop another world. A world whose turns always fail is put on hold and not tried for
//! ever; a world whose turns can be taken never is. That the others come to rest meanwhile, liveness shows.

use super::Evidence;
use crate::{director::broken_world, story::WorldStory};
use mundi_model::{
    Code,
    record::{EffectPolicy, ForkGenesis},
};
use mundi_store::keyspace::world_meta::Hold;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    for ((_, world), story) in &evidence.story.worlds {
        let held = story.metas().find_map(|meta| meta.hold.as_ref());
        match (*world == broken_world(), held) {
            (true, _) => check_broken(story).map_err(|why| format!("{world}: {why}"))?,
            (false, Some(hold)) if stops_by_policy(story, hold) => {}
            (false, Some(hold)) => return Err(format!("{world} was put on hold: {}: {}", hold.code, hold.reason)),
            (false, None) => {}
        }
    }
    Ok(())
}

/// A recorded fork stops at the first difference from its parent.
fn stops_by_policy(story: &WorldStory, hold: &Hold) -> bool {
    let is_recorded = |genesis: ForkGenesis| genesis.policy == EffectPolicy::Recorded;
    hold.code == Code::ForkDiverged.as_str() && story.fork().is_some_and(is_recorded)
}

fn check_broken(story: &WorldStory) -> Result<(), String> {
    let Some(meta) = story.metas().last() else { return Ok(()) };
    match &meta.hold {
        None => Err("its turns always fail, and it is not on hold after everything else came to rest".to_owned()),
        Some(hold) if hold.code != Code::StepAbandoned.as_str() => {
            Err(format!("it is on hold for {}: {}", hold.code, hold.reason))
        }
        Some(hold) if hold.seq.is_none() => Err("it is on hold, and nothing waits for it".to_owned()),
        Some(_) => Ok(()),
    }
}
