//! Clients: they send, call, fork, upgrade, move and delete worlds, and record the answers.

use crate::{
    cluster::{Doors, SimPlane},
    fake_service::CALL,
    faults::Fault,
    notes::{ByHand, Fate, Forked, Notes, Sent},
    run_state::RunState,
};
use mundi_kernel::Upgrade;
use mundi_model::{
    Code, Coded, Hash, Height, InboxSeq, IntentHash, Kind, LabelChange, Labels, UniverseId, Value, WorkerId, WorldId,
    cbor,
    record::{EffectPolicy, InboxItem, Input, Operator, Origin, Payload, ReceiptStatus, ReplyOutcome},
};
use mundi_runtime::{
    Plane, RuntimeError,
    calls::Calls,
    control::{EffectName, HandAnswer, Ops},
    lifecycle::{Beginning, ForkAt, Naming, NewWorld, create_named},
};
use mundi_store::{
    keyspace::world_meta::InboxBounds,
    protocol::{AnsweredByHand, ExportPolicy, QueuedEffect},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A universe as a client knows it.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) universe: UniverseId,
    /// The manifests that worlds run; the first one is what they begin with.
    pub(crate) manifests: Vec<Hash>,
    /// The nodes that run worlds there.
    pub(crate) workers: Vec<WorkerId>,
}

/// A client on a node that may crash. What it still has to do survives it, as a person would.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) number: u32,
    pub(crate) run_state: RunState,
    pub(crate) plane: SimPlane,
    pub(crate) doors: Doors,
    pub(crate) setting: Setting,
    pub(crate) notes: Notes,
}

impl Client {
    /// Does what is left, with pauses between.
    pub(crate) async fn run(self, work: Arc<Vec<AtomicU64>>, place: usize) {
        while work[place].load(Ordering::SeqCst) > 0 {
            self.run_state.sleep_ms(self.run_state.below(1_200)).await;
            let number = work[place].fetch_sub(1, Ordering::SeqCst);
            self.act(number).await;
        }
    }

    async fn act(&self, number: u64) {
        let run_state = &self.run_state;
        let id = format!("c{}-{number}", self.number);
        let Some(world) = self.any_world() else { return };
        let faults = run_state.faults();
        let result = match run_state.below(100) {
            0..8 if faults.has(Fault::Forks) => self.fork(world, &id, number).await,
            8..14 if faults.has(Fault::Upgrades) => self.upgrade(world).await,
            14..24 if faults.has(Fault::Lifecycle) => self.change_life(world).await,
            24..32 if faults.has(Fault::Moves) => self.assign(world).await,
            32..34 => self.create(&id, number).await,
            60..64 => self.label(world, number).await,
            34..44 => self.call(world, &id).await,
            44..60 if faults.has(Fault::Answers) => self.answer_by_hand(world, &id).await,
            _ => {
                self.send(world, &id, &self.script(&id, number)).await;
                Ok(())
            }
        };
        if let Err(error) = result {
            run_state.note(format_args!("client {id} was refused: {}", error.code()));
        }
    }

    fn any_world(&self) -> Option<WorldId> {
        let pick = |count: usize| usize::try_from(self.run_state.below(count as u64)).unwrap_or(0);
        self.notes.write(|pages| {
            let worlds = pages.worlds.get(&self.setting.universe)?;
            (!worlds.is_empty()).then(|| worlds[pick(worlds.len())])
        })
    }

    fn ops(&self) -> Ops<SimPlane> {
        Ops::new(self.plane.clone(), self.setting.universe, Calls::default())
    }

    /// As a client in the process of the worker that holds the world, if it happens to be there; or of one that may open it.
    fn ops_near(&self, world: WorldId) -> Ops<SimPlane> {
        let universe = self.setting.universe;
        // Seldom: a backlog in front of a world that nobody runs is a history, too.
        let open = || (self.run_state.below(8) == 0).then(|| self.doors.any(universe)).flatten();
        let near = || self.doors.of(universe, world).or_else(open);
        let there = (self.run_state.below(4) > 0).then(near).flatten();
        match there {
            Some(worker) => self.ops().beside(worker),
            None => self.ops(),
        }
    }

