//! A pool with a journal in memory, whose timers fire when its clock says so.

use mundi_kernel::{
    MemoryObjects, Registry, World,
    lease_kernel::{
        self, LeaseKernel,
        command::{COMMAND, Command, NewResource, Request},
        config::PoolConfig,
        result::Outcome,
    },
    manifest::{Limits, Manifest},
    registry::native_descriptor,
    replay::Replay,
    turn::{Arrival, Arrived, TurnBudget, TurnOutput},
};
use mundi_model::{
    Height, InboxSeq, IntentHash, Stamp, UniverseId, Value, WorldId, cbor,
    pool::{AuthorityChange, ClientId, HolderId, LeaseId, OperationId, ResourceId},
    record::{Body, Genesis, InboxItem, Input, Origin, Payload, Record, ReplyOutcome, Sender},
};
use std::{collections::BTreeMap, sync::Arc};

pub(crate) const UNIVERSE: UniverseId = UniverseId::from_bytes([1; 16]);
pub(crate) const POOL: WorldId = WorldId::from_bytes([2; 16]);
pub(crate) const SHARD: u64 = 3;
/// The clock begins at slot 1000.
pub(crate) const START_SLOT: u64 = 1_000;

pub(crate) struct Pool {
    pub(crate) objects: MemoryObjects,
    pub(crate) registry: Arc<Registry>,
    pub(crate) world: World,
    pub(crate) journal: Vec<Vec<u8>>,
    config: PoolConfig,
    now_ns: u64,
    next_seq: u64,
    next_operation: u128,
    /// Open timers by their names, with their labels and when they are due.
    timers: BTreeMap<IntentHash, (String, u64)>,
    pub(crate) authorities: Vec<AuthorityChange>,
    /// Replies to calls of earlier steps.
    pub(crate) late_replies: Vec<(InboxSeq, Outcome)>,
}

pub(crate) fn registry() -> (Registry, Manifest) {
    let mut registry = Registry::new();
    let mut manifest = Manifest::new(registry.register_native(lease_kernel::NAME, lease_kernel::VERSION, LeaseKernel));
    lease_kernel::declare(&mut manifest);
    (registry, manifest)
}

pub(crate) fn resource(n: u128) -> ResourceId {
    ResourceId::from_bytes(n.to_be_bytes())
}

pub(crate) fn holder(n: u128) -> HolderId {
    HolderId::from_bytes(n.to_be_bytes())
}

pub(crate) fn client(n: u128) -> ClientId {
    ClientId::from_bytes(n.to_be_bytes())
}

pub(crate) fn operation(n: u128) -> OperationId {
    OperationId::from_bytes(n.to_be_bytes())
}

pub(crate) fn new_resource(n: u128, labels: &[&str]) -> NewResource {
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    NewResource { resource_id: resource(n), name: None, labels }
}

/// The result of a step of the world.
pub(crate) struct Stepped {
    pub(crate) output: TurnOutput,
    pub(crate) height: Height,
}

impl Pool {
    pub(crate) fn new(config: PoolConfig) -> Self {
        Self::within(config, |_| {})
    }

    /// A pool whose steps have another budget than it declares.
    pub(crate) fn within(config: PoolConfig, change: impl FnOnce(&mut Limits)) -> Self {
        let (registry, mut manifest) = registry();
        change(&mut manifest.limits);
        let mut objects = MemoryObjects::new();
        objects.put(native_descriptor(lease_kernel::NAME, lease_kernel::VERSION).into_bytes());
        let manifest = objects.put(manifest.to_bytes());
        let registry = Arc::new(registry);
        let now_ns = START_SLOT * config.slot_ms * 1_000_000;
        let genesis = Genesis { universe: UNIVERSE, world: POOL, manifest, now_ns };
        let (world, first) = World::create(&objects, registry.clone(), genesis).unwrap();
        let mut pool = Self {
            objects,
            registry,
            world,
            journal: vec![first],
            config,
            now_ns,
            next_seq: 1,
            next_operation: 1 << 64,
            timers: BTreeMap::new(),
            authorities: Vec::new(),
            late_replies: Vec::new(),
        };
        let configured = pool.operate(1, 1, Command::Configure { shard: SHARD, config });
        assert_eq!(configured.result.as_str(), "ok");
        pool
    }

    /// A pool with so many resources.
    pub(crate) fn of(resources: u128) -> Self {
        let mut pool = Self::new(PoolConfig::default());
        let resources = (1..=resources).map(|n| new_resource(n, &[])).collect();
        assert_eq!(pool.result(Command::CreateResource { resources }), "ok");
        pool
    }

    pub(crate) fn slot(&self) -> u64 {
        self.now_ns / (self.config.slot_ms * 1_000_000)
    }

    pub(crate) fn pass_slots(&mut self, slots: u64) {
        self.now_ns += slots * self.config.slot_ms * 1_000_000;
    }

