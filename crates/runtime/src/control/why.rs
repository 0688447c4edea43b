//! Why a world is not moving, in one answer.

use super::{Budgets, Ops, SpentAttempts, SpentBudget, Waits};
use crate::{Plane, RuntimeError, manifests::load_manifest};
use mundi_kernel::{intents::WORLD_CALL, loader::Readiness};
use mundi_model::{
    Hash, Height, Moment, WorkerId, WorldId, cbor, limits,
    record::{Body, Input, Operator, Payload},
};
use mundi_store::{
    journal::StoredRecord,
    keyspace::{
        child_state::ChildState,
        effect_place::EffectStage,
        world_meta::{Hold, ListedState, WorldMeta},
    },
    protocol::{HeldLease, QueuedEffect, QueuedTimer, ReadChildState, ReadWaits, WorldDescription, WorldWaits},
};
use std::{collections::BTreeSet, fmt};

/// Effects and timers that an answer names; how many more there are is said beside them.
const NAMED_MAX: usize = 10;

/// Pages of the queues that are read to find a world's effects.
const PAGES_MAX: usize = 10;

/// Records that are read at a time to find who paused a world, and how often: more than a turn makes as a rule.
const RECORDS_LOOKED_AT: u64 = 64;
const RECORD_PAGES_MAX: u64 = 64;

/// The answer. The first cause is the one to deal with first.
#[derive(Debug)]
pub struct Why {
    pub world: WorldDescription,
    pub state: ListedState,
    pub causes: Vec<Cause>,
}

/// Something that a world waits for.
#[derive(Debug)]
pub enum Cause {
    /// It has done all that it was asked for.
    NothingToDo,
    Archived,
    Deleted,
    /// It takes nothing but commands, because somebody said so.
    Paused {
        by: Option<Operator>,
        at_ns: Option<u64>,
        height: Option<Height>,
    },
    /// Its turns, or a step, failed: a person decides about the input.
    Person(Hold),
    /// Its inbox has items behind an input that fails.
    Inbox {
        items: u64,
        bytes: u64,
        is_full: bool,
        code: String,
    },
    /// A budget that its universe has used up in this process: its turns wait, or its effects.
    Budget(SpentBudget),
    /// As many effects of its kind are in progress in the universe as may be.
    KindBudget {
        kind: String,
        calls_max: usize,
    },
    /// All slots of this process for its kind are taken.
    KindSlots {
        kind: String,
        calls_max: usize,
    },
    /// This process makes as many attempts as it may.
    Attempts(SpentAttempts),
    /// No worker can take it now.
    Room(Waits),
    /// A worker has the lease and takes its turns, or has stopped and the lease runs out.
    Lease {
        holder: WorkerId,
        until_ns: u64,
        lives: bool,
    },
    /// An operation gets the lease next.
    Requested {
        by: WorkerId,
        until_ns: u64,
    },
    /// Its program is not ready.
    Program {
        program: Hash,
        state: Readiness,
    },
    /// Its children have not ended.
    Children {
        queued: u64,
        active: usize,
    },
    Effect(Box<QueuedEffect>),
    Timer(Box<QueuedTimer>),
    /// More effects than are named.
    MoreEffects,
    MoreTimers,
}