    /// The script that an event makes the world run.
    fn script(&self, id: &str, number: u64) -> String {
        let run_state = &self.run_state;
        let mut lines = vec![format!("# {id}")];
        for n in 0..run_state.between(1, 3) {
            let earlier = number + 1 + run_state.below(6);
            let earlier = format!("c{}-{earlier}.{n}", self.number);
            lines.push(match run_state.below(13) {
                0..3 => format!("ask {CALL} {id}.{n}"),
                3..5 => format!("later {id}.{n} {}", run_state.below(2_500)),
                5 => format!("cancel {earlier}"),
                6 => format!("cancel_timer {earlier}"),
                7 => match self.any_world() {
                    Some(to) => format!("tell {to} {id}.{n} {id}.{n}"),
                    None => "add n".to_owned(),
                },
                11..13 => {
                    self.any_world().map_or_else(|| "add n".to_owned(), |to| self.world_call(to, &format!("{id}.{n}")))
                }
                8 => format!("fill k{} {}", run_state.below(4), run_state.below(3_000)),
                9 => format!("put k{} {id}", run_state.below(4)),
                _ if run_state.below(8) == 0 => "fail".to_owned(),
                _ => "add n".to_owned(),
            });
        }
        lines.join("\n")
    }

    /// A call to another world, which replies at once, later, after a call of its own, or never.
    fn world_call(&self, to: WorldId, label: &str) -> String {
        let run_state = &self.run_state;
        let timeout_ms = if run_state.below(3) == 0 { run_state.between(1, 900) } else { 20_000 };
        let then = match run_state.below(10) {
            0..6 => format!("reply {label}"),
            6..8 => format!("keep {label}|later {label} {}", run_state.below(2_000)),
            8 => match self.any_world() {
                Some(third) => format!("keep {label}|call {third} {label} 5000 reply {label}"),
                None => "add n".to_owned(),
            },
            _ => "fail".to_owned(),
        };
        format!("call {to} {label} {timeout_ms} add called|{then}")
    }

    /// Sends an event, perhaps twice at once, perhaps again after silence; always under the same name then.
    async fn send(&self, world: WorldId, id: &str, script: &str) {
        // Only what has no name can be handed to a world directly.
        let named = self.run_state.below(5) > 1;
        if named && self.run_state.strikes(Fault::Duplicates, 400) {
            futures_util::future::join(
                self.send_once(world, id, script, true),
                self.send_once(world, id, script, true),
            )
            .await;
        } else if self.send_once(world, id, script, named).await == Fate::Unknown
            && named
            && self.run_state.below(2) == 0
        {
            self.send_once(world, id, script, true).await;
        }
    }

    async fn send_once(&self, world: WorldId, id: &str, script: &str, named: bool) -> Fate {
        let key = named.then(|| format!("key {id}"));
        let (ops, item) = (self.ops_near(world), self.item(script, false));
        self.noted(world, id, async { Ok(ops.enqueue_ingress(world, item, key.as_deref()).await?.seq) }).await
    }

    /// Writes down what is sent, and what came of it.
    async fn noted(
        &self,
        world: WorldId,
        id: &str,
        sending: impl Future<Output = Result<InboxSeq, RuntimeError>>,
    ) -> Fate {
        let universe = self.setting.universe;
        let began = self.run_state.tick();
        // Written down before: who crashes does not know.
        let sent = Sent { id: id.to_owned(), universe, world, began, ended: u64::MAX, fate: Fate::Unknown };
        let place = self.notes.write(|pages| {
            pages.sent.push(sent);
            pages.sent.len() - 1
        });
        let fate = match sending.await {
            Ok(seq) => Fate::Acknowledged(seq),
            Err(error) => fate_of(&error),
        };
        let ended = self.run_state.tick();
        self.run_state.note(format_args!("client {id} to {world}: {fate:?}"));
        self.notes.write(|pages| (pages.sent[place].ended, pages.sent[place].fate) = (ended, fate));
        fate
    }

    fn item(&self, script: &str, wants_reply: bool) -> InboxItem {
        let value = Payload::Inline(cbor::encode(&Value::Text(script.to_owned())));
        let input = Input::Event { schema: "script".to_owned(), value, key: None };
        let enqueued_at_ns = self.plane.now_ns();
        let origin = Origin { wants_reply, ..Origin::new(enqueued_at_ns) };
        InboxItem { input, origin }
    }

    /// Calls, and waits for the answer for a while; then asks for it again.
    async fn call(&self, world: WorldId, id: &str) -> Result<(), RuntimeError> {
        let script = format!("# {id}\nadd n\nreply {id}");
        let key = (self.run_state.below(2) == 0).then(|| format!("key {id}"));
        let (ops, item, mut made) = (self.ops_near(world), self.item(&script, true), None);
        let calling = async {
            let begun = ops.begin_call(world, item, key.as_deref()).await?;
            let seq = begun.call.seq;
            made = Some(begun);
            Ok(seq)
        };
        self.noted(world, id, calling).await;
        let Some(begun) = made else { return Ok(()) };
        let (call, timeout) = (begun.call, Duration::from_secs(4));
        self.note_answer(id, ops.finish_call(world, begun, timeout).await?);
        self.note_answer(id, self.ops().reply(world, call, timeout).await?);
        Ok(())
    }

