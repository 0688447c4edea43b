//! A component as a program: for each step and each query a fresh instance, so that nothing hides in memory between.

use crate::{
    contract::{self, mundi::program::types},
    lend::{Lent, lend_host, lend_view},
    scheduler::{Crowded, SLICE, Scheduler, Slot, Tenant},
    surface::{CallRefused, Surface},
};
use mundi_kernel::{
    manifest::WasmLimits,
    program::{Cause, Event, Failure, Host, Program, View},
};
use mundi_model::{Code, WorldId, limits, record::ReceiptStatus};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use wasmtime::{
    PoolConcurrencyLimitError, ResourceLimiter, Store, Trap, UpdateDeadline,
    component::{Component, ComponentExportIndex, Func, HasSelf, Linker, TypedFunc},
};

/// The bytes of a component's arguments in one call: its largest payload, with room for the names beside it.
const SAID_BYTES_MAX: usize = limits::PAYLOAD_BYTES_MAX + (64 << 10);

/// A component that was compiled and linked: a fresh instance of it costs microseconds.
pub(crate) struct Linked {
    pre: contract::ProgramPre<Surface>,
    handle: ComponentExportIndex,
    query: ComponentExportIndex,
    pace: Pace,
}

/// Worlds whose steps of a program were long lately. It decides where the next one runs, never what comes of it.
#[derive(Default)]
struct Pace {
    /// How many they are: almost always none, and then nothing is locked.
    count: AtomicUsize,
    /// With how many short steps each is taken for short again.
    worlds: Mutex<BTreeMap<WorldId, u32>>,
}

impl Pace {
    const SHORT_AFTER: u32 = 16;

    /// Worlds that are remembered; beyond it some are taken for short until they prove otherwise.
    const WORLDS_MAX: usize = 4_096;

    fn is_long(&self, world: WorldId) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.worlds.lock().contains_key(&world)
    }

    fn note(&self, world: WorldId, was_long: bool) {
        if !was_long && self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut worlds = self.worlds.lock();
        if was_long {
            worlds.insert(world, Self::SHORT_AFTER);
            if worlds.len() > Self::WORLDS_MAX {
                worlds.pop_first();
            }
        } else if let Entry::Occupied(mut left) = worlds.entry(world) {
            *left.get_mut() -= 1;
            if *left.get() == 0 {
                left.remove();
            }
        }
        self.count.store(worlds.len(), Ordering::Relaxed);
    }
}

/// Runs work that may take long on this thread, which serves others, too: they are served by another thread meanwhile.
pub type Blocking = fn(&mut dyn FnMut());

/// How long a thread waits, once in a step that turns out long, for another one to take over what it served.
const HANDOVER: Duration = Duration::from_millis(1);

/// The time that a step may take, and the slot that it takes it in.
pub(crate) struct Pacing {
    /// None while a component describes itself, on a thread that serves nobody.
    slot: Option<Slot>,
    slices_left: u64,
    blocking: Blocking,
    /// Nobody else is served by this thread any more.
    is_apart: bool,
}

impl Pacing {
    fn new(slot: Option<Slot>, wall: Duration, blocking: Blocking, is_apart: bool) -> Self {
        let slices = wall.as_millis().div_ceil(SLICE.as_millis());
        Self { slot, slices_left: u64::try_from(slices).unwrap_or(u64::MAX), blocking, is_apart }
    }

    /// The step has run for a slice: it continues, now or when its turn comes.
    fn slice_is_over(&mut self) -> wasmtime::Result<UpdateDeadline> {
        self.slices_left = self.slices_left.checked_sub(1).ok_or(Trap::Interrupt)?;
        let Some(slot) = &mut self.slot else { return Ok(UpdateDeadline::Continue(1)) };
        let goes_on = slot.slice_is_over()?;
        let hands_over = !std::mem::replace(&mut self.is_apart, true);
        if hands_over || !goes_on {
            (self.blocking)(&mut || {
                if hands_over {
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "a thread of the machine takes over, in its own time"
                    )]
                    std::thread::sleep(HANDOVER);
                }
                if !goes_on {
                    slot.pause();
                }
            });
        }
        Ok(UpdateDeadline::Continue(1))
    }
}

