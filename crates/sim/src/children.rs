//! Children under faults: executors that crash, pause and act on leases that they lost, parents that cancel, and budgets that are too small.
//!
//! Executors are played here, over the very protocols that production runs; the parent, and children that are worlds, are worlds of the simulated
//! universe. An agent is played by what tells it from other work: it calls the outside and reports after each answer.

use crate::{
    checkers::children::{Observed, Watched},
    faults::Faults,
    run::Failure,
    simulation::{Simulated, Simulation},
};
use mundi_kernel::{
    manifest::{EffectRule, Schema},
    program::{Cause, Event, Failure as StepFailure, Host, Program},
};
use mundi_model::{
    Code, Coded, Hash, IntentHash, Value, WorkerId, WorldId, cbor,
    child::{
        CHILD_CANCELLED_INBOX, CHILD_RUN_INBOX, CHILD_SPAWN, ChildId, KIND_WORLD, Lane, RunId, Spend, spec_params,
    },
    record::{InboxItem, Input, Origin, Payload},
};
use mundi_runtime::{
    KernelSnapshots, Plane, RuntimeError,
    lifecycle::{Naming, NewWorld, begin_world},
};
use mundi_store::{
    protocol::{
        CancelChild, ChildClaim, ChildDispatched, ChildFinish, CreateWorld, DebitChild, DescribeWorld, EndWorldChild,
        ExtendChildLeases, FinishChild, LeaseChild, ListChildren, ReadBudget, ReadChildEvents, ReadChildState,
        RecoverChild, SetBudget, StartChild, StartWorldChild, start_world_child,
    },
    testing::Rng,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

const STEPS: u64 = 120;
const EXECUTORS: u64 = 3;
const LEASE_NS: u64 = 2_000_000_000;
/// The tokens of all children together: less than they ask for.
pub(crate) const TOKENS_MAX: u64 = 60;
const CHECKER: &str = "children";
const AGENT: &str = "agent";

/// The counts of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChildTally {
    pub children: u64,
    pub starts: u64,
    pub recovered: u64,
}

/// Spawns a child per event, under the event's label, whose first word is the kind.
struct Parent;

impl Program for Parent {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), StepFailure> {
        let Cause::Event { value, .. } = event.cause else { return Ok(()) };
        let Ok(Value::Text(label)) = cbor::decode(value) else { return Ok(()) };
        let kind = label.split(' ').next().unwrap_or_default();
        let params = spec_params(kind, &Value::Null, &Spend::default());
        host.spawn_child(&params, &label)?;
        Ok(())
    }
}

/// A world that is a child: counts how often it began, and notes that it was cancelled.
struct ChildWorld;

impl Program for ChildWorld {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), StepFailure> {
        match event.cause {
            Cause::Message { inbox: CHILD_CANCELLED_INBOX, .. } => Ok(host.put("cancelled", b"yes")?),
            Cause::Message { inbox: CHILD_RUN_INBOX, .. } => {
                let before = host.get("began")?.unwrap_or_default();
                Ok(host.put("began", &[&before[..], b"x"].concat())?)
            }
            _ => Ok(()),
        }
    }
}

/// A claim of an executor, and what it knows of the child.
#[derive(Clone)]
struct Claimed {
    claim: ChildClaim,
    kind: String,
    run: Option<RunId>,
}

struct Run {
    universe: Simulated,
    parent: WorldId,
    child_world: Hash,
    rng: Rng,
    /// Each executor's claims. It does not forget those that it lost.
    claims: Vec<Vec<Claimed>>,
    /// How often each agent called the outside.
    calls: BTreeMap<ChildId, u64>,
    /// Children that are worlds and were started.
    worlds: BTreeSet<ChildId>,
    watched: Watched,
    spawned: u64,
    tally: ChildTally,
}