impl Cause {
    /// The stable word for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NothingToDo => "nothing_to_do",
            Self::Archived => "archived",
            Self::Deleted => "deleted",
            Self::Paused { .. } => "paused",
            Self::Person(_) => "person",
            Self::Inbox { .. } => "inbox",
            Self::Budget(_) | Self::KindBudget { .. } | Self::KindSlots { .. } | Self::Attempts(_) => "budget",
            Self::Room(_) => "room",
            Self::Lease { .. } | Self::Requested { .. } => "lease",
            Self::Program { .. } => "program",
            Self::Children { .. } => "children",
            Self::Effect(_) | Self::MoreEffects => "effect",
            Self::Timer(_) | Self::MoreTimers => "timer",
        }
    }

    /// The advice, if there is any.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::Archived => "mundi world unarchive",
            Self::Paused { .. } => "mundi world resume",
            Self::Person(hold) if hold.seq.is_some() => "mundi world retry, skip or upgrade",
            Self::Person(_) => "mundi world resume",
            Self::Inbox { .. } => "release the world first",
            Self::Budget(_) => "wait, or mundi universe quotas set",
            Self::KindBudget { .. } => "wait, or raise effects.kinds.KIND.universe_calls_max",
            Self::KindSlots { .. } => "wait, raise effects.kinds.KIND.calls_max, or start another process",
            Self::Attempts(_) => "wait, raise that setting of [effects], or start another process",
            Self::Room(Waits::Pinned(_)) => "start that worker, or mundi worker unpin",
            Self::Room(_) => "start a worker, or raise node.worlds_max",
            Self::Children { .. } => "mundi world child list, or child cancel",
            Self::Effect(effect) if is_called(effect) => "ask why the world that it calls is not moving",
            Self::Effect(effect) if effect.claim.is_none() && effect.attempts.attempts > 0 => {
                "mundi effect retry or cancel"
            }
            Self::Effect(effect) if effect.claim.is_none() => match &*effect.item.kind {
                "llm.chat" => "set llm.base_url and llm.model, or mundi effect answer",
                "process.run" => "list the command under process.commands, or mundi effect answer",
                _ => "start a worker for this kind, or mundi effect answer",
            },
            Self::Program { state: Readiness::Refused(_), .. } => {
                "upload a program that can run, and upgrade the world"
            }
            _ => return None,
        })
    }
}

/// A moment for people: milliseconds are enough.
fn moment(ns: u64) -> String {
    let exact = Moment(ns).to_string(); // with nine digits of a second, always
    format!("{}Z", &exact[..exact.len() - "000000Z".len()])
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToDo => f.write_str("nothing to do: it waits for an event"),
            Self::Archived => f.write_str("it is archived and takes nothing in"),
            Self::Deleted => f.write_str("it was deleted, or is being deleted"),
            Self::Paused { by, at_ns, .. } => {
                f.write_str("it is paused")?;
                by.iter().try_for_each(|by| write!(f, " by {}", by.name))?;
                at_ns.iter().try_for_each(|at_ns| write!(f, " since {}", moment(*at_ns)))
            }
            Self::Person(Hold { code, reason, height, failures, .. }) => {
                write!(f, "it is on hold at height {height} after {failures} failed attempts: {code}: {reason}")
            }
            Self::Inbox { items, bytes, is_full, code } => {
                let full = if *is_full { "is full" } else { "grows" };
                write!(f, "its inbox {full} behind an input that fails ({code}): {items} items, {bytes} bytes wait")
            }
            Self::Budget(spent) => spent.fmt(f),
            Self::KindBudget { kind, calls_max } => {
                write!(
                    f,
                    "{calls_max} effects of the kind `{kind}` are in progress, and no more may be (universe_calls_max)"
                )
            }
            Self::KindSlots { kind, calls_max } => {
                write!(f, "all {calls_max} slots of this process for the kind `{kind}` are taken (calls_max)")
            }
            Self::Attempts(spent) => spent.fmt(f),
            Self::Room(waits) => write!(f, "it has work and waits for {waits}"),
            Self::Lease { holder, until_ns, lives: true } => {
                write!(f, "{holder} runs it and has its lease until {}", moment(*until_ns))
            }
            Self::Lease { holder, until_ns, lives: false } => {
                write!(f, "{holder}, which does not live, has its lease until {}", moment(*until_ns))
            }
            Self::Requested { by, until_ns } => {
                write!(f, "an operation of {by} gets its lease next, until {}", moment(*until_ns))
            }
            Self::Program { program, state } => match state {
                Readiness::Queued { ahead } => write!(f, "its program {program} is compiled after {ahead} others"),
                Readiness::Compiling { .. } => write!(f, "its program {program} is being compiled"),
                Readiness::Refused(why) => write!(f, "its program {program} cannot run here: {why}"),
                Readiness::Unknown | Readiness::Ready(_) => write!(f, "its program {program} is not compiled yet"),
            },
            Self::Children { queued, active } => {
                write!(f, "it has {active} children that were dispatched and {queued} that wait for their turn")
            }
            Self::Effect(effect) => describe(f, effect),
            Self::Timer(timer) => {
                write!(f, "the timer {} is due at {}", timer.item.intent, moment(timer.item.deliver_at_ns))
            }
            Self::MoreEffects => f.write_str("more effects: mundi effect list --world"),
            Self::MoreTimers => f.write_str("more timers: mundi timer list --world"),
        }
    }
}

