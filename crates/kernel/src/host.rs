//! The host that a program sees: of a step, and, read-only, of a query.

use crate::{
    cells::{Cells, Entry},
    intents::{self, EmittedAt, FABRIC_SEND, OpenIntent, TIMER_SET, TimerSet, WORLD_SPAWN, intent_hash},
    manifest::CheckError,
    meter::{Fault, Meter},
    objects::{Object, Objects},
    program::{EmitError, Host, Level, Outgoing, SendOptions, Stop, View},
    schema::Work,
    state::State,
};
use mundi_model::{
    Code, Hash, Height, InboxSeq, IntentHash, ProgramAddress, UniverseId, WorldAddress, WorldId, cbor,
    child::{CHILD_SPAWN, ChildId, ChildSpec},
    limits,
    pool::AuthorityChange,
    record::{Body, Payload, Reply, ReplyOutcome, Stamps},
};

/// The bytes that the key and the value of an authority add to a transaction, about.
const AUTHORITY_BYTES: usize = 128;

/// Reading cells on a budget: the part that steps and queries share.
fn get(cells: &Cells, objects: &dyn Objects, meter: &mut Meter, key: &str) -> Result<Option<Vec<u8>>, Stop> {
    meter.call(key.len())?;
    let value = meter.loaded(cells.get(objects, key))?;
    meter.bytes(value.as_ref().map_or(0, Vec::len))?;
    Ok(value)
}

fn scan(
    cells: &Cells,
    objects: &dyn Objects,
    meter: &mut Meter,
    (prefix, after, items_max): (&str, Option<&str>, usize),
) -> Result<Vec<Entry>, Stop> {
    meter.scan(prefix.len())?;
    let found = meter.loaded(cells.scan(objects, prefix, after, items_max.min(limits::SCAN_ITEMS_MAX)))?;
    meter.charge(found.len() as u64)?;
    meter.bytes(found.iter().map(|(key, value)| key.len() + value.len()).sum())?;
    Ok(found)
}

pub(crate) struct QueryView<'a> {
    pub(crate) state: &'a State,
    pub(crate) objects: &'a dyn Objects,
    pub(crate) meter: Meter,
}

impl View for QueryView<'_> {
    fn world(&self) -> WorldId {
        self.state.position.world
    }

    fn universe(&self) -> UniverseId {
        self.state.position.universe
    }

    fn height(&self) -> Height {
        self.state.position.height
    }

    fn logical_now_ns(&self) -> u64 {
        self.state.position.logical_now_ns
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Stop> {
        get(&self.state.cells, self.objects, &mut self.meter, key)
    }

    fn scan(&mut self, prefix: &str, after: Option<&str>, items_max: usize) -> Result<Vec<Entry>, Stop> {
        scan(&self.state.cells, self.objects, &mut self.meter, (prefix, after, items_max))
    }

    fn log(&mut self, level: Level, text: &str) {
        self.meter.log(level, text);
    }

    fn charge(&mut self, units: u64) -> Result<(), Stop> {
        self.meter.charge(units)
    }

    fn exhaust(&mut self, what: &'static str) -> Stop {
        self.meter.stop(Fault::Exhausted(what))
    }

    fn refuse(&mut self, why: &str) -> Stop {
        self.meter.stop(Fault::Refused(why.to_owned()))
    }

    fn abandon(&mut self, code: Code, why: &str) -> Stop {
        self.meter.abandon(code, why)
    }
}

pub(crate) struct StepHost<'a> {
    state: &'a mut State,
    objects: &'a dyn Objects,
    stamps: &'a Stamps,
    height: Height,
    emitted: u32,
    drawn: u64,
    /// Steps that are left for checks of what it asks for.
    pub(crate) work: Work,
    pub(crate) meter: Meter,
    /// The records that follow from the step, in the order in which the program asked for them.
    pub(crate) outputs: Vec<Body>,
    /// Payloads too large for a record.
    pub(crate) blobs: Vec<Object>,
    pub(crate) authorities: Vec<AuthorityChange>,
}

