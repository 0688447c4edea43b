//! A runner: takes the world that has waited longest, and runs one cycle of it.

use super::{
    Phase, Shared, WorkerConfig,
    probation::{FirstCycle, Probation},
    scheduler::{After, Job, Wish},
};
use crate::{
    Plane, RuntimeError,
    metrics::Metric,
    shell::{Command, send_commands},
    world::WorldHost,
    world_name::world_name,
    yielding::let_others_go_first,
};
use futures_util::future::select;
use mundi_engine::Engine;
use mundi_model::{
    Code, Coded, UniverseId, WorldId,
    limits::{SUSPECT_WAIT_NS, SUSPECT_WAIT_NS_MAX},
    mutants::{Mutant, planted},
    record::Held,
};
use mundi_store::{
    DamagedObject, Fence, StoreError,
    blob::Blobs,
    journal::Segments,
    keyspace::{
        assignment::{self, Assignment},
        inbox_depth::{self, Depth},
    },
    protocol::{
        AcquireLease, Acquired, EndProbation, ForgetAssignment, HeldInput, HoldWorld, IsReady, LeaseError, Opening,
        ReleaseLease, SettleWorld, Settled,
    },
};
use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tracing::Instrument;

type Host<P> = Box<WorldHost<P>>;

pub(super) async fn run<P: Plane>(shared: Arc<Shared<P>>) {
    loop {
        if shared.runners_busy.load(Ordering::Relaxed) > 0 {
            // What others bring for a world that waits comes into the same turn. A runner that is alone waits for nobody.
            let_others_go_first().await;
        }
        // Before a world is taken: items that wait for a world go to its inbox after a moment.
        let is_paced = shared.pace.get().is_some_and(|pace| pace.wait().is_some());
        let (upkeep, paced_ns) = if is_paced { Box::pin(keep_pace(&shared)).await } else { (None, 0) };
        let seen = shared.work.version();
        if shared.phase() == Phase::Over {
            return;
        }
        let job = upkeep.or_else(|| shared.scheduler.lock().next());
        if is_paced && job.as_ref().is_some_and(|job| !job.is_upkeep) {
            shared.metrics.add(Metric::PacedCycles, 1);
            shared.metrics.add(Metric::PacedNs, paced_ns);
        }
        match job {
            Some(Job { world, host, release: true, .. }) => {
                Box::pin(release(&shared, world, host)).await;
                shared.signal.notify();
            }
            Some(job) => {
                let name = job.host.as_ref().and_then(|host| host.name());
                let span = tracing::info_span!("cycle", world = %job.world, name);
                shared.runners_busy.fetch_add(1, Ordering::Relaxed);
                pin!(cycle(&shared, job)).instrument(span).await; // pinned: to instrument it would move it otherwise
                shared.runners_busy.fetch_sub(1, Ordering::Relaxed);
            }
            None => shared.work.changed(seen).await,
        }
    }
}

/// The longest nap of a world that waits for its universe's pace: what is used meanwhile, and a drain, change how long that is.
const PACE_NAP_MAX: Duration = Duration::from_millis(100);

/// Waits until the universe may go on; says how long that took. What runs no step does not wait: releases, and snapshots and exports of worlds
/// in memory. A worker that drains waits for nothing.
async fn keep_pace<P: Plane>(shared: &Shared<P>) -> (Option<Job<Host<P>>>, u64) {
    let begun_ns = shared.plane.now_ns();
    while shared.phase() == Phase::Running
        && let Some(wait) = shared.pace.get().and_then(|pace| pace.wait())
    {
        let seen = shared.work.version();
        let upkeep = shared.scheduler.lock().next_upkeep();
        if upkeep.is_some() {
            return (upkeep, 0);
        }
        select(shared.work.changed(seen), shared.plane.clock().sleep(wait.min(PACE_NAP_MAX))).await;
    }
    (None, shared.plane.now_ns().saturating_sub(begun_ns))
}