/// A call that stands in the inbox of another world is put aside until its deadline.
fn is_called(effect: &QueuedEffect) -> bool {
    effect.item.kind == WORLD_CALL && effect.claim.is_none() && effect.attempts.granted
}

fn describe(f: &mut fmt::Formatter<'_>, effect: &QueuedEffect) -> fmt::Result {
    let QueuedEffect { item, attempts, claim, .. } = effect;
    write!(f, "the effect `{}` ({})", item.kind, item.intent)?;
    match claim {
        Some(claim) => write!(f, " is carried out by {} in attempt {}", claim.worker, claim.attempt),
        None if is_called(effect) => {
            write!(f, " waits for the other world's reply until {}", moment(attempts.not_before_ns))
        }
        None if attempts.granted => write!(f, " waits for its rate limit until {}", moment(attempts.not_before_ns)),
        None if attempts.attempts > 0 => {
            let code = attempts.last_failure.as_deref().unwrap_or("a failure");
            let (tried, next) = (attempts.attempts, moment(attempts.not_before_ns));
            write!(f, " failed {tried} times ({code}) and is tried again at {next}")
        }
        None => f.write_str(" waits for somebody who claims it"),
    }
}

impl<P: Plane> Ops<P> {
    /// Why a world is not moving.
    pub async fn why(&self, world: WorldId) -> Result<Why, RuntimeError> {
        let found = self.describe_world(world).await?;
        let mut state = found.meta.listed_state();
        if state == ListedState::Live && self.is_paused(world, &found.meta).await? {
            state = ListedState::Paused;
        }
        let mut causes = Vec::new();
        match state {
            ListedState::Archived => causes.push(Cause::Archived),
            ListedState::Deleting | ListedState::Deleted => causes.push(Cause::Deleted),
            ListedState::OnHold => causes.extend(held(&found)),
            ListedState::Paused => causes.push(self.paused_by(world, &found).await?),
            ListedState::Live => self.why_no_turn(&found, &mut causes).await?,
        }
        if !found.meta.state.is_gone() {
            self.open_work(world, &mut causes).await?;
        }
        if causes.is_empty() {
            causes.push(Cause::NothingToDo);
        }
        Ok(Why { world: found, state, causes })
    }

    /// In a few words, for a list or a description: one look at the world's own keys.
    pub async fn waits_briefly(
        &self,
        world: WorldId,
        meta: &WorldMeta,
        lease: Option<&HeldLease>,
    ) -> Result<Option<String>, RuntimeError> {
        match (meta.listed_state(), &meta.hold) {
            (ListedState::OnHold, Some(hold)) => return Ok(Some(format!("a person: {}", hold.code))),
            (ListedState::Paused, _) => return Ok(Some("resume".to_owned())),
            (ListedState::Live, _) => {}
            _ => return Ok(None),
        }
        let waits = self.read_waits(world, meta.ready_priority()).await?;
        let children = waits.children_queued + waits.children_active as u64;
        Ok(match waits {
            WorldWaits { is_ready: true, .. } if lease.is_none() => Some("a worker".to_owned()),
            WorldWaits { is_ready: true, .. } => None,
            WorldWaits { effects: 1, .. } => Some("an effect".to_owned()),
            WorldWaits { effects: more @ 2.., .. } => Some(format!("{more} effects")),
            _ if children == 1 => Some("a child".to_owned()),
            _ if children > 1 => Some(format!("{children} children")),
            WorldWaits { due_ns: Some(due_ns), .. } => Some(format!("a timer at {}", moment(due_ns))),
            _ => None,
        })
    }

