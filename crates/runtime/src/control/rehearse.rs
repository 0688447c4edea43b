//! Rehearsal of an upgrade over the recorded history of a world.

mod bundled;

use super::Ops;
use crate::{
    Plane, RuntimeError,
    lifecycle::{
        self, FUNCTIONS_INBOX,
        past::{self, Past},
    },
    objects::{AtHand, with_objects},
    yielding::ReplayPace,
};
use mundi_kernel::{
    World,
    rehearse::{Compare, Divergence, Layer, Rehearsal, Rehearser, Trial},
    snapshot::KernelSnapshot,
};
use mundi_model::{Hash, Height, UniverseId, Value, WorldId, cbor, limits, record::Payload};
use mundi_store::journal::History;
use std::{collections::BTreeMap, fmt};

/// Where the SDKs keep durable functions (`sdk/rust/src/functions/cells.rs`). An instance is judged by its own log, not by steps of before.
const FUNCTIONS: Layer = Layer { cells: "$fn/", open: "$fn/i/" };
/// Instances that the candidate checks in one step.
const CHECKED_AT_ONCE: usize = 8;
/// Cells that are read at a time.
const PAGE_ITEMS: usize = 1_000;

/// The parameters of a rehearsal.
#[derive(Debug, Clone, Copy)]
pub struct RehearseRequest {
    pub world: WorldId,
    /// The manifest that would have held.
    pub candidate: Hash,
    /// From the newest snapshot at or below this height on; from where its own journal begins if nothing is said.
    pub from: Option<Height>,
    /// Up to this height; to the head if nothing is said.
    pub to: Option<Height>,
    pub compare: Compare,
}

/// How a rehearsal went.
#[derive(Debug, Clone)]
pub struct Rehearsed {
    pub from: Height,
    pub to: Height,
    /// Records that were compared.
    pub records: u64,
    pub divergence: Option<Divergence>,
    /// Running instances of durable functions that could not go on under the candidate at the head.
    pub functions: Vec<DivergingFunction>,
}

impl Rehearsed {
    /// Why an upgrade is refused, if it is.
    pub(super) fn refusal(self, world: WorldId) -> Option<RuntimeError> {
        let Self { to, divergence, functions, .. } = self;
        let diverges = divergence.is_some() || !functions.is_empty();
        let height = divergence.map_or(to, |divergence| divergence.height);
        diverges.then_some(RuntimeError::UpgradeDiverges { world, height, functions })
    }
}

/// A running instance of a durable function that would go another way than is on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DivergingFunction {
    /// `FUNCTION/KEY`.
    pub instance: String,
    /// The number of the await; 0 if it is about none.
    pub number: u64,
    pub why: String,
}

impl fmt::Display for DivergingFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The SDKs' own text begins with the number.
        write!(f, "{}: {}", self.instance, self.why)
    }
}

impl<P: Plane> Ops<P> {
    /// The checks of an upgrade before it is sent: whether worlds may run the manifest, whether it can be run, and whether it
    /// would treat open work differently.
    pub async fn rehearse_upgrade(&self, world: WorldId, candidate: Hash) -> Result<Rehearsed, RuntimeError> {
        lifecycle::require_registered(&self.plane, self.universe, candidate).await?;
        self.check_manifest(candidate).await?;
        self.rehearse_open_work(world, candidate).await
    }