async fn cycle<P: Plane>(shared: &Shared<P>, job: Job<Host<P>>) {
    let (world, started_ns) = (job.world, shared.plane.now_ns());
    let result = run_world(shared, job).await;
    let now_ns = shared.plane.now_ns();
    shared.metrics.add(Metric::CycleNs, now_ns.saturating_sub(started_ns));
    shared.metrics.raise(Metric::CycleNsMax, now_ns.saturating_sub(started_ns));
    match result {
        Ok(None) => {
            shared.scheduler.lock().forget(world, None);
            shared.signal.notify();
        }
        Ok(Some((host, after))) => {
            let bytes = host.resident_bytes();
            let mut scheduler = shared.scheduler.lock();
            let first_to_settle = matches!(after, After::More | After::Active) && !scheduler.has_unsettled();
            let lost = scheduler.put_back(world, host, bytes, after, now_ns).is_err();
            let too_much = scheduler.resident_bytes() > shared.config.resident_bytes_max
                || scheduler.residents() > shared.config.worlds_max as usize;
            drop(scheduler);
            if lost {
                shared.metrics.add(Metric::LeasesLost, 1);
                shared.note_behind(world, 0);
            }
            if lost || first_to_settle || too_much {
                shared.signal.notify();
            }
        }
        Err(error) => {
            Box::pin(failed(shared, world, &error)).await;
            shared.signal.notify();
        }
    }
}

/// Worlds of this process whose calls were answered need not wait for the ready queue.
fn wake_callers<P: Plane>(shared: &Shared<P>, callers: Vec<(UniverseId, WorldId)>) {
    shared.metrics.add(Metric::WorldCallsAnswered, callers.len() as u64);
    let ours = callers.into_iter().filter(|(universe, _)| *universe == shared.config.universe);
    for (_, world) in ours {
        let mut scheduler = shared.scheduler.lock();
        if scheduler.holds(world) && scheduler.insist(world, shared.plane.now_ns()) {
            shared.work.notify_one();
        }
    }
}

/// One cycle of a world that is held, or can be; `None` if it was tried for in vain before, and has no work any more. What not
/// every cycle does is a future in a box, so that this one, which is made for every cycle, stays small.
async fn run_world<P: Plane>(shared: &Shared<P>, job: Job<Host<P>>) -> Result<Option<(Host<P>, After)>, RuntimeError> {
    let Job { world, wish, failed, active_at_ns, .. } = job;
    let (mut host, probation) = match job.host {
        Some(mut host) if job.is_upkeep => {
            Box::pin(keep_up(shared, &mut host, wish)).await?;
            return Ok(Some((host, After::More)));
        }
        Some(host) => (host, None),
        None if job.is_doubtful && !Box::pin(is_ready(shared, world)).await? => return Ok(None),
        None => Box::pin(open(shared, world)).await?,
    };
    let mut budget = shared.config.cycle;
    if let Some(code) = failed {
        // One by one: what can be taken is, and what cannot is known. Commands may repair it.
        budget.items_max = 1;
        host.take_commands_first(Held { code: code.to_string(), reason: code.meaning().to_owned(), failed: None });
    }
    if let Some(probation) = &probation {
        probation.limit(&mut budget);
        probation.commands_first().into_iter().for_each(|held| host.take_commands_first(held));
    }
    host.admit(shared.scheduler.lock().take_items(world, shared.config.cycle.items_max));
    let deliver = |replies| shared.metrics.add(Metric::RepliesDelivered, shared.calls.deliver(world, replies));
    let cycled = host.cycle(&budget, deliver).await?;
    let callers = host.take_callers();
    if !callers.is_empty() {
        wake_callers(shared, callers);
    }
    if let Some(Probation { first, .. }) = probation {
        Box::pin(shared.plane.run(&EndProbation { fence: host.fence() })).await?;
        drop(first);
    }
    shared.metrics.add(Metric::Turns, cycled.turns);
    shared.metrics.add(Metric::TurnItems, cycled.items as u64);
    shared.metrics.add(Metric::TurnRecords, cycled.records as u64);
    shared.metrics.add(Metric::InboxAgeNs, cycled.waited.ns);
    shared.metrics.raise(Metric::InboxAgeNsMax, cycled.waited.ns_max);
    shared.note_behind(world, if cycled.more { cycled.waited.ns_max } else { 0 });
    keep_up(shared, &mut host, wish).await?;
    if !cycled.more && host.is_held() && Box::pin(hold_at_failure(shared, &mut host)).await? {
        return Ok(None);
    }
    if cycled.more {
        let depth = Box::pin(depth(shared, host.fence())).await?;
        shared.metrics.raise(Metric::InboxDepthMax, depth.items);
        return Ok(Some((host, After::More)));
    }
    if cycled.turns > 0 {
        return Ok(Some((host, After::Active)));
    }
    if shared.plane.now_ns().saturating_sub(active_at_ns) < shared.config.settle_after_ns {
        return Ok(Some((host, After::Resting)));
    }
    Box::pin(host.note_snapshot_due(&shared.config.snapshots)).await?;
    Box::pin(shared.plane.run(&SettleWorld { fence: host.fence() })).await?;
    // What waits for a paused world is no work; its resume will come with a hint of its own.
    Ok(Some((host, After::Settled)))
}

