//! Artifacts for the stop gate: what executors that run at the same time leave in the store, as tokens, events and totals of one parent.
//!
//! The store's own protocols make them, on virtual time, from a seed. Nothing of a live run enters.

use futures_util::FutureExt;
use mundi_engine::{Engine, Memory};
use mundi_model::{
    Code, Value, WorkerId,
    child::{ACCOUNTING_MODE, Lane, Phase, Spend, replay::ARTIFACT_SCHEMA, spec_params},
};
use mundi_store::{
    Clock, Fence, StoreError,
    protocol::{
        CancelChild, ChildClaim, ChildDispatched, ChildFinish, DebitChild, ExtendChildLeases, FinishChild, LeaseChild,
        LeaseHeld, ListChildren, ReadBudget, ReadChildEvents, RecoverChild, SetBudget, StartChild,
    },
    testing::{Fixture, Rng, spawn_children},
};
use serde_json::json;
use std::time::Duration;

const STEPS: u64 = 90;
const LEASE_NS: u64 = 5_000_000_000;

/// A scenario of children, two of which run at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Two executors run children to their ends.
    Dispatch,
    /// Executors disappear, and their children are recovered.
    Orphans,
    /// Children are cancelled and compete for a budget.
    BudgetAndCancel,
}

impl Scenario {
    pub const ALL: [Self; 3] = [Self::Dispatch, Self::Orphans, Self::BudgetAndCancel];

    pub const fn metric(self) -> &'static str {
        match self {
            Self::Dispatch => "scheduler_dispatch_replay_determinism_pct",
            Self::Orphans => "orphan_lease_recovery_determinism_pct",
            Self::BudgetAndCancel => "concurrent_budget_cancel_stability_pct",
        }
    }

    /// The budget of all children together: where they compete, less than they ask for.
    const fn tokens_max(self) -> u64 {
        match self {
            Self::Dispatch | Self::Orphans => 40,
            Self::BudgetAndCancel => 25,
        }
    }

    const fn children(self) -> usize {
        match self {
            Self::Dispatch | Self::Orphans => 6,
            // Enough for some that are cancelled and some that find the budget used up.
            Self::BudgetAndCancel => 12,
        }
    }
}

/// The artifact of a scenario, the same for the same seed.
pub fn artifact(scenario: Scenario, seed: u64) -> Result<serde_json::Value, StoreError> {
    // In memory nothing is waited for.
    let made = artifact_on(Memory::new(), scenario, seed).now_or_never();
    made.unwrap_or(Err(mundi_engine::EngineError::Closed.into()))
}

/// The artifact of a scenario as an engine comes to hold it, which is empty before. It is the same on each.
pub async fn artifact_on<E: Engine>(engine: E, scenario: Scenario, seed: u64) -> Result<serde_json::Value, StoreError> {
    let store = Fixture::new(engine, 1).await?;
    let fence = store.live(1).await?;
    let params = spec_params("external", &Value::Null, &Spend::default());
    spawn_children(&store, fence, &vec![params; scenario.children()], 2).await?;
    let mut run = Run { store, fence, rng: Rng::new(seed), scenario, claims: Vec::new() };
    run.limit().await?;
    for _ in 0..STEPS {
        run.step().await?;
    }
    run.artifact().await
}

struct Run<E> {
    store: Fixture<E>,
    fence: Fence,
    rng: Rng,
    scenario: Scenario,
    claims: Vec<ChildClaim>,
}

impl<E: Engine> Run<E> {
    fn now_ns(&self) -> u64 {
        self.store.clock.now_ns()
    }

    async fn limit(&self) -> Result<(), StoreError> {
        let limits = vec![(Lane::Tokens, Some(self.scenario.tokens_max()))];
        let (universe, parent, now_ns) = (self.fence.universe, self.fence.world, self.now_ns());
        self.store.run(&SetBudget { universe, parent, limits, request: None, now_ns }).await.map(drop)
    }

    async fn step(&mut self) -> Result<(), StoreError> {
        self.store.clock.advance(Duration::from_millis(1 + self.rng.below(300)));
        match (self.rng.below(8), self.scenario) {
            (0..=2, _) => self.lease().await,
            (3, Scenario::Orphans) => self.disappear().await,
            (3, Scenario::BudgetAndCancel) => self.cancel().await,
            (4, Scenario::BudgetAndCancel) => self.debit().await,
            (3..=5, _) => self.start().await,
            _ => self.finish().await,
        }
    }

