//! Children under faults: executors that crash, pause and act on leases that they lost, parents that cancel, and budgets that are too small.
//!
//! Executors are played here, over the very protocols that production runs; the parent is a world of the simulated universe.

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
    Code, Coded, Value, WorkerId, WorldId, cbor,
    child::{CHILD_SPAWN, ChildId, Lane, Spend, spec_params},
};
use mundi_runtime::RuntimeError;
use mundi_store::{
    protocol::{
        CancelChild, ChildClaim, ChildDispatched, ChildFinish, DebitChild, ExtendChildLeases, FinishChild, LeaseChild,
        ListChildren, ReadBudget, ReadChildEvents, ReadChildState, RecoverChild, SetBudget, StartChild,
    },
    testing::Rng,
};
use std::time::Duration;

const STEPS: u64 = 120;
const EXECUTORS: u64 = 3;
const LEASE_NS: u64 = 2_000_000_000;
/// What all children together may spend: less than they ask for.
pub(crate) const TOKENS_MAX: u64 = 60;
const CHECKER: &str = "children";

/// What a run came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChildTally {
    pub children: u64,
    pub starts: u64,
    pub recovered: u64,
}

/// Spawns a child per event, under the event's label.
struct Parent;

impl Program for Parent {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), StepFailure> {
        let Cause::Event { value, .. } = event.cause else { return Ok(()) };
        let Ok(Value::Text(label)) = cbor::decode(value) else { return Ok(()) };
        let params = spec_params("external", &Value::Null, &Spend::default());
        host.spawn_child(&params, &label)?;
        Ok(())
    }
}

struct Run {
    universe: Simulated,
    parent: WorldId,
    rng: Rng,
    /// Each executor's claims. It does not forget those that it lost.
    claims: Vec<Vec<ChildClaim>>,
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
    let mut universe = simulation.start().map_err(failed)?;
    let parent = universe.create(&manifest).map_err(failed)?;
    let claims = (0..EXECUTORS).map(|_| Vec::new()).collect();
    let (rng, watched, tally) = (Rng::new(seed), Watched::default(), ChildTally::default());
    let mut run = Run { universe, parent, rng, claims, watched, spawned: 0, tally };
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
        match self.rng.below(12) {
            0 | 1 => self.spawn(),
            2 | 3 => self.dispatch(),
            4 | 5 => self.start(),
            6 => self.finish(),
            7 => self.debit(),
            8 => self.cancel(),
            9 => self.recover(),
            10 => self.intrude(),
            _ => {
                self.universe.run_for(Duration::from_millis(self.rng.below(1_200)));
                self.extend()
            }
        }
    }

    fn spawn(&mut self) -> Result<(), Failure> {
        self.spawned += 1;
        let label = Value::Text(format!("child {}", self.spawned));
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
            kinds: vec!["external".into()],
            worker: worker(executor),
            token,
            ttl_ns: LEASE_NS,
            now_ns,
        };
        if let ChildDispatched::Leased { claim, .. } = self.universe.run_protocol(lease).map_err(failed)? {
            let is_orphan = |deadline: Option<u64>| deadline.is_some_and(|deadline| deadline <= now_ns);
            if before.active.iter().any(|active| is_orphan(active.lease.deadline_ns)) {
                return Err(broken("a child was dispatched before one of the same parent was recovered"));
            }
            self.claims[index(executor)].push(claim);
        }
        Ok(())
    }

    fn some_claim(&mut self) -> Option<ChildClaim> {
        let executor = index(self.rng.below(EXECUTORS));
        let claims = self.claims[executor].len() as u64;
        (claims > 0).then(|| self.claims[executor][index(self.rng.below(claims))])
    }

    fn start(&mut self) -> Result<(), Failure> {
        let Some(claim) = self.some_claim() else { return Ok(()) };
        let now_ns = self.universe.now_ns();
        let started = self.universe.run_protocol(StartChild { claim, outlives_executor: false, now_ns });
        if self.held(started)?.is_some() {
            self.tally.starts += 1;
            self.watched.started(claim.child, claim.token).map_err(broken)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let Some(claim) = self.some_claim() else { return Ok(()) };
        let finish = match self.rng.below(2) {
            0 => ChildFinish::Passed(Value::Bool(true)),
            _ => ChildFinish::Failed { code: Code::UrmChildFailed, reason: "as it was told".into() },
        };
        let (spent, now_ns) = (Spend::default().with(Lane::Tokens, self.rng.below(30)), self.universe.now_ns());
        let finished = self.universe.run_protocol(FinishChild { claim, finish, spent, now_ns });
        self.held(finished).map(drop)
    }

    fn debit(&mut self) -> Result<(), Failure> {
        let Some(claim) = self.some_claim() else { return Ok(()) };
        let (spent, now_ns) = (Spend::default().with(Lane::Tokens, self.rng.below(30)), self.universe.now_ns());
        let debited = self.universe.run_protocol(DebitChild { claim, spent, now_ns });
        self.held(debited).map(drop)
    }

    /// Whoever knows only the id of a child can do nothing with it.
    fn intrude(&mut self) -> Result<(), Failure> {
        let Some(claim) = self.some_claim() else { return Ok(()) };
        let (claim, now_ns) = (ChildClaim { token: [0xff; 16], ..claim }, self.universe.now_ns());
        let started = self.universe.run_protocol(StartChild { claim, outlives_executor: false, now_ns });
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
        let Some(claim) = self.some_claim() else { return Ok(()) };
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
        self.watched.budget(&lines).map_err(broken)
    }

    /// In the end every child is terminal, and the parent has one receipt of each.
    fn settle(&mut self) -> Result<(), Failure> {
        self.universe.rest()?;
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