    /// Whether another manifest would treat what is open differently. Durable functions are asked at the head whether each running instance can go
    /// on. For what else is open, it is the history since the oldest of these intents and timers, compared by what it asked of the outside.
    /// Cells may take another form.
    pub async fn rehearse_open_work(&self, world: WorldId, candidate: Hash) -> Result<Rehearsed, RuntimeError> {
        let (plane, place) = (&self.plane, (self.universe, world));
        let own = self.describe_world(world).await?.meta.first_height;
        let newest = past::snapshot_below(plane, place, Height::new(u64::MAX)).await?;
        let Past { replay, mut at_hand } = past::replay_to(plane, place, &newest, None).await?;
        let now = replay.finish()?;
        let (head, open) = (now.head(), now.open_intents().chain(now.timers()));
        let open = open.filter(|open| !open.label.starts_with(FUNCTIONS.cells)).map(|open| open.place.height);
        let since = open.min().unwrap_or(head).max(own);
        let (refused, functions) = try_at_head(plane, place, (now, &mut at_hand), candidate).await?;
        if since >= head || refused.is_some() || !functions.is_empty() {
            return Ok(Rehearsed { from: head, to: head, records: 0, divergence: refused, functions });
        }
        let before = past::snapshot_below(plane, place, since).await?;
        let Past { replay, mut at_hand } = past::replay_to(plane, place, &before, Some(since)).await?;
        let mut before = replay.finish()?;
        let taken = with_objects(plane, place, &mut at_hand, |objects| before.snapshot(objects)).await?;
        // Only for the rehearsal: a snapshot that nobody else will ever see.
        at_hand.pin(taken.note.snapshot, taken.bytes.clone());
        // What is not new in it is what the world refers to, and so it is in the store.
        at_hand.note_stored(KernelSnapshot::from_bytes(&taken.bytes)?.roots().iter().copied());
        taken.objects.iter().for_each(|(hash, object)| at_hand.pin(*hash, object.clone()));
        let history = History::open(plane.engine(), plane.segments().clone(), self.universe, world, since).await?;
        let to = history.head();
        let history = history.after(taken.note.chain).until(to);
        let begin = |objects: &AtHand| {
            let (registry, candidate) = (plane.registry(), (candidate, FUNCTIONS));
            Rehearser::begin_beside(objects, registry, &taken.note, candidate, Compare::Outputs)
        };
        let rehearser = with_objects(plane, place, &mut at_hand, begin).await?;
        let Rehearsal { records, divergence } = rehearse(plane, place, (&mut at_hand, history), rehearser).await?;
        Ok(Rehearsed { from: since, to, records, divergence, functions })
    }

    /// Runs the recorded history under another manifest, and names the first record from which something else follows; and every running
    /// instance of a durable function that could not go on at the head.
    pub async fn rehearse_world(&self, request: RehearseRequest) -> Result<Rehearsed, RuntimeError> {
        let (plane, universe, world) = (&self.plane, self.universe, request.world);
        lifecycle::require_registered(plane, universe, request.candidate).await?;
        let place = (universe, world);
        let own = self.describe_world(world).await?.meta.first_height;
        let note = past::snapshot_below(plane, place, request.from.unwrap_or(own).max(own)).await?;
        let history = History::open(plane.engine(), plane.segments().clone(), universe, world, note.height).await?;
        let until = request.to.unwrap_or(history.head()).min(history.head());
        let history = history.after(note.chain).until(until);
        let mut at_hand = AtHand::default();
        at_hand.note_stored(self.roots(&note).await?);
        let begin =
            |objects: &AtHand| Rehearser::begin(objects, plane.registry(), &note, request.candidate, request.compare);
        let rehearser = with_objects(plane, place, &mut at_hand, begin).await?;
        let Rehearsal { records, divergence } = rehearse(plane, place, (&mut at_hand, history), rehearser).await?;
        let newest = past::snapshot_below(plane, place, Height::new(u64::MAX)).await?;
        let Past { replay, mut at_hand } = past::replay_to(plane, place, &newest, None).await?;
        let (_, functions) = try_at_head(plane, place, (replay.finish()?, &mut at_hand), request.candidate).await?;
        Ok(Rehearsed { from: note.height, to: until, records, divergence, functions })
    }
}

/// Runs a history twice.
async fn rehearse<P: Plane>(
    plane: &P,
    place: (UniverseId, WorldId),
    (at_hand, mut history): (&mut AtHand, History<P::Engine, P::Segments>),
    mut rehearser: Rehearser,
) -> Result<Rehearsal, RuntimeError> {
    let mut pace = ReplayPace::default();
    'history: while let Some(page) = history.next_page().await? {
        for record in page {
            pace.step().await;
            let apply = |objects: &AtHand| rehearser.apply(objects, &record.bytes);
            if !with_objects(plane, place, at_hand, apply).await? {
                break 'history;
            }
            at_hand.trim();
        }
    }
    Ok(rehearser.finish())
}

