//! Exports old records of worlds that no worker runs: acquires the lease, runs the real compactor, releases the lease.

use crate::{cluster::SimPlane, faults::Fault, notes::Notes, run_state::RunState};
use mundi_model::{UniverseId, WorkerId, WorldId};
use mundi_runtime::Plane;
use mundi_store::{
    StoreError,
    protocol::{AcquireLease, ExportPolicy, ReleaseLease},
    segments::{Compacted, Compactor, CompactorConfig},
};
use std::time::Duration;

/// Long enough for an export when nothing goes wrong, too short when something does.
const TTL_NS: u64 = 500_000_000;

pub(crate) async fn run(run_state: RunState, plane: SimPlane, universe: UniverseId, worker: WorkerId, notes: Notes) {
    loop {
        run_state.sleep_ms(run_state.between(50, 600)).await;
        let worlds = notes.write(|pages| pages.worlds.get(&universe).cloned().unwrap_or_default());
        let pick = run_state.below(worlds.len().max(1) as u64);
        if let Some(world) = usize::try_from(pick).ok().and_then(|pick| worlds.get(pick)) {
            // Someone runs it, or the network is down: the next one.
            let _next = export(&run_state, &plane, universe, worker, *world).await;
        }
    }
}

async fn export(
    run_state: &RunState,
    plane: &SimPlane,
    universe: UniverseId,
    worker: WorkerId,
    world: WorldId,
) -> Result<(), StoreError> {
    let acquire = AcquireLease { universe, world, worker, now_ns: plane.now_ns(), ttl_ns: TTL_NS, opening: None };
    let fence = plane.run(&acquire).await?.output.fence;
    let margin = if run_state.faults().has(Fault::TinyLimits) { 0 } else { run_state.below(4) };
    let config = CompactorConfig {
        policy: ExportPolicy { margin, records_min: 3, ..ExportPolicy::DEFAULT },
        bytes_per_second_max: 0,
        delete_pause: Duration::from_millis(5),
        ..CompactorConfig::default()
    };
    let compactor = Compactor::new(plane.segments.clone(), plane.clock.clone(), config);
    while let Compacted::Exported { .. } = compactor.turn(fence).await? {}
    plane.run(&ReleaseLease { fence, active_at_ns: None }).await?;
    Ok(())
}