    pub(crate) fn step(&mut self, input: Input, sender: Option<WorldId>) -> Stepped {
        let sender = sender.map(|world| Sender { world, height: Height::new(1) });
        let origin = Origin { wants_reply: true, sender, ..Origin::new(0) };
        let seq = InboxSeq::new(Stamp::new(self.next_seq, 0), 0);
        self.next_seq += 1;
        let item = Arrived::Item(Arc::new(InboxItem { input, origin }));
        let arrival = Arrival { seq, item, now_ns: self.now_ns, entropy: [0; 16] };
        let height = self.world.head();
        let output = self.world.turn(&self.objects, &[arrival], TurnBudget::default()).unwrap().keep();
        self.objects.extend(output.objects.iter().cloned());
        for record in &output.records {
            if let Body::Intent(intent) = &cbor::decode::<Record>(record).unwrap().body {
                let due_ns =
                    output.timers.iter().find(|timer| timer.timer == intent.hash).map(|timer| timer.set.due_ns);
                if let Some(due_ns) = due_ns {
                    self.timers.insert(intent.hash, (intent.label.clone(), due_ns));
                }
            }
        }
        output.cancels.iter().for_each(|cancelled| drop(self.timers.remove(cancelled)));
        self.journal.extend(output.records.iter().map(|record| record.to_vec()));
        self.authorities.extend(&output.authorities);
        for reply in output.replies.iter().filter(|reply| reply.to != seq) {
            self.late_replies.push((reply.to, read_outcome(&reply.outcome).unwrap()));
        }
        Stepped { output, height }
    }

    /// Fires the first timer that is due; gives its label and the height of its record.
    pub(crate) fn fire_due(&mut self) -> Option<(String, Height)> {
        let (now_ns, due) = (self.now_ns, |(_, (_, due_ns)): &(&IntentHash, &(String, u64))| *due_ns);
        let (timer, (label, _)) = self.timers.iter().filter(|timer| due(timer) <= now_ns).min_by_key(due)?;
        let (timer, label) = (*timer, label.clone());
        self.timers.remove(&timer);
        let stepped = self.step(Input::TimerFired { timer, payload: Payload::Inline(Vec::new()) }, None);
        Some((label, stepped.height))
    }

    pub(crate) fn send(&mut self, request: &Request, sender: Option<WorldId>) -> Result<Outcome, String> {
        let value = Payload::Inline(cbor::encode(&request.to_value()));
        self.send_raw(value, sender)
    }

    pub(crate) fn send_raw(&mut self, value: Payload, sender: Option<WorldId>) -> Result<Outcome, String> {
        let seq = self.next_seq;
        let stepped = self.step(Input::Event { schema: COMMAND.into(), value, key: None }, sender);
        let seq = InboxSeq::new(Stamp::new(seq, 0), 0);
        let reply = stepped.output.replies.iter().find(|reply| reply.to == seq);
        reply.map_or(Err("no reply yet".to_owned()), |reply| read_outcome(&reply.outcome))
    }

    pub(crate) fn operate(&mut self, by: u128, op: u128, command: Command) -> Outcome {
        let request = Request { operation_id: Some(operation(op)), client_id: Some(client(by)), command };
        self.send(&request, None).unwrap()
    }

    /// As an operation of its own, which may fail.
    pub(crate) fn try_run(&mut self, command: Command) -> Result<Outcome, String> {
        self.next_operation += 1;
        let operation_id = Some(operation(self.next_operation));
        self.send(&Request { operation_id, client_id: Some(client(1)), command }, None)
    }

    /// As an operation of its own.
    pub(crate) fn run(&mut self, command: Command) -> Outcome {
        self.next_operation += 1;
        self.operate(1, self.next_operation, command)
    }

    pub(crate) fn result(&mut self, command: Command) -> &'static str {
        self.run(command).result.as_str()
    }

    pub(crate) fn reserve(&mut self, n: u128, by: u128) -> Outcome {
        self.run(Command::Reserve { resource_id: resource(n), holder_id: Some(holder(by)), ttl_slots: 10 })
    }

    pub(crate) fn activate(&mut self, lease_id: LeaseId, by: u128, lease_epoch: u64) -> &'static str {
        self.result(Command::Activate { lease_id, holder_id: Some(holder(by)), lease_epoch })
    }

    pub(crate) fn release(&mut self, lease_id: LeaseId, by: u128, lease_epoch: u64) -> &'static str {
        self.result(Command::Release { lease_id, holder_id: Some(holder(by)), lease_epoch })
    }

    pub(crate) fn query(&self, name: &str, params: serde_json::Value) -> serde_json::Value {
        let answer = self.world.query(&self.objects, name, &cbor::encode(&Value::from(params))).unwrap();
        cbor::decode::<Value>(&answer).unwrap().to_json().unwrap()
    }

    /// All cells of the world, as the tree that a snapshot writes has them.
    pub(crate) fn cells(&self) -> Vec<(String, Vec<u8>)> {
        let mut cells = Vec::new();
        loop {
            let after = cells.last().map(|(key, _): &(String, Vec<u8>)| key.clone());
            let page = self.world.cells().scan(&self.objects, "", after.as_deref(), 1_000).unwrap();
            if page.is_empty() {
                return cells;
            }
            cells.extend(page);
        }
    }

    pub(crate) fn replayed(&self) -> World {
        let mut replay = Replay::from_genesis(&self.objects, self.registry.clone(), &self.journal[0]).unwrap();
        replay.run(&self.objects, &self.journal[1..], None).unwrap();
        replay.finish().unwrap()
    }
}

fn read_outcome(outcome: &ReplyOutcome) -> Result<Outcome, String> {
    match outcome {
        ReplyOutcome::Ok(Payload::Inline(bytes)) => {
            let json = cbor::decode::<Value>(bytes).unwrap().to_json().unwrap();
            Ok(serde_json::from_value(json).unwrap())
        }
        ReplyOutcome::Ok(Payload::Blob(..)) => panic!("an outcome is small"),
        ReplyOutcome::Failed(code, reason, _) => Err(format!("{code}: {reason}")),
    }
}