/// Takes a snapshot and lets old records leave the engine, as far as that is wished or due.
async fn keep_up<P: Plane>(shared: &Shared<P>, host: &mut Host<P>, wish: Wish) -> Result<(), RuntimeError> {
    let snapshot = match wish.snapshot {
        true => Box::pin(host.snapshot()).await?,
        false => host.snapshot_if_due(&shared.config.snapshots).await?,
    };
    if snapshot.is_some() {
        shared.metrics.add(Metric::Snapshots, 1);
    }
    let usual = (snapshot.is_some() && shared.config.segments.enabled).then_some(shared.config.segments.records);
    if wish.export.is_some() || snapshot.is_some() {
        shared.compactions.submit(host.fence(), wish.export.or(usual));
    }
    Ok(())
}

/// Whether a world still has a hint. Without this question a worker would try for every world that it has ever heard of, again and
/// again, for as long as another one holds it.
async fn is_ready<P: Plane>(shared: &Shared<P>, world: WorldId) -> Result<bool, RuntimeError> {
    Ok(shared.plane.run(&IsReady { universe: shared.config.universe, world }).await?.output)
}

async fn depth<P: Plane>(shared: &Shared<P>, fence: Fence) -> Result<Depth, RuntimeError> {
    let mut tx = shared.plane.engine().begin().await?;
    Ok(inbox_depth::read(&mut tx, fence.universe, fence.world).await?)
}

/// Acquires and restores a world; says whether its first cycle is on probation.
async fn open<P: Plane>(shared: &Shared<P>, world: WorldId) -> Result<(Host<P>, Option<Probation>), RuntimeError> {
    let config = &shared.config;
    if !shared.scheduler.lock().admit(world, config.worlds_max as usize) {
        return Err(RuntimeError::WorkerFull { world, worker: config.worker, worlds_max: config.worlds_max });
    }
    // An assignment to no particular worker lets every worker: only one that is missing is waited for.
    if !config.takes_unassigned && assignment_of(shared, world).await?.is_none() {
        return Err(RuntimeError::Unassigned(world));
    }
    let now_ns = shared.plane.now_ns();
    let (Acquired { fence, deaths, after_hold }, first) = acquire(shared, world, now_ns).await?;
    let first = deaths.map(|deaths| Probation { first, deaths, after_hold });
    shared.metrics.add(Metric::LeasesAcquired, 1);
    shared.scheduler.lock().leased(fence, now_ns);
    shared.note_residents();
    if let Some(deaths) = deaths.filter(|deaths| config.deaths_max > 0 && *deaths >= config.deaths_max) {
        return Err(RuntimeError::EndsProcess { world, deaths });
    }
    let mut host = WorldHost::restore(shared.plane.clone(), fence).await?;
    host.register_slots(shared.slots.clone());
    host.take_up_recording(&shared.recordings);
    host.measure(shared.metrics.clone());
    shared.metrics.add(Metric::Restores, 1);
    shared.metrics.add(Metric::RecordsReplayed, host.tail().records);
    Ok((Box::new(host), first))
}

/// A world that may have ended a process is acquired when the process has lived for a while, and no other such world is being opened.
async fn acquire<P: Plane>(
    shared: &Shared<P>,
    world: WorldId,
    now_ns: u64,
) -> Result<(Acquired, FirstCycle), RuntimeError> {
    let WorkerConfig { universe, worker, lease_ttl_ns: ttl_ns, .. } = shared.config;
    let request = |first: &FirstCycle| {
        let opening = Some(Opening { life_ns: shared.life_ns, pass: first.pass() });
        AcquireLease { universe, world, worker, now_ns, ttl_ns, opening }
    };
    let together = shared.first_cycles.together(now_ns);
    let refused = match shared.plane.run(&request(&together)).await {
        Ok(acquired) => return Ok((acquired.output, together)),
        Err(refused) => refused,
    };
    drop(together);
    let StoreError::Lease(LeaseError::OnProbation { deaths: deaths @ 1.., .. }) = refused else {
        return Err(refused.into());
    };
    if now_ns < suspect_at_ns(shared, deaths) {
        return Err(refused.into());
    }
    match shared.first_cycles.alone(now_ns) {
        Some(alone) => Ok((shared.plane.run(&request(&alone)).await?.output, alone)),
        None => Err(refused.into()),
    }
}