impl<'a> StepHost<'a> {
    pub(crate) fn new(
        state: &'a mut State,
        objects: &'a dyn Objects,
        (stamps, work): (&'a Stamps, Work),
        height: Height,
    ) -> Self {
        let meter = Meter::new(&state.active.manifest.manifest.limits);
        let (outputs, blobs, authorities) = (Vec::new(), Vec::new(), Vec::new());
        Self { state, objects, stamps, height, emitted: 0, drawn: 0, work, meter, outputs, blobs, authorities }
    }

    fn check_name(&mut self, what: &str, name: &str) -> Result<(), Stop> {
        match name.len() {
            0 => self.meter.refuse(format!("the {what} is empty")),
            len if len > limits::NAME_BYTES_MAX => self.meter.refuse(format!("the {what} has {len} bytes")),
            _ => Ok(()),
        }
    }

    fn check_payload(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if bytes.len() <= limits::PAYLOAD_BYTES_MAX {
            return Ok(());
        }
        self.meter.refuse(format!("a payload has {} bytes", bytes.len()))
    }

    /// An effect of any kind but a timer, within the bound on open intents.
    fn open_effect(&mut self, kind: &str, params: &[u8], label: &str) -> Result<IntentHash, EmitError> {
        self.check_payload(params)?;
        // Its parameters are part of its token, which is one value of the engine.
        if kind == CHILD_SPAWN && params.len() > limits::PAYLOAD_INLINE_BYTES_MAX {
            return Ok(self.meter.refuse(format!("the parameters of a child have {} bytes", params.len()))?);
        }
        let label = if label.is_empty() { format!("{}.{}", self.height, self.emitted) } else { label.to_owned() };
        self.check_name("label", &label)?;
        if self.state.intents.has_label(&label) {
            return Ok(self.meter.refuse(format!("the label `{label}` is in use"))?);
        }
        if self.state.intents.len() >= self.state.active.manifest.manifest.limits.open_intents_max {
            return Err(EmitError::OpenIntentsFull);
        }
        let params = intents::payload(params, &mut self.blobs);
        let intent = self.intent(kind, params, label)?;
        let hash = intent.hash;
        self.state.intents.open(intent);
        Ok(hash)
    }

    /// Names the intent and journals it.
    fn intent(&mut self, kind: &str, params: Payload, label: String) -> Result<OpenIntent, Stop> {
        self.meter.output(inline_len(&params) + kind.len() + label.len())?;
        let place = self.next_place();
        let hash = intent_hash(self.state.position.world, place, kind, &params);
        let intent = OpenIntent { hash, kind: kind.to_owned(), params, label, place };
        self.outputs.push(Body::Intent(intent.record()));
        self.emitted += 1;
        Ok(intent)
    }

    /// Counts from the height of the step's record, not of the intent's own: that one depends on what else
    /// the turn appends.
    fn next_place(&self) -> EmittedAt {
        EmittedAt { height: self.height, index: self.emitted }
    }

    fn withdraw(&mut self, intent: &OpenIntent) -> Result<(), Stop> {
        self.meter.output(0)?;
        self.state.remember_closed(intent.hash);
        self.outputs.push(Body::Cancel(intent.hash));
        Ok(())
    }

    /// Checks the options that a program gives beside a message. (The headers of a message are bounded where they arrive: earlier programs could
    /// send more.)
    fn check_options(&mut self, options: &SendOptions<'_>) -> Result<(), Stop> {
        if let Some(correlation_id) = options.correlation_id {
            self.check_name("correlation id", correlation_id)?;
        }
        if let Some(Err(reason)) = options.headers.map(intents::check_headers) {
            return self.meter.refuse(reason);
        }
        let effects = &self.state.active.manifest.manifest.effects;
        let allowed = effects.get(FABRIC_SEND).is_some_and(|rule| rule.message_ids);
        if options.message_id.is_some() && !allowed {
            return self.meter.refuse("the manifest does not allow programs to choose message ids".to_owned());
        }
        Ok(())
    }

    fn require_declared(&mut self, kind: &str) -> Result<(), Stop> {
        if self.state.active.manifest.manifest.effects.contains_key(kind) {
            return Ok(());
        }
        self.meter.refuse(format!("the manifest does not allow the effect `{kind}`"))
    }
}

fn inline_len(payload: &Payload) -> usize {
    match payload {
        Payload::Inline(bytes) => bytes.len(),
        Payload::Blob(..) => Hash::LEN,
    }
}

impl View for StepHost<'_> {
    fn world(&self) -> WorldId {
        self.state.position.world
    }