    async fn lease(&mut self) -> Result<(), StoreError> {
        let mut token = [0; 16];
        token[..8].copy_from_slice(&self.rng.number().to_be_bytes());
        let lease = LeaseChild {
            universe: self.fence.universe,
            parent: self.fence.world,
            kinds: vec!["external".into()],
            worker: WorkerId::new(1 + self.rng.below(2)).unwrap_or(Self::WORKER),
            token,
            ttl_ns: LEASE_NS,
            now_ns: self.now_ns(),
        };
        if let ChildDispatched::Leased { claim, .. } = self.store.run(&lease).await?.output {
            self.claims.push(claim);
        }
        Ok(())
    }

    const WORKER: WorkerId = match WorkerId::new(1) {
        Some(worker) => worker,
        None => panic!("it is not zero"),
    };

    fn some_claim(&mut self) -> Option<ChildClaim> {
        // Of many claims the last ones: most of the others are of children that ended.
        let recent = match self.scenario {
            Scenario::BudgetAndCancel => &self.claims[self.claims.len().saturating_sub(3)..],
            Scenario::Dispatch | Scenario::Orphans => &self.claims,
        };
        let claims = recent.len() as u64;
        (claims > 0).then(|| recent[usize::try_from(self.rng.below(claims)).unwrap_or(0)])
    }

    async fn start(&mut self) -> Result<(), StoreError> {
        let Some(claim) = self.some_claim() else { return Ok(()) };
        let now_ns = self.now_ns();
        held(self.store.run(&StartChild { claim, now_ns }).await)
    }

    async fn finish(&mut self) -> Result<(), StoreError> {
        let Some(claim) = self.some_claim() else { return Ok(()) };
        let finish = match self.rng.below(3) {
            _ if self.is_to_stop(claim).await? => ChildFinish::Cancelled,
            0 => ChildFinish::Failed { code: Code::UrmChildFailed, reason: "as it was told".into() },
            _ => ChildFinish::Passed(Value::Bool(true)),
        };
        let (spent, now_ns) = (Spend::default().with(Lane::Tokens, self.rng.below(15)), self.now_ns());
        held(self.store.run(&FinishChild { claim, finish, spent, calls: None, now_ns }).await)
    }

    async fn debit(&mut self) -> Result<(), StoreError> {
        let Some(claim) = self.some_claim() else { return Ok(()) };
        let (spent, now_ns) = (Spend::default().with(Lane::Tokens, self.rng.below(25)), self.now_ns());
        held(self.store.run(&DebitChild { claim, spent, calls: None, now_ns }).await)
    }

    async fn cancel(&mut self) -> Result<(), StoreError> {
        if self.rng.below(3) > 0 {
            return Ok(());
        }
        let (universe, parent) = (self.fence.universe, self.fence.world);
        let list = ListChildren { universe, parent, after: None, items_max: self.scenario.children() };
        let mut tokens = self.store.run(&list).await?.output;
        tokens.retain(|token| token.phase != Phase::Terminal);
        // Most often one that runs, else the one that was spawned first.
        let started = tokens.iter().find(|token| token.phase == Phase::Started).filter(|_| self.rng.below(4) > 0);
        let Some(child) = started.or(tokens.first()).map(|token| token.child) else { return Ok(()) };
        let cancel = CancelChild {
            universe,
            parent,
            child,
            cancel_request_id: format!("cancel-{}", self.rng.below(100)),
            request: None,
            now_ns: self.now_ns(),
        };
        self.store.run(&cancel).await.map(drop)
    }

    /// Whether the executor learns that the child was cancelled.
    async fn is_to_stop(&self, claim: ChildClaim) -> Result<bool, StoreError> {
        if self.scenario != Scenario::BudgetAndCancel {
            return Ok(false);
        }
        let extend = ExtendChildLeases::of(&claim, self.now_ns() + LEASE_NS);
        Ok(self.store.run(&extend).await?.output == [LeaseHeld::Cancel])
    }