/// When a world that may have ended so many processes is opened here at the earliest. A process that ends before was not ended by that world,
/// and so nothing is counted against it: whatever ends processes soon after their start puts no innocent world on hold. The wait grows with
/// what is counted, so that a cause that strikes at one moment does not strike in the same world's first cycle again.
fn suspect_at_ns<P: Plane>(shared: &Shared<P>, deaths: u32) -> u64 {
    let is_to_be_held = shared.config.deaths_max > 0 && deaths >= shared.config.deaths_max;
    if deaths == 0 || is_to_be_held {
        return 0;
    }
    let wait_ns = SUSPECT_WAIT_NS.saturating_mul(1 << (deaths - 1).min(16)).min(SUSPECT_WAIT_NS_MAX);
    shared.life_ns.saturating_add(wait_ns)
}

/// The memory is dropped. What can be had later is tried later; what was lost is left to its new holder.
async fn failed<P: Plane>(shared: &Shared<P>, world: WorldId, error: &RuntimeError) {
    let now_ns = shared.plane.now_ns();
    shared.note_behind(world, 0);
    let retry_at_ns = retry_at_ns(shared, world, error, now_ns);
    let fence = shared.scheduler.lock().forget(world, retry_at_ns);
    match error.code() {
        Code::LeaseHeld
        | Code::LeaseAssignedElsewhere
        | Code::WorldUnassigned
        | Code::WorldArchived
        | Code::WorldOnHold
        | Code::WorldOnProbation
        | Code::WorldDeleted
        | Code::WorldNotFound => {}
        Code::LeaseFenced => shared.metrics.add(Metric::LeasesLost, 1),
        Code::WorkerFull => refuse(shared, world, error).await,
        // The runner is free for worlds for which there is room.
        Code::StepCrowded => {
            tracing::debug!(%error, %world, "a world waits for capacity");
            shared.metrics.add(Metric::StepsCrowded, 1);
            if let Some(fence) = fence {
                give_back(shared, fence).await;
            }
        }
        // Compiling an interpreter takes minutes; `mundi world why` says so meanwhile.
        Code::ProgramPreparing => {
            tracing::info!(%error, %world, "a world waits for its program");
            if let Some(fence) = fence {
                give_back(shared, fence).await;
            }
        }
        code => {
            // While the engine is away, its name is not waited for: others take the world when it is given back.
            let name = if error.is_transient() { None } else { name_of(shared, world).await };
            tracing::warn!(%error, %code, %world, name, "a world was dropped from memory");
            shared.metrics.add(Metric::WorldFailures, 1);
            if let Some(fence) = fence
                && !hold(shared, fence, error).await
            {
                give_back(shared, fence).await;
            }
        }
    }
}

/// Puts a world on hold whose attempts failed too often in a row. Says whether it did.
async fn hold<P: Plane>(shared: &Shared<P>, fence: Fence, error: &RuntimeError) -> bool {
    let (world, code) = (fence.world, error.code());
    if !error.is_of_the_world() || !is_object_damaged(shared, error).await {
        return false;
    }
    let failures = shared.scheduler.lock().fail(world, code);
    if failures < error.attempts_max() || planted(Mutant::HoldSkipped) {
        return false;
    }
    let failures = failures.max(error.deaths());
    let (reason, now_ns) = (error.to_string(), shared.plane.now_ns());
    let request = HoldWorld { fence, code: code.to_string(), reason, failures, failed: None, seen: None, now_ns };
    match shared.plane.run(&request).await {
        Ok(_) => {
            let name = name_of(shared, world).await;
            tracing::error!(%error, %code, %world, name, failures, "a world was put on hold");
            shared.metrics.add(Metric::WorldsHeld, 1);
            shared.metrics.add(Metric::LeasesReleased, 1);
            shared.scheduler.lock().forgive(world);
            true
        }
        Err(error) => {
            let name = name_of(shared, world).await;
            tracing::warn!(%error, %world, name, "a world could not be put on hold");
            false
        }
    }
}