    async fn read_waits(&self, world: WorldId, priority: u8) -> Result<WorldWaits, RuntimeError> {
        Ok(self.plane.run(&ReadWaits { universe: self.universe, world, priority }).await?.output)
    }

    /// A live world with work that no turn takes.
    async fn why_no_turn(&self, found: &WorldDescription, causes: &mut Vec<Cause>) -> Result<(), RuntimeError> {
        let now_ns = self.plane.now_ns();
        let waits = self.read_waits(found.world, found.meta.ready_priority()).await?;
        if !waits.is_ready {
            return Ok(());
        }
        causes.extend(self.budgets().and_then(Budgets::turns).map(Cause::Budget));
        causes.extend(self.waits_for(found).await?.map(Cause::Room));
        if let Some(lease) = found.lease.filter(|lease| lease.expires_at_ns > now_ns) {
            let lives = self.workers().await?.get(&lease.holder).is_some_and(|record| record.expires_at_ns > now_ns);
            causes.push(Cause::Lease { holder: lease.holder, until_ns: lease.expires_at_ns, lives });
        }
        if let Some(request) = waits.request.filter(|request| request.expires_at_ns > now_ns) {
            causes.push(Cause::Requested { by: request.by, until_ns: request.expires_at_ns });
        }
        causes.extend(self.program_cause(found).await);
        Ok(())
    }

    /// The program of a world, if this process compiles it, or cannot run it. What another process compiles only that one knows.
    async fn program_cause(&self, found: &WorldDescription) -> Option<Cause> {
        let manifest = load_manifest(&self.plane, (self.universe, found.world), found.manifest?).await.ok()?;
        let (program, registry) = (manifest.manifest.program, self.plane.registry());
        if registry.has_program(&program) {
            return None;
        }
        match registry.loader()?.prepare(program, None) {
            Readiness::Ready(_) | Readiness::Unknown => None,
            state => Some(Cause::Program { program, state }),
        }
    }