    /// All executors are gone for longer than their leases.
    async fn disappear(&mut self) -> Result<(), StoreError> {
        self.store.clock.advance(Duration::from_nanos(LEASE_NS));
        loop {
            let (universe, parent, now_ns) = (self.fence.universe, self.fence.world, self.now_ns());
            if self.store.run(&RecoverChild { universe, parent, gone: None, now_ns }).await?.output.is_none() {
                return Ok(());
            }
        }
    }

    /// All that the store has of the parent's children.
    async fn artifact(&self) -> Result<serde_json::Value, StoreError> {
        let (universe, parent) = (self.fence.universe, self.fence.world);
        let list = ListChildren { universe, parent, after: None, items_max: self.scenario.children() };
        let mut tokens = self.store.run(&list).await?.output;
        let mut events = Vec::new();
        for token in &tokens {
            let read = ReadChildEvents { universe, parent, child: token.child, from: 0 };
            let (found, _) = self.store.run(&read).await?.output;
            events.extend(found.iter().map(|event| event.evidence(universe, parent, token.child)));
        }
        tokens.sort_by_key(|token| (token.dispatch_seq.unwrap_or(u64::MAX), token.queue_seq));
        let lines = self.store.run(&ReadBudget { universe, parent }).await?.output;
        let budgets = lines.into_iter().map(|(lane, budget)| {
            let mut line = json!({"lane": lane.as_str(), "total": budget.total, "accounting": ACCOUNTING_MODE});
            if let Some(limit) = budget.limit {
                line["limit"] = limit.into();
            }
            line
        });
        Ok(json!({
            "schema": ARTIFACT_SCHEMA,
            "tokens": tokens.iter().map(|token| token.evidence()).collect::<Vec<_>>(),
            "events": events,
            "budgets": budgets.collect::<Vec<_>>(),
        }))
    }
}

/// A lease that is lost, or a child that is in another phase, is part of the scenario.
fn held<V>(result: Result<V, StoreError>) -> Result<(), StoreError> {
    match result {
        Err(error) if mundi_model::Coded::code(&error) == Code::UrmChildClaimLost => Ok(()),
        result => result.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::{child::replay::replay, json::to_canonical};

    /// The lives of children in the first fixtures of the scenario, those that the gate replays: kinds of events, and the code of the end.
    fn lives(scenario: Scenario) -> Vec<(Vec<String>, String)> {
        let mut lives = Vec::new();
        for seed in 0..4 {
            let made = artifact(scenario, seed).unwrap();
            let mut of = std::collections::BTreeMap::<String, (Vec<String>, String)>::new();
            for event in made["events"].as_array().unwrap() {
                let life = of.entry(event["stream_id"].to_string()).or_default();
                life.0.push(event["event"].as_str().unwrap().to_owned());
                life.1 = event["detail"]["code"].as_str().unwrap_or_default().to_owned();
            }
            lives.extend(of.into_values());
        }
        lives
    }

    #[test]
    fn the_fixtures_of_budgets_and_cancels_have_every_life_of_both() {
        let lives = lives(Scenario::BudgetAndCancel);
        let count = |kinds: &[&str], code: &str| lives.iter().filter(|life| life.0 == kinds && life.1 == code).count();
        let stopped = ["WORKER_START", "WORKER_CANCEL", "WORKER_FAIL"];
        assert!(count(&["WORKER_CANCEL"], "URM_CHILD_CANCELLED") > 0, "before a start: {lives:?}");
        assert!(count(&stopped, "URM_CHILD_CANCELLED") > 1, "after it: {lives:?}");
        assert!(count(&["WORKER_START", "WORKER_FAIL"], "URM_CHILD_BUDGET_EXCEEDED") > 2, "{lives:?}");
        let unstarted = |life: &&(Vec<String>, String)| life.0[0] != "WORKER_START";
        assert!(lives.iter().filter(unstarted).all(|life| life.1 != "URM_CHILD_BUDGET_EXCEEDED"), "{lives:?}");
    }

    #[test]
    fn a_seed_makes_the_same_artifact_and_it_can_be_replayed() {
        for scenario in Scenario::ALL {
            for seed in 0..20 {
                let made = to_canonical(&artifact(scenario, seed).unwrap());
                assert_eq!(made, to_canonical(&artifact(scenario, seed).unwrap()), "{scenario:?} {seed}");
                replay(made.as_bytes()).unwrap_or_else(|error| panic!("{scenario:?} {seed}: {error}"));
            }
        }
    }
}