/// Runs children under about half of these faults, those that the seed chooses, and checks every promise.
pub fn run_child_seed(seed: u64, allowed: &Faults) -> Result<ChildTally, Failure> {
    let mut simulation = Simulation::new(seed).faults(allowed.swarm(seed));
    let mut manifest = simulation.program("parent", 1, Parent);
    manifest.events.insert("spawn".into(), Schema::anything());
    manifest.effects.insert(CHILD_SPAWN.into(), EffectRule::default());
    let child_world = simulation.program("child", 1, ChildWorld);
    let mut universe = simulation.start().map_err(failed)?;
    let parent = universe.create(&manifest).map_err(failed)?;
    let child_world = universe.register(&child_world).map_err(failed)?;
    let claims = (0..EXECUTORS).map(|_| Vec::new()).collect();
    let (rng, watched, tally) = (Rng::new(seed), Watched::default(), ChildTally::default());
    let (calls, worlds) = (BTreeMap::new(), BTreeSet::new());
    let mut run = Run { universe, parent, child_world, rng, claims, calls, worlds, watched, spawned: 0, tally };
    run.limit()?;
    for _ in 0..STEPS {
        run.step()?;
        run.observe()?;
    }
    run.settle()?;
    run.universe.finish()?;
    run.tally.children = run.spawned;
    Ok(run.tally)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn failed(error: RuntimeError) -> Failure {
    Failure { checker: CHECKER, what: error.to_string() }
}

fn broken(what: impl Into<String>) -> Failure {
    Failure { checker: CHECKER, what: what.into() }
}

impl Run {
    fn limit(&mut self) -> Result<(), Failure> {
        let (universe, parent) = (Simulated::UNIVERSE, self.parent);
        let limits = vec![(Lane::Tokens, Some(TOKENS_MAX))];
        let set = SetBudget { universe, parent, limits, request: None, now_ns: self.universe.now_ns() };
        self.universe.run_protocol(set).map_err(failed)
    }

    fn step(&mut self) -> Result<(), Failure> {
        match self.rng.below(13) {
            0 | 1 => self.spawn(),
            2 | 3 => self.dispatch(),
            4 | 5 => self.start(),
            6 => self.finish(),
            7 => self.debit(),
            8 => self.cancel(),
            9 => self.recover(),
            10 => self.intrude(),
            11 => self.end_world(),
            _ => {
                self.universe.run_for(Duration::from_millis(self.rng.below(1_200)));
                self.extend()
            }
        }
    }

    fn spawn(&mut self) -> Result<(), Failure> {
        self.spawned += 1;
        let kind = ["external", "external", AGENT, KIND_WORLD][index(self.rng.below(4))];
        let label = Value::Text(format!("{kind} {}", self.spawned));
        self.universe.send(self.parent, "spawn", &label).map_err(failed)?;
        self.universe.run_for(Duration::from_millis(200));
        Ok(())
    }

    fn dispatch(&mut self) -> Result<(), Failure> {
        let executor = self.rng.below(EXECUTORS);
        let before = self.state()?;
        let now_ns = self.universe.now_ns();
        let mut token = [0; 16];
        token[..8].copy_from_slice(&self.rng.number().to_be_bytes());
        let lease = LeaseChild {
            universe: Simulated::UNIVERSE,
            parent: self.parent,
            kinds: ["external", AGENT, KIND_WORLD].map(Into::into).to_vec(),
            worker: worker(executor),
            token,
            ttl_ns: LEASE_NS,
            now_ns,
        };
        if let ChildDispatched::Leased { claim, token } = self.universe.run_protocol(lease).map_err(failed)? {
            let is_orphan = |deadline: Option<u64>| deadline.is_some_and(|deadline| deadline <= now_ns);
            if before.active.iter().any(|active| is_orphan(active.lease.deadline_ns)) {
                return Err(broken("a child was dispatched before one of the same parent was recovered"));
            }
            self.claims[index(executor)].push(Claimed { claim, kind: token.kind, run: token.run });
        }
        Ok(())
    }

    fn some_claim(&mut self) -> Option<Claimed> {
        let executor = index(self.rng.below(EXECUTORS));
        let claims = self.claims[executor].len() as u64;
        (claims > 0).then(|| self.claims[executor][index(self.rng.below(claims))].clone())
    }

    /// A claim on a child whose executor does its work.
    fn some_work(&mut self) -> Option<Claimed> {
        self.some_claim().filter(|claimed| claimed.kind != KIND_WORLD)
    }

    fn start(&mut self) -> Result<(), Failure> {
        let Some(Claimed { claim, kind, .. }) = self.some_claim() else { return Ok(()) };
        let now_ns = self.universe.now_ns();
        let started = match kind == KIND_WORLD {
            true => self.start_world(claim),
            false => self.universe.run_protocol(StartChild { claim, now_ns }).map(drop),
        };
        if self.held(started)?.is_some() {
            if kind == KIND_WORLD {
                self.worlds.insert(claim.child);
            }
            self.tally.starts += 1;
            self.watched.started(claim.child, claim.token).map_err(broken)?;
        }
        Ok(())
    }

    fn start_world(&self, claim: ChildClaim) -> Result<(), RuntimeError> {
        let (manifest, now_ns) = (self.child_world, self.universe.now_ns());
        self.universe.retry(move |plane| async move {
            let (universe, world) = (claim.universe, claim.child.world());
            let new = NewWorld { universe, world, manifest, inbox: None, now_ns: 1 };
            let begin = begin_world(&plane, new, Naming::default()).await?;
            let payload = Payload::Inline(cbor::encode(&Value::Null));
            let input = Input::Message { inbox: CHILD_RUN_INBOX.into(), payload, headers: BTreeMap::new() };
            let commands = vec![InboxItem { input, origin: Origin::new(now_ns) }];
            let start = StartWorldChild { claim, world: CreateWorld { commands, ..begin }, now_ns };
            let (engine, clock, blobs) = (plane.engine(), &**plane.clock(), plane.blobs());
            Ok(start_world_child(engine, clock, blobs, &KernelSnapshots, &start).await.map(drop)?)
        })
    }

    /// A world that is a child says that it is done, perhaps again and perhaps otherwise.
    fn end_world(&mut self) -> Result<(), Failure> {
        if self.worlds.is_empty() {
            return Ok(());
        }
        let number = index(self.rng.below(self.worlds.len() as u64));
        let Some(&child) = self.worlds.iter().nth(number) else { return Ok(()) };
        self.end_this_world(child)
    }

    fn end_this_world(&mut self, child: ChildId) -> Result<(), Failure> {
        let tokens = self.rng.below(30);
        self.watched.says(child, tokens);
        let end = EndWorldChild {
            universe: Simulated::UNIVERSE,
            world: child.world(),
            intent: IntentHash::from_bytes([u8::try_from(self.rng.below(3)).unwrap_or(0); 32]),
            finish: ChildFinish::Passed(Value::Bool(true)),
            spent: Spend::default().with(Lane::Tokens, tokens),
            now_ns: self.universe.now_ns(),
        };
        let ended = self.universe.run_protocol(end);
        self.held(ended).map(drop)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let Some(Claimed { claim, .. }) = self.some_work() else { return Ok(()) };
        let finish = match self.rng.below(2) {
            0 => ChildFinish::Passed(Value::Bool(true)),
            _ => ChildFinish::Failed { code: Code::UrmChildFailed, reason: "as it was told".into() },
        };
        let (tokens, now_ns) = (self.rng.below(30), self.universe.now_ns());
        self.watched.says(claim.child, tokens);
        let spent = Spend::default().with(Lane::Tokens, tokens);
        let finished = self.universe.run_protocol(FinishChild { claim, finish, spent, calls: None, now_ns });
        self.held(finished).map(drop)
    }

    fn debit(&mut self) -> Result<(), Failure> {
        let Some(Claimed { claim, kind, run }) = self.some_work() else { return Ok(()) };
        let mut spent = Spend::default().with(Lane::Tokens, self.rng.below(30));
        if let Some(run) = run.filter(|_| kind == AGENT) {
            // It is answered, and reports all that it used so far.
            let call = self.calls.entry(claim.child).or_default();
            *call += 1;
            self.watched.calls(claim.child, run.call_key(*call)).map_err(broken)?;
            spent = Spend::default().with(Lane::Tokens, 4 * *call).with(Lane::SolverCalls, *call);
        }
        let now_ns = self.universe.now_ns();
        self.watched.says(claim.child, spent.tokens.unwrap_or(0));
        let debited = self.universe.run_protocol(DebitChild { claim, spent, calls: None, now_ns });
        self.held(debited).map(drop)
    }

    /// The id of a child alone gives no authority over it.
    fn intrude(&mut self) -> Result<(), Failure> {
        let Some(Claimed { claim, .. }) = self.some_claim() else { return Ok(()) };
        let (claim, now_ns) = (ChildClaim { token: [0xff; 16], ..claim }, self.universe.now_ns());
        let started = self.universe.run_protocol(StartChild { claim, now_ns });
        match self.held(started)? {
            Some(_) => Err(broken("a child was started without its lease")),
            None => Ok(()),
        }
    }

    fn cancel(&mut self) -> Result<(), Failure> {
        let tokens = self.tokens()?;
        if tokens.is_empty() {
            return Ok(());
        }
        let child = tokens[index(self.rng.below(tokens.len() as u64))];
        let cancel = CancelChild {
            universe: Simulated::UNIVERSE,
            parent: self.parent,
            child,
            cancel_request_id: format!("cancel {}", self.rng.below(1_000)),
            request: None,
            now_ns: self.universe.now_ns(),
        };
        self.universe.run_protocol(cancel).map(drop).map_err(failed)
    }

    /// All that is orphaned, as whoever notices does it.
    fn recover(&mut self) -> Result<(), Failure> {
        let mut last = 0;
        loop {
            let (universe, parent, now_ns) = (Simulated::UNIVERSE, self.parent, self.universe.now_ns());
            let recover = RecoverChild { universe, parent, gone: None, now_ns };
            let Some(one) = self.universe.run_protocol(recover).map_err(failed)? else { return Ok(()) };
            if one.dispatch_seq < last {
                return Err(broken(format!("the dispatch {} was recovered after {last}", one.dispatch_seq)));
            }
            last = one.dispatch_seq;
            self.tally.recovered += 1;
        }
    }

    fn extend(&mut self) -> Result<(), Failure> {
        let Some(Claimed { claim, .. }) = self.some_claim() else { return Ok(()) };
        let extend = ExtendChildLeases::of(&claim, self.universe.now_ns() + LEASE_NS);
        self.universe.run_protocol(extend).map(drop).map_err(failed)
    }

    /// A lease that is lost is no failure.
    fn held<V>(&self, result: Result<V, RuntimeError>) -> Result<Option<V>, Failure> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(error) if error.code() == Code::UrmChildClaimLost => Ok(None),
            Err(error) if error.code() == Code::UrmChildNotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn state(&mut self) -> Result<mundi_store::values::ChildState, Failure> {
        let read = ReadChildState { universe: Simulated::UNIVERSE, parent: self.parent };
        self.universe.run_protocol(read).map_err(failed)
    }

    fn tokens(&mut self) -> Result<Vec<ChildId>, Failure> {
        let (universe, parent) = (Simulated::UNIVERSE, self.parent);
        let list = ListChildren { universe, parent, after: None, items_max: 1_000 };
        let tokens = self.universe.run_protocol(list).map_err(failed)?;
        Ok(tokens.iter().map(|token| token.child).collect())
    }

    /// Reads everything that is known of the children, and compares it with what was known before.
    fn observe(&mut self) -> Result<(), Failure> {
        let (universe, parent) = (Simulated::UNIVERSE, self.parent);
        let list = ListChildren { universe, parent, after: None, items_max: 1_000 };
        for token in self.universe.run_protocol(list).map_err(failed)? {
            let read = ReadChildEvents { universe, parent, child: token.child, from: 0 };
            let (events, _) = self.universe.run_protocol(read).map_err(failed)?;
            self.watched.child(Observed { token, events }).map_err(broken)?;
        }
        let lines = self.universe.run_protocol(ReadBudget { universe, parent }).map_err(failed)?;
        self.watched.budget(&lines).map_err(broken)?;
        let mut exist = BTreeSet::new();
        for child in self.watched.world_children() {
            match self.universe.run_protocol(DescribeWorld { universe, world: child.world() }) {
                Ok(_) => drop(exist.insert(child.world())),
                Err(error) if error.code() == Code::WorldNotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        self.watched.worlds(&exist).map_err(broken)
    }

    /// In the end every child is terminal, and the parent has one receipt of each.
    fn settle(&mut self) -> Result<(), Failure> {
        self.universe.rest()?;
        for child in self.worlds.clone() {
            self.end_this_world(child)?;
        }
        for _ in 0..self.spawned + 2 {
            self.universe.run_for(Duration::from_nanos(2 * LEASE_NS));
            self.recover()?;
            self.dispatch()?;
            self.dispatch()?;
        }
        self.universe.run_for(Duration::from_nanos(2 * LEASE_NS));
        self.recover()?;
        self.universe.rest()?;
        self.observe()?;
        for child in self.worlds.clone() {
            let began = self.universe.cell(child.world(), "began").map_err(failed)?;
            if began.as_deref() != Some(b"x") {
                return Err(broken(format!("the world of {child} began {} times", began.map_or(0, |it| it.len()))));
            }
        }
        for world in self.watched.cancelled_worlds() {
            if self.universe.cell(world, "cancelled").map_err(failed)?.is_none() {
                return Err(broken(format!("{world} was cancelled, and was not told")));
            }
        }
        let journal = self.universe.journal(self.parent).map_err(failed)?;
        self.watched.all_ended(&journal).map_err(broken)
    }
}

fn worker(executor: u64) -> WorkerId {
    #[expect(clippy::expect_used, reason = "a small number that is not zero")]
    WorkerId::new(executor + 1).expect("a worker id")
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(0)
}
