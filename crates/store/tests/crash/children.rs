//! Protocols of children.

use super::{Store, everything, live, on_the_heap, survives};
use mundi_model::{
    Code, Hash, IntentHash, Value, WorkerId, WorldId,
    child::{ChildId, Lane, Spend, spec_params},
};
use mundi_store::{
    Clock, Fence, StoreError,
    protocol::{
        CancelChild, ChildClaim, ChildDispatched, ChildFinish, CreateWorld, DebitChild, EndWorldChild,
        ExtendChildLeases, FailQueuedChild, FinishChild, HoldParent, LeaseChild, NoteRequest, RecoverChild,
        RequestName, SetBudget, StartChild, StartWorldChild, start_world_child,
    },
    testing::{PlainSnapshots, event, spawn_children},
};

const TTL_NS: u64 = 1_000;

fn params(kind: &str) -> Vec<u8> {
    spec_params(kind, &Value::Null, &Spend::default())
}

async fn spawned(store: &Store) -> (Fence, Vec<ChildId>) {
    let fence = live(store).await;
    let children = spawn_children(store, fence, &vec![params("external"); 3], 2).await.unwrap();
    (fence, children)
}

fn lease(store: &Store, fence: Fence, token: u8) -> LeaseChild {
    LeaseChild {
        universe: fence.universe,
        parent: fence.world,
        kinds: vec!["external".into()],
        worker: WorkerId::new(7).unwrap(),
        token: [token; 16],
        ttl_ns: TTL_NS,
        now_ns: store.clock.now_ns(),
    }
}

async fn leased(store: &Store) -> (Fence, ChildClaim) {
    let (fence, _) = spawned(store).await;
    match store.run(&lease(store, fence, 1)).await.unwrap().output {
        ChildDispatched::Leased { claim, .. } => (fence, claim),
        other => panic!("{other:?}"),
    }
}

async fn started(store: &Store) -> (Fence, ChildClaim) {
    let (fence, claim) = leased(store).await;
    store.run(&start(store, claim)).await.unwrap();
    (fence, claim)
}

fn start(store: &Store, claim: ChildClaim) -> StartChild {
    StartChild { claim, now_ns: store.clock.now_ns() }
}

#[test]
fn spawn_children_with_a_turn() {
    let act = async |store: &Store, fence: &Fence| {
        let head = store.read_turn(*fence).await?.head;
        if head.height.get() > 1 {
            return Ok(()); // the turn was applied
        }
        spawn_children(store, *fence, &vec![params("external"); 2], 2).await.map(drop)
    };
    survives(on_the_heap, live, act, everything);
}