/// Whether the object that an error names, if any, is damaged for good: it is read once more, and the object store must have what else it
/// should have of the universe. Otherwise the attempt does not count against its world, which lacks nothing.
async fn is_object_damaged<P: Plane>(shared: &Shared<P>, error: &RuntimeError) -> bool {
    let (plane, universe) = (&shared.plane, shared.config.universe);
    let again = match error.damaged_object() {
        None => return true,
        Some(DamagedObject::Blob(hash)) => plane.blobs().get(universe, hash).await.err(),
        Some(DamagedObject::Segment(path)) => plane.segments().check(universe, &path).await.err(),
    };
    let is_damaged = again.is_some_and(|error| error.damaged_object().is_some()) && has_objects(shared).await;
    if !is_damaged {
        shared.metrics.add(Metric::ObjectsAbsent, 1);
    }
    is_damaged
}

/// Whether the object store has most of what it should have of the universe. Asked for all worlds at once.
async fn has_objects<P: Plane>(shared: &Shared<P>) -> bool {
    let now_ns = shared.plane.now_ns();
    if shared.objects_absent_until_ns.load(Ordering::Relaxed) > now_ns {
        return false;
    }
    let universe = shared.config.universe;
    let found = shared.plane.blobs().has_objects(universe).await;
    if matches!(found, Ok(true)) {
        return true;
    }
    let why = found.err().map_or_else(|| "most of a sample is not there".to_owned(), |error| error.to_string());
    tracing::error!(%universe, why, "worlds wait for the object store: check that it is the right one and mounted");
    let until_ns = now_ns.saturating_add(shared.config.renew_every_ns);
    shared.objects_absent_until_ns.store(until_ns, Ordering::Relaxed);
    false
}

pub(super) async fn name_of<P: Plane>(shared: &Shared<P>, world: WorldId) -> Option<String> {
    world_name(&shared.plane, shared.config.universe, world).await
}

/// Puts a world on hold that stopped because a step failed, unless something came in that may let it continue. Says whether it did. The
/// journal says so already: a worker that crashes before this leaves it to the next one.
async fn hold_at_failure<P: Plane>(shared: &Shared<P>, host: &mut Host<P>) -> Result<bool, RuntimeError> {
    let Some((Held { code, reason, failed }, height, seen)) = host.held().await? else { return Ok(false) };
    let failed = failed.map(|input| HeldInput { input, height });
    let (fence, world, now_ns) = (host.fence(), host.id(), shared.plane.now_ns());
    let request = HoldWorld { fence, code: code.clone(), reason, failures: 1, failed, seen, now_ns };
    let Some(hold) = shared.plane.run(&request).await?.output else { return Ok(false) };
    let name = name_of(shared, world).await;
    tracing::error!(%world, name, code, height = %hold.height, "a world was put on hold at an input whose step failed");
    shared.metrics.add(Metric::WorldsHeld, 1);
    shared.metrics.add(Metric::LeasesReleased, 1);
    Ok(true)
}

fn retry_at_ns<P: Plane>(shared: &Shared<P>, world: WorldId, error: &RuntimeError, now_ns: u64) -> Option<u64> {
    let config = &shared.config;
    if shared.phase() != Phase::Running {
        return None;
    }
    if let RuntimeError::Store(StoreError::Lease(error)) = error
        && let Some(left_ns) = error.left_ns()
    {
        return Some(now_ns.saturating_add(left_ns));
    }
    if let RuntimeError::Store(StoreError::Lease(LeaseError::OnProbation { deaths, .. })) = error {
        return Some(now_ns.saturating_add(config.retry_ns).max(suspect_at_ns(shared, *deaths)));
    }
    match error.code() {
        Code::WorldDeleted | Code::WorldNotFound => None,
        Code::LeaseAssignedElsewhere | Code::WorldUnassigned | Code::WorldArchived => {
            Some(now_ns.saturating_add(config.lease_ttl_ns))
        }
        Code::WorkerFull => Some(now_ns.saturating_add(config.renew_every_ns)),
        code => {
            let doublings = shared.scheduler.lock().failures(world).min(16);
            let wait_ns_max = if code == Code::StepCrowded { config.renew_every_ns } else { config.lease_ttl_ns };
            let wait_ns = config.retry_ns.saturating_mul(1 << doublings).min(wait_ns_max);
            Some(now_ns.saturating_add(wait_ns))
        }
    }
}