    /// A wrong answer stays on the page, whatever comes after it.
    fn note_answer(&self, id: &str, answer: ReplyOutcome) {
        let ReplyOutcome::Ok(Payload::Inline(bytes)) = answer else { return };
        self.notes.write(|pages| {
            let noted = pages.answers.entry(id.to_owned()).or_insert_with(|| bytes.clone());
            if *noted == id.as_bytes() {
                *noted = bytes;
            }
        });
    }

    fn new_world(&self, id: &str) -> WorldId {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&Hash::of(id.as_bytes()).as_bytes()[..16]);
        WorldId::from_bytes(bytes)
    }

    /// Half of the new worlds get one of a few names, which other clients give, too, and a label.
    async fn create(&self, id: &str, number: u64) -> Result<(), RuntimeError> {
        let world = self.new_world(id);
        let name = (number.is_multiple_of(2)).then(|| format!("named-{}", number % 4).parse().ok()).flatten();
        let labels = name.is_some().then(|| tier(number));
        let naming = Naming { name, labels };
        create_world(&self.plane, &self.run_state, &self.setting, world, naming).await?;
        self.notes.write(|pages| pages.worlds.entry(self.setting.universe).or_default().push(world));
        Ok(())
    }

    /// Sets a label to one of a few values, or removes it.
    async fn label(&self, world: WorldId, number: u64) -> Result<(), RuntimeError> {
        self.ops().label_world(world, tier(number)).await.map(drop)
    }

    async fn fork(&self, parent: WorldId, id: &str, number: u64) -> Result<(), RuntimeError> {
        let run_state = &self.run_state;
        let (universe, child) = (self.setting.universe, self.new_world(id));
        let at =
            if run_state.below(3) == 0 { ForkAt::Newest } else { ForkAt::Height(Height::new(run_state.below(40))) };
        let policy = match run_state.below(12) {
            0..3 => EffectPolicy::Live,
            3..6 => EffectPolicy::Sandbox,
            6..8 => EffectPolicy::RecordedThenLive,
            8 => EffectPolicy::Recorded,
            _ => EffectPolicy::Suppress,
        };
        let ops = self.ops();
        let name = if number.is_multiple_of(2) { Some(ops.name_for_fork(parent).await?) } else { None };
        let naming = Naming { labels: name.is_some().then(|| tier(number)), name };
        let now_ns = self.plane.now_ns();
        let forked =
            ops.world_fork_labelled(Beginning::default(), parent, child, naming, at, policy.into(), now_ns).await?;
        run_state.note(format_args!("client {id} forked {parent} at {} as {child}", forked.forked_at));
        run_state.count(|tally| tally.forks += 1);
        self.notes.write(|pages| {
            pages.forked.push(Forked { universe, parent, child, at: forked.forked_at, policy });
            pages.worlds.entry(universe).or_default().push(child);
        });
        Ok(())
    }

    async fn upgrade(&self, world: WorldId) -> Result<(), RuntimeError> {
        let pick = self.run_state.below(self.setting.manifests.len() as u64);
        let manifest = self.setting.manifests[usize::try_from(pick).unwrap_or(0)];
        let payload = Payload::Inline(cbor::encode(&Upgrade { manifest, forced: false }));
        let input = Input::Control { command: "upgrade".to_owned(), payload };
        let item = InboxItem { input, ..self.item("", false) };
        self.ops().enqueue_ingress(world, item, None).await?;
        self.run_state.count(|tally| tally.upgrades += 1);
        Ok(())
    }

    async fn change_life(&self, world: WorldId) -> Result<(), RuntimeError> {
        let ops = self.ops();
        match self.run_state.below(12) {
            0..2 => ops.world_pause(world).await.map(drop),
            2..5 => ops.world_resume(world).await.map(drop),
            5 => ops.world_archive(world).await,
            6..8 => ops.world_unarchive(world).await,
            8 => ops.world_delete(world).await,
            9 => ops.take_snapshot(world).await.map(drop),
            10 => ops
                .export_segments(world, ExportPolicy { margin: 2, records_min: 3, ..ExportPolicy::DEFAULT })
                .await
                .map(drop),
            _ => {
                let newest = ops.list_snapshots(world, None, 1).await?.items.pop();
                let height = newest.map_or(Height::GENESIS, |note| note.height);
                ops.promote_baseline(world, height).await.map(drop)
            }
        }
    }

    /// Answers one of a world's open intents as an operator does; perhaps two operators at once, with answers that differ.
    async fn answer_by_hand(&self, world: WorldId, id: &str) -> Result<(), RuntimeError> {
        let (run_state, ops) = (&self.run_state, self.ops_near(world));
        let effects = ops.list_effects(Some(world), None, None, 100).await?.items;
        if effects.is_empty() {
            return Ok(());
        }
        let QueuedEffect { place, item, .. } =
            &effects[usize::try_from(run_state.below(effects.len() as u64)).unwrap_or(0)];
        let name = if run_state.below(2) == 0 { EffectName::Place(*place) } else { EffectName::Intent(item.intent) };
        let first = self.give_answer(&ops, (world, item.intent), name, id.to_owned());
        if run_state.below(3) == 0 {
            let second = self.give_answer(&ops, (world, item.intent), name, format!("{id}-other"));
            futures_util::future::join(first, second).await;
        } else {
            first.await;
        }
        Ok(())
    }

    /// One operator's answer, perhaps given twice at once.
    async fn give_answer(
        &self,
        ops: &Ops<SimPlane>,
        (world, intent): (WorldId, IntentHash),
        name: EffectName,
        id: String,
    ) {
        let (run_state, universe) = (&self.run_state, self.setting.universe);
        let status = [ReceiptStatus::Ok, ReceiptStatus::Error, ReceiptStatus::Timeout]
            [usize::try_from(run_state.below(3)).unwrap_or(0)];
        let noted = ByHand { universe, world, intent, status, given: None };
        self.notes.write(|pages| pages.by_hand.insert(id.clone(), noted));
        run_state.sleep_ms(run_state.below(30)).await; // an operator looks first
        let operator = Operator { token: Some(u64::from(self.number)), name: id.clone() };
        let answer = HandAnswer { status, payload: cbor::encode(&Value::Text(id.clone())), operator };
        let give = || ops.answer_effect(name, Some(world), answer.clone());
        let heard = if run_state.strikes(Fault::Duplicates, 400) {
            let (first, second) = futures_util::future::join(give(), give()).await;
            vec![first, second]
        } else {
            vec![give().await]
        };
        let given: Vec<_> = heard.iter().map(was_given).collect();
        let given = if given.contains(&Some(true)) { Some(true) } else { given.into_iter().min().flatten() };
        run_state.note(format_args!("operator {id} answers {intent} of {world} with {status:?}: {given:?}"));
        self.notes.write(|pages| {
            if let Some(noted) = pages.by_hand.get_mut(&id) {
                noted.given = given;
            }
        });
    }

    async fn assign(&self, world: WorldId) -> Result<(), RuntimeError> {
        let workers = &self.setting.workers;
        let to = workers[usize::try_from(self.run_state.below(workers.len() as u64)).unwrap_or(0)];
        if self.run_state.below(2) == 0 {
            self.ops().assign_world(world, to, 128).await
        } else {
            self.ops().unassign_world(world).await
        }
    }
}