/// Whether the candidate can take over a world as it is, and which instances of durable functions could not go on.
async fn try_at_head<P: Plane>(
    plane: &P,
    place: (UniverseId, WorldId),
    (now, at_hand): (World, &mut AtHand),
    candidate: Hash,
) -> Result<(Option<Divergence>, Vec<DivergingFunction>), RuntimeError> {
    let (running, now) = running_instances(plane, place, now, at_hand).await?;
    let mut trial = Trial::new(now);
    let refused = with_objects(plane, place, at_hand, |objects| trial.take_over(objects, candidate)).await?;
    let (mut diverging, mut pace) = (Vec::new(), ReplayPace::default());
    for some in running.chunks(CHECKED_AT_ONCE) {
        pace.step().await;
        let ask = (some, candidate);
        match check_instances(plane, place, (&mut trial, at_hand), ask).await? {
            Checked::Known(found) => diverging.extend(found),
            // A program of an earlier SDK checks in the take-over only.
            Checked::Unknown => break,
            // Too much for one step, perhaps.
            Checked::Failed(_) => {
                for one in some {
                    let ask = (std::slice::from_ref(one), candidate);
                    match check_instances(plane, place, (&mut trial, at_hand), ask).await? {
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
async fn running_instances<P: Plane>(
    plane: &P,
    place: (UniverseId, WorldId),
    mut now: World,
    at_hand: &mut AtHand,
) -> Result<(Vec<String>, World), RuntimeError> {
    let (mut running, mut after) = (Vec::new(), None::<String>);
    loop {
        // A mutable borrow, because a world may be sent to another thread and not shared with one.
        let (now_ref, last) = (&mut now, after.as_deref());
        let scan = move |objects: &AtHand| now_ref.cells().scan(objects, FUNCTIONS.open, last, PAGE_ITEMS);
        let page = with_objects(plane, place, at_hand, scan).await?;
        let Some((last, _)) = page.last().filter(|_| running.len() < limits::FUNCTIONS_REHEARSED_MAX) else {
            running.truncate(limits::FUNCTIONS_REHEARSED_MAX);
            return Ok((running, now));
        };
        after = Some(last.clone());
        running.extend(running_in(&page));
    }
}

/// The instances among some cells that have not ended.
fn running_in(cells: &[(String, Vec<u8>)]) -> impl Iterator<Item = String> {
    cells.iter().filter_map(|(key, head)| {
        let has_ended = matches!(cbor::decode(head), Ok(Value::Map(head)) if head.contains_key("ended_ns"));
        key.strip_prefix(FUNCTIONS.open).filter(|_| !has_ended).map(str::to_owned)
    })
}

enum Checked {
    Known(Vec<DivergingFunction>),
    /// The candidate does not know the command.
    Unknown,
    Failed(String),
}

/// Asks the candidate which of some instances would go another way than is on record: the command `check` of the SDKs.
async fn check_instances<P: Plane>(
    plane: &P,
    place: (UniverseId, WorldId),
    (trial, at_hand): (&mut Trial, &mut AtHand),
    (instances, candidate): (&[String], Hash),
) -> Result<Checked, RuntimeError> {
    let command = check_command(instances);
    let ask = |objects: &AtHand| trial.ask(objects, candidate, FUNCTIONS_INBOX, &command);
    Ok(checked(with_objects(plane, place, at_hand, ask).await?))
}

fn check_command(instances: &[String]) -> Vec<u8> {
    let names = instances.iter().map(|instance| Value::Text(instance.as_str().into())).collect();
    cbor::encode(&Value::Map(BTreeMap::from([("check".into(), Value::Array(names))])))
}

/// The answer of a candidate to that command.
fn checked(reply: Result<Option<Payload>, String>) -> Checked {
    let bytes = match reply {
        Ok(Some(Payload::Inline(bytes))) => bytes,
        Ok(Some(Payload::Blob(..))) => return Checked::Failed("it says too much about them".to_owned()),
        Ok(None) => return Checked::Failed("the program has no durable functions".to_owned()),
        Err(reason) if reason.starts_with("FUNCTION_NOT_FOUND") => return Checked::Unknown,
        Err(reason) => return Checked::Failed(reason),
    };
    let Ok(Value::Map(answer)) = cbor::decode(&bytes) else {
        return Checked::Failed("the program has no durable functions".to_owned());
    };
    let Some(Value::Array(found)) = answer.get("diverged") else { return Checked::Known(Vec::new()) };
    let found = found.iter().filter_map(|found| {
        let Value::Map(found) = found else { return None };
        let text = |name: &str| match found.get(name) {
            Some(Value::Text(text)) => text.clone(),
            _ => String::new(),
        };
        let number = match found.get("await") {
            Some(Value::Integer(number)) => u64::try_from(*number).unwrap_or(0),
            _ => 0,
        };
        Some(DivergingFunction { instance: text("instance"), number, why: text("message") })
    });
    Checked::Known(found.collect())
}