type Headers = Vec<(String, String)>;
type Handle<'e> = TypedFunc<(&'e types::Event,), (Result<(), String>,)>;
type Query<'q> = TypedFunc<(&'q str, &'q [u8]), (Result<Vec<u8>, String>,)>;

impl Linked {
    /// A component that nobody has seen yet, and what it says about itself.
    pub(crate) fn new(component: &Component, limits: &WasmLimits, wall: Duration) -> Result<(Self, String), String> {
        let linked = Self::again(component).map_err(|error| format!("{error:#}"))?;
        let pacing = Pacing::new(None, wall, |work| work(), true);
        let store = linked.store(Lent::Nobody, Vec::new(), limits, pacing);
        let mut store = store.map_err(|error| error.to_string())?;
        // This looks at the types of all exports, too.
        let described = linked.pre.instantiate(&mut store).and_then(|program| program.call_describe(&mut store));
        Ok((linked, described.map_err(|error| sentence(&error))?))
    }

    /// One that has described itself, perhaps for another engine.
    pub(crate) fn again(component: &Component) -> wasmtime::Result<Self> {
        let mut linker = Linker::new(component.engine());
        contract::Program::add_to_linker::<_, HasSelf<_>>(&mut linker, |surface| surface)?;
        let pre = contract::ProgramPre::new(linker.instantiate_pre(component)?)?;
        let export =
            |name| component.get_export_index(None, name).ok_or_else(|| wasmtime::format_err!("no export `{name}`"));
        Ok(Self { pre, handle: export("handle")?, query: export("query")?, pace: Pace::default() })
    }

    fn store(
        &self,
        lent: Lent,
        headers: Headers,
        limits: &WasmLimits,
        pacing: Pacing,
    ) -> wasmtime::Result<Store<Surface>> {
        let mut store = Store::new(self.pre.engine(), Surface { lent, bounds: Bounds::of(limits), headers, pacing });
        store.limiter(|surface| &mut surface.bounds);
        store.set_hostcall_fuel(SAID_BYTES_MAX);
        store.set_fuel(limits.fuel_max)?;
        store.epoch_deadline_callback(|mut store| store.data_mut().pacing.slice_is_over());
        store.set_epoch_deadline(2); // the tick after the next: a whole slice at least
        Ok(store)
    }
}

/// A program that runs a component within the bounds of a manifest.
pub(crate) struct ComponentProgram {
    pub(crate) linked: Arc<Linked>,
    pub(crate) limits: WasmLimits,
    pub(crate) tenant: Tenant,
    pub(crate) runner: Runner,
}

/// The state that steps of all programs share.
#[derive(Clone)]
pub(crate) struct Runner {
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) blocking: Blocking,
    /// The emergency stop.
    pub(crate) wall: Duration,
    /// The fuel that all steps and queries of a universe have used.
    pub(crate) fuel: Arc<AtomicU64>,
}

impl Program for ComponentProgram {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        let (headers, event) = (headers_of(event), event_of(event));
        let call = |handle: Func, store: &mut Store<Surface>| {
            #[expect(unsafe_code, reason = "the types of an export do not change between steps")]
            // SAFETY: the component has described itself before, in `Linked::new`, where the types of its exports were
            // compared; they are the same in all its instances.
            let handle: Handle<'_> = unsafe { TypedFunc::new_unchecked(handle) };
            handle.call(store, (&event,)).map(|(answer,)| answer)
        };
        let ran = lend_host(host, |lent| self.run(lent, headers, &self.linked.handle, call));
        ran.settle(host, &self.limits)
    }

    fn query(&self, view: &mut dyn View, name: &str, params: &[u8]) -> Result<Vec<u8>, Failure> {
        let call = |query: Func, store: &mut Store<Surface>| {
            #[expect(unsafe_code, reason = "as in `handle`")]
            // SAFETY: as in `handle`.
            let query: Query<'_> = unsafe { TypedFunc::new_unchecked(query) };
            query.call(store, (name, params)).map(|(answer,)| answer)
        };
        let ran = lend_view(view, |lent| self.run(lent, Vec::new(), &self.linked.query, call));
        ran.settle(view, &self.limits)
    }
}