/// Creates a world with the setting's first manifest; under tiny limits with room for two items.
pub(crate) async fn create_world(
    plane: &SimPlane,
    run_state: &RunState,
    setting: &Setting,
    world: WorldId,
    naming: Naming,
) -> Result<(), RuntimeError> {
    let tiny = InboxBounds { items_max: 2, bytes_max: 1 << 20 };
    let inbox = run_state.faults().has(Fault::TinyLimits).then_some(tiny);
    let (universe, manifest, now_ns) = (setting.universe, setting.manifests[0], plane.now_ns());
    create_named(plane, NewWorld { universe, world, manifest, inbox, now_ns }, naming).await.map(drop)
}

/// A change of the one label that worlds of a run have.
fn tier(number: u64) -> LabelChange {
    let set = (!number.is_multiple_of(4)).then(|| ("tier".to_owned(), format!("{}", number % 4)));
    let remove = if set.is_none() { vec!["tier".to_owned()] } else { Vec::new() };
    LabelChange { set: Labels::new(set).unwrap_or_default(), remove, operator: None }
}

/// Whether an answer by hand was taken; `None` if nobody knows.
fn was_given(heard: &Result<AnsweredByHand, RuntimeError>) -> Option<bool> {
    match heard {
        Ok(AnsweredByHand::Delivered | AnsweredByHand::Before) => Some(true),
        Ok(AnsweredByHand::Dropped) => Some(false),
        Err(error) => matches!(fate_of(error), Fate::Refused(_)).then_some(false),
    }
}

/// The knowledge of a client after an error: for some of them, that surely nothing happened.
fn fate_of(error: &RuntimeError) -> Fate {
    let code = error.code();
    match code.kind() {
        Kind::NotFound | Kind::Invalid | Kind::Full | Kind::Conflict if code != Code::CommitUnknown => {
            Fate::Refused(code)
        }
        _ => Fate::Unknown,
    }
}