    fn universe(&self) -> UniverseId {
        self.state.position.universe
    }

    fn height(&self) -> Height {
        self.height
    }

    fn logical_now_ns(&self) -> u64 {
        self.stamps.logical_now_ns
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Stop> {
        get(&self.state.cells, self.objects, &mut self.meter, key)
    }

    fn scan(&mut self, prefix: &str, after: Option<&str>, items_max: usize) -> Result<Vec<Entry>, Stop> {
        scan(&self.state.cells, self.objects, &mut self.meter, (prefix, after, items_max))
    }

    fn log(&mut self, level: Level, text: &str) {
        self.meter.log(level, text);
    }

    fn charge(&mut self, units: u64) -> Result<(), Stop> {
        self.meter.charge(units)
    }

    fn exhaust(&mut self, what: &'static str) -> Stop {
        self.meter.stop(Fault::Exhausted(what))
    }

    fn refuse(&mut self, why: &str) -> Stop {
        self.meter.stop(Fault::Refused(why.to_owned()))
    }

    fn abandon(&mut self, code: Code, why: &str) -> Stop {
        self.meter.abandon(code, why)
    }
}

impl Host for StepHost<'_> {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), Stop> {
        self.meter.call(key.len() + value.len())?;
        if key.is_empty() || key.len() > limits::CELL_KEY_BYTES_MAX {
            return self.meter.refuse(format!("the key of a cell has {} bytes", key.len()));
        }
        if value.len() > limits::CELL_VALUE_BYTES_MAX {
            return self.meter.refuse(format!("the cell `{key}` would have {} bytes", value.len()));
        }
        self.state.cells.put(key, value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &str) -> Result<(), Stop> {
        self.meter.call(key.len())?;
        self.meter.deleted += 1;
        self.state.cells.delete(key);
        Ok(())
    }

    fn emit(&mut self, kind: &str, params: &[u8], label: &str) -> Result<(), EmitError> {
        self.meter.call(kind.len() + params.len() + label.len())?;
        if [TIMER_SET, FABRIC_SEND, WORLD_SPAWN].contains(&kind) {
            return Ok(self.meter.refuse(format!("the effect kind `{kind}` has a call of its own"))?);
        }
        self.check_name("effect kind", kind)?;
        self.check_payload(params)?;
        match self.state.active.manifest.check_effect(kind, params, &mut self.work) {
            Ok(()) => {}
            Err(CheckError::Invalid(reason)) => return Ok(self.meter.refuse(reason)?),
            // On record: the step fails. Not yet: it is taken again, with a record that says so.
            Err(exceeded) if self.stamps.schema_work_max.is_some() => {
                return Err(self.meter.stop(Fault::WorkExceeded(exceeded.to_string())).into());
            }
            Err(exceeded) => return Err(self.meter.abandon(Code::SchemaWorkExceeded, &exceeded.to_string()).into()),
        }
        self.open_effect(kind, params, label).map(drop)
    }

    fn cancel(&mut self, label: &str) -> Result<bool, Stop> {
        self.meter.call(label.len())?;
        let Some(intent) = self.state.intents.close_labelled(label) else { return Ok(false) };
        self.withdraw(&intent).map(|()| true)
    }