type Answer<T> = wasmtime::Result<Result<T, String>>;

impl ComponentProgram {
    /// One call of an export on a fresh instance, which is gone when this returns. Where no slot is free it waits for one.
    fn run<T>(
        &self,
        mut lent: Lent,
        headers: Headers,
        export: &ComponentExportIndex,
        call: impl FnOnce(Func, &mut Store<Surface>) -> Answer<T>,
    ) -> Ran<T> {
        let Runner { scheduler, blocking, .. } = &self.runner;
        let Some(world) = lent.view().map(|view| view.world()) else {
            return self.not_begun(wasmtime::format_err!("there is no world"));
        };
        let is_long = self.linked.pace.is_long(world);
        if let Some(slot) = scheduler.try_enter(self.tenant, world, is_long) {
            return self.run_in((slot, false, world), lent, headers, export, call);
        }
        let (mut work, mut ran) = (Some((lent, headers, call)), None);
        blocking(&mut || {
            let Some((lent, headers, call)) = work.take() else { return };
            ran = Some(match scheduler.enter(self.tenant, world, is_long) {
                Ok(slot) => self.run_in((slot, true, world), lent, headers, export, call),
                Err(crowded) => self.not_begun(crowded.into()),
            });
        });
        ran.unwrap_or_else(|| self.not_begun(wasmtime::format_err!("no thread ran it")))
    }

    fn run_in<T>(
        &self,
        (slot, is_apart, world): (Slot, bool, WorldId),
        lent: Lent,
        headers: Headers,
        export: &ComponentExportIndex,
        call: impl FnOnce(Func, &mut Store<Surface>) -> Answer<T>,
    ) -> Ran<T> {
        let pacing = Pacing::new(Some(slot), self.runner.wall, self.runner.blocking, is_apart);
        let mut store = match self.linked.store(lent, headers, &self.limits, pacing) {
            Ok(store) => store,
            Err(error) => return self.not_begun(error),
        };
        let instance = self.linked.pre.instance_pre().instantiate(&mut store);
        let began = instance.is_ok();
        let function = instance.and_then(|instance| {
            instance.get_func(&mut store, export).ok_or_else(|| wasmtime::format_err!("an export is no function"))
        });
        let answer = function.and_then(|function| call(function, &mut store));
        self.linked.pace.note(world, store.data().pacing.slot.as_ref().is_some_and(Slot::has_outlasted));
        let fuel_left = store.get_fuel().unwrap_or(0);
        self.runner.fuel.fetch_add(self.limits.fuel_max.saturating_sub(fuel_left), Ordering::Relaxed);
        Ran { answer, fuel_left, began }
    }

    fn not_begun<T>(&self, error: wasmtime::Error) -> Ran<T> {
        Ran { answer: Err(error), fuel_left: self.limits.fuel_max, began: false }
    }
}

/// The result of a call.
struct Ran<T> {
    answer: Answer<T>,
    fuel_left: u64,
    /// There was an instance.
    began: bool,
}