/// Lets others have a world for which there is no room here.
async fn refuse<P: Plane>(shared: &Shared<P>, world: WorldId, error: &RuntimeError) {
    shared.metrics.add(Metric::WorldsRefused, 1);
    if !shared.has_refused.swap(true, Ordering::AcqRel) {
        tracing::warn!(%error, "a world is refused");
    }
    if let Err(error) = forget_assignment(shared, world).await {
        tracing::debug!(%error, %world, "a world stays assigned to a full worker");
    }
}

/// Forgets that a world should run here, unless it is pinned.
async fn forget_assignment<P: Plane>(shared: &Shared<P>, world: WorldId) -> Result<(), RuntimeError> {
    let WorkerConfig { universe, worker, .. } = shared.config;
    if let Some(seen) = assignment_of(shared, world).await?.filter(|seen| seen.desired == Some(worker) && !seen.pinned)
    {
        shared.plane.run(&ForgetAssignment { universe, world, seen }).await?;
    }
    Ok(())
}

/// Gives a world back; the next worker finds a short tail.
async fn release<P: Plane>(shared: &Shared<P>, world: WorldId, host: Option<Host<P>>) {
    shared.note_behind(world, 0);
    if let Some(mut host) = host {
        let draining = shared.phase() == Phase::Draining;
        let tail_max = if draining { 0 } else { shared.config.release_tail_records };
        if host.tail().records > tail_max {
            match host.snapshot().await {
                Ok(_) => shared.metrics.add(Metric::Snapshots, 1),
                Err(error) => tracing::warn!(%error, %world, name = host.name(), "no snapshot before the release"),
            }
        }
        if let Err(error) = host.note_snapshot_due(&shared.config.snapshots).await {
            let name = host.name();
            tracing::debug!(%error, %world, name, "the due time of the next snapshot could not be recorded");
        }
        host.leave_recording(&shared.recordings);
    }
    let fence = shared.scheduler.lock().fence(world);
    if let Some(fence) = fence {
        match shared.plane.run(&SettleWorld { fence }).await.map(|done| done.output) {
            // Where it runs next is decided when it has work.
            Ok(Settled::Idle) => {
                if let Err(error) = forget_assignment(shared, world).await {
                    tracing::debug!(%error, %world, "an idle world could not be unassigned");
                }
            }
            Ok(Settled::Busy) => {}
            Err(error) => tracing::debug!(%error, %world, "a ready hint could not be removed"),
        }
        give_back(shared, fence).await;
        pass_on(shared, world).await;
    }
    shared.scheduler.lock().forget(world, None);
}

async fn assignment_of<P: Plane>(shared: &Shared<P>, world: WorldId) -> Result<Option<Assignment>, RuntimeError> {
    let mut tx = shared.plane.engine().begin().await?;
    Ok(assignment::read(&mut tx, shared.config.universe, world).await?)
}

/// Tells the worker that the world is assigned to: it may have found the lease still held. Without the word it tries
/// again when the lease would have expired.
async fn pass_on<P: Plane>(shared: &Shared<P>, world: WorldId) {
    let WorkerConfig { universe, worker, .. } = shared.config;
    let told = async {
        let assigned = assignment_of(shared, world).await?.and_then(|assigned| assigned.desired);
        match assigned.filter(|assigned| *assigned != worker) {
            Some(assigned) => send_commands(&shared.plane, universe, assigned, &[Command::Assign(world)]).await,
            None => Ok(()),
        }
    };
    if let Err(error) = told.await {
        tracing::debug!(%error, %world, "the next worker could not be notified");
    }
}

async fn give_back<P: Plane>(shared: &Shared<P>, fence: Fence) {
    match shared.plane.run(&ReleaseLease { fence, active_at_ns: Some(shared.plane.now_ns()) }).await {
        Ok(_) => shared.metrics.add(Metric::LeasesReleased, 1),
        // It expires by itself.
        Err(error) => tracing::debug!(%error, world = %fence.world, "a lease could not be released"),
    }
}