#[test]
fn dispatch_a_child() {
    let setup = async |store: &Store| spawned(store).await.0;
    let act = async |store: &Store, fence: &Fence| store.run(&lease(store, *fence, 1)).await.map(drop);
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn start_a_child() {
    let act = async |store: &Store, leased: &(Fence, ChildClaim)| store.run(&start(store, leased.1)).await.map(drop);
    survives(on_the_heap, leased, act, everything);
}

/// Spawns a child of kind `world`, which is leased.
async fn leased_world(store: &Store) -> ChildClaim {
    let fence = live(store).await;
    spawn_children(store, fence, &[params("world")], 2).await.unwrap();
    let lease = LeaseChild { kinds: vec!["world".into()], ..lease(store, fence, 1) };
    match store.run(&lease).await.unwrap().output {
        ChildDispatched::Leased { claim, .. } => claim,
        other => panic!("{other:?}"),
    }
}

async fn start_world(store: &Store, claim: &ChildClaim) -> Result<(), StoreError> {
    let first = event("begin").item;
    let world = CreateWorld { commands: vec![first], ..store.beginning(claim.child.world()) };
    let start = StartWorldChild { claim: *claim, world, now_ns: store.clock.now_ns() };
    start_world_child(&store.engine, &store.clock, &store.blobs, &PlainSnapshots, &start).await.map(drop)
}

async fn started_world(store: &Store) -> ChildClaim {
    let claim = leased_world(store).await;
    start_world(store, &claim).await.unwrap();
    claim
}

#[test]
fn start_a_child_that_is_a_world() {
    survives(on_the_heap, leased_world, start_world, everything);
}

#[test]
fn a_world_says_that_it_is_done_or_is_cancelled() {
    let done = async |store: &Store, claim: &ChildClaim| {
        let end = EndWorldChild {
            universe: claim.universe,
            world: claim.child.world(),
            intent: IntentHash::from_bytes([9; 32]),
            finish: ChildFinish::Passed(Value::Bool(true)),
            spent: Spend::default().with(Lane::Tokens, 7),
            now_ns: store.clock.now_ns(),
        };
        store.run(&end).await.map(drop)
    };
    survives(on_the_heap, started_world, done, everything);
    let cancelled = async |store: &Store, claim: &ChildClaim| cancel(store, &(claim.parent, claim.child)).await;
    survives(on_the_heap, started_world, cancelled, everything);
}

#[test]
fn finish_a_child() {
    let act = async |store: &Store, (_, claim): &(Fence, ChildClaim)| {
        let (claim, now_ns) = (*claim, store.clock.now_ns());
        let (finish, spent) = (ChildFinish::Passed(Value::Bool(true)), Spend::default().with(Lane::Tokens, 7));
        store.run(&FinishChild { claim, finish, spent, calls: None, now_ns }).await.map(drop)
    };
    survives(on_the_heap, started, act, everything);
}

#[test]
fn debit_a_child_within_and_beyond_its_budget() {
    let setup = async |store: &Store| {
        let (fence, claim) = started(store).await;
        store.run(&limit(store, fence, 10)).await.unwrap();
        claim
    };
    let act = async |store: &Store, claim: &ChildClaim| {
        for tokens in [5, 10, 11] {
            let (spent, now_ns) = (Spend::default().with(Lane::Tokens, tokens), store.clock.now_ns());
            store.run(&DebitChild { claim: *claim, spent, calls: None, now_ns }).await.map(drop).or_else(over)?;
        }
        Ok(())
    };
    survives(on_the_heap, setup, act, everything);
}

/// The second try of all reports meets a child that the first one has ended.
fn over(error: StoreError) -> Result<(), StoreError> {
    match mundi_model::Coded::code(&error) {
        Code::UrmChildClaimLost => Ok(()),
        _ => Err(error),
    }
}

#[test]
fn cancel_queued_leased_and_started_children() {
    let queued = async |store: &Store| {
        let (fence, children) = spawned(store).await;
        (fence.world, children[0])
    };
    survives(on_the_heap, queued, cancel, everything);
    survives(on_the_heap, async |store: &Store| of(leased(store).await), cancel, everything);
    survives(on_the_heap, async |store: &Store| of(started(store).await), cancel, everything);
}

fn of((fence, claim): (Fence, ChildClaim)) -> (WorldId, ChildId) {
    (fence.world, claim.child)
}

async fn cancel(store: &Store, (parent, child): &(WorldId, ChildId)) -> Result<(), StoreError> {
    let (universe, parent, child, now_ns) = (store.universe, *parent, *child, store.clock.now_ns());
    let cancel = CancelChild { universe, parent, child, cancel_request_id: "why".into(), request: None, now_ns };
    store.run(&cancel).await.map(drop)
}

#[test]
fn recover_children_whose_executors_are_gone() {
    let setup = async |store: &Store| {
        let (fence, _) = started(store).await;
        store.run(&lease(store, fence, 2)).await.unwrap();
        fence
    };
    let act = async |store: &Store, fence: &Fence| {
        let now_ns = store.clock.now_ns() + TTL_NS;
        let recover = RecoverChild { universe: fence.universe, parent: fence.world, gone: None, now_ns };
        while store.run(&recover).await?.output.is_some() {}
        Ok(())
    };
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn extend_the_lease_of_a_child() {
    let act = async |store: &Store, (_, claim): &(Fence, ChildClaim)| {
        store.run(&ExtendChildLeases::of(claim, store.clock.now_ns() + 9 * TTL_NS)).await.map(drop)
    };
    survives(on_the_heap, leased, act, everything);
}

#[test]
fn fail_a_child_that_waits() {
    let setup = async |store: &Store| {
        let (fence, children) = spawned(store).await;
        (fence, children[1])
    };
    let act = async |store: &Store, (fence, child): &(Fence, ChildId)| {
        let (code, reason, now_ns) = (Code::UrmChildKindInvalid, "no such kind".to_owned(), store.clock.now_ns());
        let (universe, parent, child) = (fence.universe, fence.world, *child);
        store.run(&FailQueuedChild { universe, parent, child, code, reason, now_ns }).await.map(drop)
    };
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn hold_a_parent() {
    let act = async |store: &Store, fence: &Fence| {
        let (code, reason) = (Code::UrmDispatchLeaseConflict, "why".to_owned());
        let (universe, parent, now_ns) = (fence.universe, fence.world, store.clock.now_ns());
        store.run(&HoldParent { universe, parent, code, reason, now_ns }).await.map(drop)
    };
    survives(on_the_heap, live, act, everything);
}

fn limit(store: &Store, fence: Fence, tokens: u64) -> SetBudget {
    let request =
        RequestName { endpoint: "budget", client_request_id: "first".into(), payload: Hash::of(&tokens.to_be_bytes()) };
    SetBudget {
        universe: fence.universe,
        parent: fence.world,
        limits: vec![(Lane::Tokens, Some(tokens))],
        request: Some(request),
        now_ns: store.clock.now_ns(),
    }
}

#[test]
fn note_a_request() {
    let act = async |store: &Store, fence: &Fence| {
        let request =
            RequestName { endpoint: "spawn", client_request_id: "first".into(), payload: Hash::of(b"payload") };
        let (universe, parent, now_ns) = (fence.universe, fence.world, store.clock.now_ns());
        store.run(&NoteRequest { universe, parent, request, now_ns }).await.map(drop)
    };
    survives(on_the_heap, live, act, everything);
}

#[test]
fn set_a_budget() {
    let act = async |store: &Store, fence: &Fence| store.run(&limit(store, *fence, 9)).await.map(drop);
    survives(on_the_heap, live, act, everything);
}