impl<T> Ran<T> {
    /// Tells the kernel what the call cost, and what its end means.
    fn settle<V: View + ?Sized>(self, view: &mut V, limits: &WasmLimits) -> Result<T, Failure> {
        let spent = limits.fuel_max.saturating_sub(self.fuel_left);
        let charged = view.charge(spent / limits::WASM_FUEL_PER_CALL);
        let error = match self.answer {
            Ok(answer) => return charged.map_err(Failure::from).and_then(|()| answer.map_err(Failure::new)),
            Err(error) => error,
        };
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => return Err(view.exhaust("fuel").into()),
            Some(Trap::Interrupt) => {
                let why = "it held up its node for too long";
                return Err(view.abandon(Code::StepAbandoned, why).into());
            }
            Some(_) => return Err(Failure::trapped(sentence(&error))),
            None => {}
        }
        // Without a trap an instance fails to begin for want of the machine's memory or a free place, and for nothing
        // that a replay would see again: its sizes were compared with the manifest when it was loaded.
        // A step that was too long for a crowded node is run again when there is room.
        if error.is::<Crowded>() || error.is::<PoolConcurrencyLimitError>() {
            return Err(view.abandon(Code::StepCrowded, &sentence(&error)).into());
        }
        if !self.began && !error.is::<CallRefused>() {
            return Err(view.abandon(Code::StepAbandoned, &sentence(&error)).into());
        }
        Err(Failure::trapped(sentence(&error)))
    }
}

/// The innermost cause: the outer ones tell a story of frames.
fn sentence(error: &wasmtime::Error) -> String {
    let text = error.root_cause().to_string();
    text[..text.floor_char_boundary(limits::REASON_BYTES_MAX)].to_owned()
}

/// The bounds of an instance's growth.
pub(crate) struct Bounds {
    memory_bytes_max: usize,
    table_elements_max: usize,
}

impl Bounds {
    fn of(limits: &WasmLimits) -> Self {
        let bound = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        Self { memory_bytes_max: bound(limits.memory_bytes_max), table_elements_max: bound(limits.table_elements_max) }
    }
}

/// More than is allowed is refused as a machine without memory refuses it: the component is notified.
impl ResourceLimiter for Bounds {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= self.memory_bytes_max)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= self.table_elements_max)
    }
}

/// The headers that the sender set beside an event, or in a message.
fn headers_of(event: &Event<'_>) -> Headers {
    let headers = match event.cause {
        Cause::Message { headers, .. } => headers,
        _ => &event.origin.headers,
    };
    headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn event_of(event: &Event<'_>) -> types::Event {
    let origin = event.origin;
    types::Event {
        seq: event.seq.to_string(),
        origin: types::Origin {
            enqueued_at_ns: origin.enqueued_at_ns,
            correlation_id: origin.correlation_id.clone(),
            trace: origin.trace.clone(),
            wants_reply: origin.wants_reply,
            sender: origin
                .sender
                .map(|sender| types::Sender { world_id: sender.world.to_string(), height: sender.height.get() }),
        },
        cause: cause_of(&event.cause),
    }
}

fn cause_of(cause: &Cause<'_>) -> types::Cause {
    match cause {
        Cause::Event { schema, value, key } => types::Cause::Event(types::NamedValue {
            schema: (*schema).to_owned(),
            value: value.to_vec(),
            key: key.map(str::to_owned),
        }),
        Cause::Receipt { label, kind, status, payload } => types::Cause::Receipt(types::Receipt {
            label: (*label).to_owned(),
            kind: (*kind).to_owned(),
            status: match status {
                ReceiptStatus::Ok => types::Status::Ok,
                ReceiptStatus::Error => types::Status::Error,
                ReceiptStatus::Timeout => types::Status::Timeout,
            },
            payload: payload.to_vec(),
        }),
        Cause::Message { inbox, payload, headers } => types::Cause::Message(types::Message {
            inbox: (*inbox).to_owned(),
            payload: payload.to_vec(),
            headers: headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        }),
        Cause::Timer { label, payload } => {
            types::Cause::Timer(types::Labelled { label: (*label).to_owned(), payload: payload.to_vec() })
        }
        Cause::Upgraded { from } => types::Cause::Upgraded(from.to_string()),
    }
}