    fn set_timer(&mut self, label: &str, due_ns: u64, payload: &[u8]) -> Result<(), EmitError> {
        self.meter.call(label.len() + payload.len())?;
        self.check_name("label", label)?;
        self.check_payload(payload)?;
        if let Some(earlier) = self.state.timers.close_labelled(label) {
            self.withdraw(&earlier)?;
        }
        if self.state.timers.len() >= self.state.active.manifest.manifest.limits.timers_max {
            return Err(EmitError::TimersFull);
        }
        let payload = intents::payload(payload, &mut self.blobs);
        let params = Payload::Inline(cbor::encode(&TimerSet { due_ns, payload }));
        let timer = self.intent(TIMER_SET, params, label.to_owned())?;
        self.state.timers.open(timer);
        Ok(())
    }

    fn cancel_timer(&mut self, label: &str) -> Result<bool, Stop> {
        self.meter.call(label.len())?;
        let Some(timer) = self.state.timers.close_labelled(label) else { return Ok(false) };
        self.withdraw(&timer).map(|()| true)
    }

    fn send_to(
        &mut self,
        to: &WorldAddress,
        message: &Outgoing<'_>,
        options: &SendOptions<'_>,
        label: &str,
    ) -> Result<(), EmitError> {
        let params = intents::message_params(to, None, Some(message), options);
        self.meter.call(params.len() + label.len())?;
        self.require_declared(FABRIC_SEND)?;
        self.check_options(options)?;
        self.open_effect(FABRIC_SEND, &params, label).map(drop)
    }

    fn spawn(
        &mut self,
        program: &ProgramAddress,
        first: Option<&Outgoing<'_>>,
        label: &str,
    ) -> Result<WorldId, EmitError> {
        let child = intents::spawned_world(self.state.position.world, self.next_place());
        let params = intents::message_params(&child.into(), Some(program), first, &SendOptions::default());
        self.meter.call(params.len() + label.len())?;
        self.require_declared(WORLD_SPAWN)?;
        self.open_effect(WORLD_SPAWN, &params, label)?;
        Ok(child)
    }

    fn spawn_child(&mut self, params: &[u8], label: &str) -> Result<ChildId, EmitError> {
        self.meter.call(params.len() + label.len())?;
        self.require_declared(CHILD_SPAWN)?;
        if let Err(error) = ChildSpec::read(params) {
            return Ok(self.meter.refuse(error.to_string())?);
        }
        let intent = self.open_effect(CHILD_SPAWN, params, label)?;
        Ok(ChildId::of_intent(&intent))
    }

    fn reply(&mut self, to: InboxSeq, payload: &[u8]) -> Result<(), Stop> {
        self.meter.call(payload.len())?;
        self.check_payload(payload)?;
        if self.outputs.iter().any(|output| matches!(output, Body::Reply(reply) if reply.to == to)) {
            return self.meter.refuse(format!("a second reply to {to}"));
        }
        let payload = intents::payload(payload, &mut self.blobs);
        self.meter.output(inline_len(&payload))?;
        self.outputs.push(Body::Reply(Reply { to, outcome: ReplyOutcome::Ok(payload) }));
        Ok(())
    }

    fn random(&mut self) -> Result<u64, Stop> {
        self.meter.call(8)?;
        let entropy = minicbor::bytes::ByteArray::from(self.stamps.entropy);
        let block = Hash::of(&cbor::encode(&("mundi.random.1", entropy, self.drawn)));
        self.drawn += 1;
        let mut number = [0; 8];
        number.copy_from_slice(&block.as_bytes()[..8]);
        Ok(u64::from_be_bytes(number))
    }

    fn publish_authority(&mut self, change: AuthorityChange) -> Result<(), Stop> {
        self.meter.output(AUTHORITY_BYTES)?;
        self.authorities.push(change);
        Ok(())
    }
}