    /// Children, effects and timers that are open.
    async fn open_work(&self, world: WorldId, causes: &mut Vec<Cause>) -> Result<(), RuntimeError> {
        let ChildState { queued, active, .. } =
            self.plane.run(&ReadChildState { universe: self.universe, parent: world }).await?.output;
        if queued > 0 || !active.is_empty() {
            causes.push(Cause::Children { queued, active: active.len() });
        }
        let (mut effects, mut after) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let page = self.list_effects(Some(world), None, after, NAMED_MAX + 1).await?;
            effects.extend(page.items.into_iter().filter(|effect| !effect.is_withdrawn));
            after = page.next;
            if after.is_none() || effects.len() > NAMED_MAX {
                break;
            }
        }
        effects.sort_by_key(|effect| effect.item.published_at_ns);
        causes.extend(self.spent_on(&effects).await?);
        let more = effects.len() > NAMED_MAX || after.is_some();
        causes.extend(effects.into_iter().take(NAMED_MAX).map(|effect| Cause::Effect(Box::new(effect))));
        causes.extend(more.then_some(Cause::MoreEffects));
        let page = self.list_timers(Some(world), None, limits::LIST_ITEMS_MAX).await?;
        let (mut timers, more) = (page.items, page.next.is_some());
        timers.sort_by_key(|timer| timer.item.deliver_at_ns);
        let more = more || timers.len() > NAMED_MAX;
        causes.extend(timers.into_iter().take(NAMED_MAX).map(|timer| Cause::Timer(Box::new(timer))));
        causes.extend(more.then_some(Cause::MoreTimers));
        Ok(())
    }

    /// The budgets that keep effects back which nobody has begun.
    async fn spent_on(&self, effects: &[QueuedEffect]) -> Result<Vec<Cause>, RuntimeError> {
        let (Some(budgets), now_ns) = (self.budgets(), self.plane.now_ns()) else { return Ok(Vec::new()) };
        let waits = |effect: &&QueuedEffect| {
            effect.claim.is_none() && !effect.attempts.granted && effect.attempts.not_before_ns <= now_ns
        };
        let kinds: BTreeSet<&str> = effects.iter().filter(waits).map(|effect| &*effect.item.kind).collect();
        let mut spent = Vec::new();
        if !kinds.is_empty() {
            spent.extend(budgets.effects().map(Cause::Budget));
            spent.extend(budgets.attempts(now_ns).map(Cause::Attempts));
        }
        for kind in kinds {
            let slots = budgets.kind_slots(kind);
            spent.extend(slots.map(|calls_max| Cause::KindSlots { kind: kind.to_owned(), calls_max }));
            let Some(calls_max) = budgets.kind_calls_max(kind) else { continue };
            let claimed = EffectStage::Claimed;
            let claimed = self.list_effects_at(Some(claimed), None, Some(kind), None, calls_max.max(1)).await?;
            if claimed.items.len() >= calls_max {
                spent.push(Cause::KindBudget { kind: kind.to_owned(), calls_max });
            }
        }
        Ok(spent)
    }

    /// The operator that paused it: the turn that did is noted. For a world that was paused before it was created here, the newest records may say it.
    async fn paused_by(&self, world: WorldId, found: &WorldDescription) -> Result<Cause, RuntimeError> {
        let unknown = Cause::Paused { by: None, at_ns: None, height: None };
        let Some(head) = found.head.as_ref().map(|head| head.height) else { return Ok(unknown) };
        let Some(turn) = found.meta.paused_from else {
            let from = Height::new(head.get().saturating_sub(RECORDS_LOOKED_AT));
            let records = self.records_between(world, from, head).await?;
            return Ok(records.iter().rev().find_map(pause).unwrap_or(unknown));
        };
        for page in 0..RECORD_PAGES_MAX {
            let from = turn.get().saturating_add(page * RECORDS_LOOKED_AT);
            let until = from.saturating_add(RECORDS_LOOKED_AT).min(head.get());
            if from >= until {
                break;
            }
            let records = self.records_between(world, Height::new(from), Height::new(until)).await?;
            if let Some(paused) = records.iter().find_map(pause) {
                return Ok(paused);
            }
        }
        Ok(unknown)
    }
}

/// The command `pause`, if that is what a record took in.
fn pause(record: &StoredRecord) -> Option<Cause> {
    let Ok(Body::Ingress(ingress)) = record.decode().map(|record| record.body) else { return None };
    let Input::Control { command, payload } = &ingress.item.input else { return None };
    if command != "pause" {
        return None;
    }
    let by = match payload {
        Payload::Inline(bytes) => cbor::decode(bytes).ok(),
        Payload::Blob(..) => None,
    };
    Some(Cause::Paused { by, at_ns: Some(ingress.item.origin.enqueued_at_ns), height: Some(record.height) })
}

/// A world on hold, and what waits behind the input that it is held at.
fn held(found: &WorldDescription) -> Vec<Cause> {
    let Some(hold) = found.meta.hold.clone() else { return Vec::new() };
    let (depth, bounds) = (&found.inbox, found.meta.inbox);
    let is_full = depth.items >= bounds.items_max || depth.bytes >= bounds.bytes_max;
    let inbox = Cause::Inbox { items: depth.items, bytes: depth.bytes, is_full, code: hold.code.clone() };
    let waits = (depth.items > 0).then_some(inbox);
    [Cause::Person(hold)].into_iter().chain(waits).collect()
}
