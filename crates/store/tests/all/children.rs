//! Children of a world: order, uniqueness, leases, recovery, cancel and budgets.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::{Engine, Memory, RangeRead, Transaction};
use mundi_model::{
    Code, Coded, Value, WorkerId, cbor,
    child::{
        CHILD_INBOX, ChildEvent, ChildId, ChildOutcome, DispatchToken, EventKind, Lane, Phase, RunId, Spend,
        spec_params,
    },
    limits,
    record::{Input, Payload, ReceiptStatus},
};
use mundi_store::{
    Clock, Fence, Protocol, StoreError,
    keyspace::{child_event, child_order, child_request, child_state, dedupe_bucket},
    protocol::{
        ArchiveWorld, BeginCancelChildren, CancelChild, CancelOutcome, CancelRequested, ChildClaim, ChildDispatched,
        ChildFinish, ChildFinished, DebitChild, Debited, DescribeChild, DescribeWorld, ExtendChildLeases,
        FailQueuedChild, FinishChild, HoldParent, LeaseChild, LeaseHeld, ListChildParents, ListChildren, NoteRequest,
        ReadBudget, ReadChildEvents, ReadChildState, RecoverChild, RequestName, SetBudget, StartChild, StartWorldChild,
        expire_dedupe, start_world_child,
    },
    testing::{Fixture, PlainSnapshots, Rng, spawn_children},
};
use pollster::block_on;
use std::{collections::BTreeSet, time::Duration};

type Store = Fixture<Memory>;

const TTL_NS: u64 = 1_000_000;

struct Rig {
    store: Store,
    fence: Fence,
    drawn: std::cell::Cell<u8>,
}

impl Rig {
    async fn new() -> Self {
        let store = Fixture::new(Memory::new(), 1).await.unwrap();
        let fence = store.live(1).await.unwrap();
        Self { store, fence, drawn: std::cell::Cell::new(0) }
    }

    async fn spawn(&self, count: usize) -> Vec<ChildId> {
        self.spawn_with(&vec![spec_params("external", &Value::Null, &Spend::default()); count], 2).await.unwrap()
    }

    async fn spawn_with(&self, params: &[Vec<u8>], active_max: u64) -> Result<Vec<ChildId>, StoreError> {
        spawn_children(&self.store, self.fence, params, active_max).await
    }

    fn now(&self) -> u64 {
        self.store.clock.now_ns()
    }

    fn lease(&self, worker: u64) -> LeaseChild {
        self.drawn.set(self.drawn.get() + 1);
        LeaseChild {
            universe: self.fence.universe,
            parent: self.fence.world,
            kinds: vec!["external".into()],
            worker: WorkerId::new(worker).unwrap(),
            token: [self.drawn.get(); 16],
            ttl_ns: TTL_NS,
            now_ns: self.now(),
        }
    }

    async fn dispatch(&self, worker: u64) -> ChildDispatched {
        self.store.run(&self.lease(worker)).await.unwrap().output
    }

    async fn leased(&self) -> (ChildClaim, DispatchToken) {
        match self.dispatch(1).await {
            ChildDispatched::Leased { claim, token } => (claim, *token),
            other => panic!("{other:?}"),
        }
    }

    async fn start(&self, claim: ChildClaim) -> Result<DispatchToken, StoreError> {
        let start = StartChild { claim, now_ns: self.now() };
        self.store.run(&start).await.map(|done| done.output)
    }

    async fn started(&self) -> ChildClaim {
        let (claim, _) = self.leased().await;
        self.start(claim).await.unwrap();
        claim
    }

    async fn finish(&self, claim: ChildClaim, finish: ChildFinish, spent: Spend) -> Result<ChildFinished, StoreError> {
        self.store
            .run(&FinishChild { claim, finish, spent, calls: None, now_ns: self.now() })
            .await
            .map(|done| done.output)
    }

    async fn pass(&self, claim: ChildClaim) -> Result<ChildFinished, StoreError> {
        self.finish(claim, ChildFinish::Passed(Value::Text("done".into())), Spend::default()).await
    }

    async fn cancel(&self, child: ChildId, id: &str) -> CancelOutcome {
        self.asks_cancel(child, id).await.outcome
    }

    async fn asks_cancel(&self, child: ChildId, id: &str) -> CancelRequested {
        let (universe, parent) = (self.fence.universe, self.fence.world);
        let cancel =
            CancelChild { universe, parent, child, cancel_request_id: id.into(), request: None, now_ns: self.now() };
        self.store.run(&cancel).await.unwrap().output
    }

    async fn recover(&self, gone: Option<u64>) -> Vec<(u64, Code)> {
        let (universe, parent) = (self.fence.universe, self.fence.world);
        let gone = gone.and_then(WorkerId::new);
        let mut recovered = Vec::new();
        loop {
            let recover = RecoverChild { universe, parent, gone, now_ns: self.now() };
            match self.store.run(&recover).await.unwrap().output {
                Some(one) => recovered.push((one.dispatch_seq, one.code)),
                None => return recovered,
            }
        }
    }

    async fn token(&self, child: ChildId) -> DispatchToken {
        let (universe, parent) = (self.fence.universe, self.fence.world);
        self.store.run(&DescribeChild { universe, parent, child }).await.unwrap().output
    }

    async fn events(&self, child: ChildId) -> Vec<ChildEvent> {
        let (universe, parent) = (self.fence.universe, self.fence.world);
        self.store.run(&ReadChildEvents { universe, parent, child, from: 0 }).await.unwrap().output.0
    }

    async fn limit(&self, lane: Lane, limit: u64) {
        let (universe, parent) = (self.fence.universe, self.fence.world);
        let set = SetBudget { universe, parent, limits: vec![(lane, Some(limit))], request: None, now_ns: self.now() };
        self.store.run(&set).await.unwrap();
    }

    async fn total(&self, lane: Lane) -> u64 {
        let (universe, parent) = (self.fence.universe, self.fence.world);
        let lines = self.store.run(&ReadBudget { universe, parent }).await.unwrap().output;
        lines.into_iter().find(|(of, _)| *of == lane).unwrap().1.total
    }

    /// The items in the parent's inbox: notices of starts, and the outcomes of receipts.
    async fn told(&self) -> Vec<String> {
        let items = self.store.read_turn(self.fence).await.unwrap().items;
        let items = items.iter().map(|item| match &item.item.input {
            Input::Message { inbox, headers, .. } if inbox == CHILD_INBOX => format!("started {}", headers["child_id"]),
            Input::Receipt(receipt) => {
                let Payload::Inline(bytes) = &receipt.payload else { panic!("a small one") };
                let Value::Map(fields) = cbor::decode(bytes).unwrap() else { panic!("a map") };
                let Value::Text(outcome) = &fields["outcome"] else { panic!("a text") };
                assert_eq!(receipt.status == ReceiptStatus::Ok, outcome == "passed");
                let Value::Text(child) = &fields["child_id"] else { panic!("a text") };
                format!("{outcome} {child}")
            }
            other => panic!("{other:?}"),
        });
        items.collect()
    }

    async fn put<V: minicbor::Encode<()>>(&self, key: mundi_store::keyspace::Key, value: V) {
        let mut tx = self.store.engine.begin().await.unwrap();
        tx.put(key.as_bytes(), cbor::encode(&value)).unwrap();
        tx.commit().await.unwrap();
    }
}

fn code<V>(result: Result<V, StoreError>) -> Code {
    result.map(drop).unwrap_err().code()
}

fn tokens(amount: u64) -> Spend {
    Spend::default().with(Lane::Tokens, amount)
}

fn kinds(events: &[ChildEvent]) -> Vec<EventKind> {
    events.iter().map(|event| event.kind).collect()
}

#[test]
fn a_child_is_queued_leased_started_and_passes_and_its_parent_is_told() {
    block_on(async {
        let rig = Rig::new().await;
        let child = rig.spawn(1).await[0];
        assert_eq!(rig.token(child).await.phase, Phase::Queued);
        let (claim, token) = rig.leased().await;
        assert_eq!((token.phase, token.dispatch_seq), (Phase::Leased, Some(1)));
        assert_eq!(token.run, Some(RunId::of_dispatch(rig.fence.world, 1)));
        assert!(rig.told().await.is_empty());
        rig.start(claim).await.unwrap();
        assert_eq!(rig.token(child).await.phase, Phase::Started);
        rig.pass(claim).await.unwrap();
        let end = rig.token(child).await;
        assert_eq!((end.phase, end.end.unwrap().outcome), (Phase::Terminal, ChildOutcome::Passed));
        assert_eq!(kinds(&rig.events(child).await), [EventKind::Start, EventKind::Pass]);
        assert_eq!(rig.told().await, [format!("started {child}"), format!("passed {child}")]);
        let parents = ListChildParents { universe: rig.fence.universe, after: None };
        assert!(rig.store.run(&parents).await.unwrap().output.is_empty(), "nothing is left to look after");
    });
}

#[test]
fn children_are_leased_in_the_order_of_their_spawn_and_no_more_than_the_bound() {
    block_on(async {
        let rig = Rig::new().await;
        let children = rig.spawn(4).await;
        let (first, _) = rig.leased().await;
        let (second, _) = rig.leased().await;
        assert_eq!([first.child, second.child], children[..2]);
        assert_eq!(rig.dispatch(2).await, ChildDispatched::Full);
        rig.start(second).await.unwrap();
        rig.pass(second).await.unwrap();
        let (third, token) = rig.leased().await;
        assert_eq!((third.child, token.dispatch_seq), (children[2], Some(3)));
        let listed =
            ListChildren { universe: rig.fence.universe, parent: rig.fence.world, after: Some(1), items_max: 2 };
        let listed = rig.store.run(&listed).await.unwrap().output;
        assert_eq!(listed.iter().map(|token| token.child).collect::<Vec<_>>(), children[1..3]);
    });
}

#[test]
fn a_kind_that_nobody_serves_is_not_passed_over_and_can_be_failed() {
    block_on(async {
        let rig = Rig::new().await;
        let other = spec_params("other", &Value::Null, &Spend::default());
        let usual = spec_params("external", &Value::Null, &Spend::default());
        let children = rig.spawn_with(&[other, usual], 2).await.unwrap();
        assert_eq!(rig.dispatch(1).await, ChildDispatched::OtherKind { kind: "other".into(), child: children[0] });
        let (universe, parent, child) = (rig.fence.universe, rig.fence.world, children[0]);
        let (code, reason, now_ns) = (Code::UrmChildKindInvalid, "no such kind".to_owned(), rig.now());
        rig.store.run(&FailQueuedChild { universe, parent, child, code, reason, now_ns }).await.unwrap();
        let events = rig.events(child).await;
        assert_eq!((kinds(&events), events[0].dispatch_seq), (vec![EventKind::Fail], None));
        assert_eq!(rig.leased().await.0.child, children[1]);
    });
}

#[test]
fn a_lease_that_ran_out_is_recovered_before_the_next_dispatch_in_dispatch_order() {
    block_on(async {
        let rig = Rig::new().await;
        let children = rig.spawn(3).await;
        let started = rig.started().await;
        let (leased, _) = rig.leased().await;
        rig.store.clock.advance(Duration::from_nanos(TTL_NS));
        assert_eq!(rig.dispatch(2).await, ChildDispatched::RecoverFirst);
        let expected = [(1, Code::UrmChildTerminatedOnRestart), (2, Code::UrmSchedulerLeaseOrphaned)];
        assert_eq!(rig.recover(None).await, expected);
        let orphan = rig.events(children[1]).await;
        assert_eq!((kinds(&orphan), orphan[0].reason.as_deref()), (vec![EventKind::Fail], Some("lease_orphaned")));
        assert!(orphan[0].dispatch_seq == Some(2) && orphan[0].run.is_some());
        assert_eq!(rig.token(children[2]).await.phase, Phase::Queued, "what waits stays");
        // The executor comes back: it can neither start nor end anything.
        for claim in [started, leased] {
            assert_eq!(code(rig.start(claim).await), Code::UrmChildClaimLost);
            assert_eq!(code(rig.pass(claim).await), Code::UrmChildClaimLost);
            let extend = ExtendChildLeases::of(&claim, u64::MAX);
            assert_eq!(rig.store.run(&extend).await.unwrap().output, [LeaseHeld::Lost]);
        }
        let (third, token) = rig.leased().await;
        assert_eq!((third.child, token.dispatch_seq), (children[2], Some(3)), "nothing is dispatched again");
    });
}

#[test]
fn a_worker_that_starts_again_recovers_its_own_leases_at_once_and_no_others() {
    block_on(async {
        let rig = Rig::new().await;
        rig.spawn(2).await;
        rig.dispatch(1).await;
        rig.dispatch(2).await;
        assert_eq!(rig.recover(None).await, []);
        assert_eq!(rig.recover(Some(2)).await, [(2, Code::UrmSchedulerLeaseOrphaned)]);
        assert_eq!(rig.recover(Some(2)).await, []);
    });
}

#[test]
fn a_child_that_is_a_world_is_not_recovered_and_a_cancel_ends_it_at_once() {
    block_on(async {
        let rig = Rig::new().await;
        let params = spec_params("world", &Value::Null, &Spend::default());
        let child = rig.spawn_with(&[params], 2).await.unwrap()[0];
        let lease = LeaseChild { kinds: vec!["world".into()], ..rig.lease(1) };
        let ChildDispatched::Leased { claim, .. } = rig.store.run(&lease).await.unwrap().output else { panic!() };
        let start = StartWorldChild { claim, world: rig.store.beginning(child.world()), now_ns: rig.now() };
        let Rig { store, .. } = &rig;
        start_world_child(&store.engine, &store.clock, &store.blobs, &PlainSnapshots, &start).await.unwrap();
        rig.store.clock.advance(Duration::from_secs(9_999));
        assert_eq!(rig.recover(Some(1)).await, []);
        assert_eq!(rig.cancel(child, "enough").await, CancelOutcome::Cancelled);
        let events = rig.events(child).await;
        assert_eq!(kinds(&events), [EventKind::Start, EventKind::Cancel, EventKind::Fail]);
        assert!(events[1..].iter().all(|event| event.cancel_request_id.as_deref() == Some("enough")));
    });
}

/// A started child of kind `world`.
async fn started_world(rig: &Rig) -> ChildId {
    let child = rig.spawn_with(&[spec_params("world", &Value::Null, &Spend::default())], 2).await.unwrap()[0];
    let lease = LeaseChild { kinds: vec!["world".into()], ..rig.lease(1) };
    let ChildDispatched::Leased { claim, .. } = rig.store.run(&lease).await.unwrap().output else { panic!() };
    let start = StartWorldChild { claim, world: rig.store.beginning(child.world()), now_ns: rig.now() };
    let Rig { store, .. } = rig;
    start_world_child(&store.engine, &store.clock, &store.blobs, &PlainSnapshots, &start).await.unwrap();
    child
}

/// All that follows a cancel request names it, also if the budget has no room for what was used until then.
#[test]
fn an_end_beyond_the_budget_after_a_cancel_is_of_the_cancels_lineage() {
    block_on(async {
        let exceeded = async |rig: &Rig, child| {
            let (end, events) = (rig.token(child).await.end.unwrap(), rig.events(child).await);
            assert_eq!(kinds(&events), [EventKind::Start, EventKind::Cancel, EventKind::Fail]);
            assert!(events[1..].iter().all(|event| event.cancel_request_id.as_deref() == Some("enough")));
            assert_eq!(end.code.as_deref(), Some("URM_CHILD_BUDGET_EXCEEDED"));
            assert_eq!(end.outcome, ChildOutcome::Cancelled);
        };
        let rig = Rig::new().await;
        rig.limit(Lane::DurationSecs, 5).await;
        let child = started_world(&rig).await;
        rig.store.clock.advance(Duration::from_secs(60));
        assert_eq!(rig.cancel(child, "enough").await, CancelOutcome::Cancelled);
        exceeded(&rig, child).await;
        assert_eq!(rig.told().await.last().unwrap(), &format!("cancelled {child}"), "as the caller was answered");

        // An executor that stopped the child, one that says that it passed, and one that reports.
        for finish in [Some(ChildFinish::Cancelled), Some(ChildFinish::Passed(Value::Null)), None] {
            let rig = Rig::new().await;
            rig.limit(Lane::Tokens, 5).await;
            let child = rig.spawn(1).await[0];
            let claim = rig.started().await;
            assert_eq!(rig.cancel(child, "enough").await, CancelOutcome::Requested);
            match finish {
                Some(finish) => drop(rig.finish(claim, finish, tokens(6)).await.unwrap()),
                None => {
                    let debit = DebitChild { claim, spent: tokens(6), calls: None, now_ns: rig.now() };
                    assert_eq!(rig.store.run(&debit).await.unwrap().output, Debited::Exceeded(Lane::Tokens));
                }
            }
            exceeded(&rig, child).await;
        }
    });
}

#[test]
fn a_cancel_answers_with_the_request_on_record_and_with_how_the_child_ended() {
    block_on(async {
        let rig = Rig::new().await;
        let answer = |outcome, id: Option<&str>| CancelRequested { outcome, cancel_request_id: id.map(str::to_owned) };
        let children = rig.spawn(3).await;
        let (first, second) = (rig.started().await, rig.started().await);
        let requested = answer(CancelOutcome::Requested, Some("one"));
        assert_eq!(rig.asks_cancel(children[0], "one").await, requested);
        assert_eq!(rig.asks_cancel(children[0], "two").await, requested, "the first one counts, and is named");
        // It passes before it is stopped: the same request learns that.
        rig.pass(first).await.unwrap();
        let over = answer(CancelOutcome::AlreadyTerminal, Some("one"));
        assert_eq!(rig.asks_cancel(children[0], "one").await, over);
        assert_eq!(rig.asks_cancel(children[0], "two").await, over);
        rig.pass(second).await.unwrap();
        assert_eq!(rig.asks_cancel(children[1], "one").await, answer(CancelOutcome::AlreadyTerminal, None));
        let cancelled = answer(CancelOutcome::Cancelled, Some("three"));
        assert_eq!(rig.asks_cancel(children[2], "three").await, cancelled);
        assert_eq!(rig.asks_cancel(children[2], "three").await, cancelled, "the same request");
        let late = answer(CancelOutcome::AlreadyTerminal, Some("three"));
        assert_eq!(rig.asks_cancel(children[2], "four").await, late);
    });
}

#[test]
fn a_request_to_cancel_all_reaches_the_children_that_there_were() {
    block_on(async {
        let rig = Rig::new().await;
        let begin = |payload: &[u8]| BeginCancelChildren {
            universe: rig.fence.universe,
            parent: rig.fence.world,
            request: RequestName {
                endpoint: "cancel_all",
                client_request_id: "all".into(),
                payload: mundi_model::Hash::of(payload),
            },
            now_ns: rig.now(),
        };
        rig.spawn(2).await;
        assert_eq!(rig.store.run(&begin(b"")).await.unwrap().output, 3);
        rig.spawn(1).await;
        assert_eq!(rig.store.run(&begin(b"")).await.unwrap().output, 3, "not those that were spawned since");
        assert_eq!(code(rig.store.run(&begin(b"other")).await), Code::UrmRequestConflict);
    });
}

/// The time of a child whose executor is gone is debited by what is on record: its start, the end of its lease, and the time of the transaction.
#[test]
fn recovery_debits_the_time_of_what_had_started_and_keeps_its_code() {
    block_on(async {
        let second_ns = 1_000_000_000;
        let rig = Rig::new().await;
        let children = rig.spawn(2).await;
        let started = rig.started().await;
        rig.leased().await;
        let extend = ExtendChildLeases::of(&started, rig.now() + 7 * second_ns);
        rig.store.run(&extend).await.unwrap();
        rig.store.clock.advance(Duration::from_secs(3_600));
        rig.recover(None).await;
        assert_eq!(rig.token(children[0]).await.spent.duration_secs, Some(7), "until its lease ran out");
        assert_eq!(rig.token(children[1]).await.spent.duration_secs, None, "it was not started");
        assert_eq!(rig.total(Lane::DurationSecs).await, 7);

        // The budget has no room: no total changes, and the end says what happened.
        let rig = Rig::new().await;
        rig.limit(Lane::DurationSecs, 2).await;
        let child = rig.spawn(1).await[0];
        let claim = rig.started().await;
        rig.store.run(&ExtendChildLeases::of(&claim, rig.now() + 60 * second_ns)).await.unwrap();
        rig.store.clock.advance(Duration::from_secs(5));
        assert_eq!(rig.recover(Some(1)).await, [(1, Code::UrmChildTerminatedOnRestart)]);
        assert_eq!((rig.token(child).await.spent, rig.total(Lane::DurationSecs).await), (Spend::default(), 0));
    });
}

#[test]
fn a_child_that_was_not_started_debits_nothing() {
    block_on(async {
        let rig = Rig::new().await;
        let child = rig.spawn(1).await[0];
        let (claim, _) = rig.leased().await;
        let failed = ChildFinish::Failed { code: Code::UrmChildKindInvalid, reason: "no such command".into() };
        rig.finish(claim, failed, tokens(17)).await.unwrap();
        assert_eq!((rig.token(child).await.spent, rig.total(Lane::Tokens).await), (Spend::default(), 0));
    });
}

#[test]
fn a_cancel_ends_what_has_not_started_and_asks_the_executor_of_what_has() {
    block_on(async {
        let rig = Rig::new().await;
        let children = rig.spawn(3).await;
        let started = rig.started().await;
        let (leased, _) = rig.leased().await;
        assert_eq!(rig.cancel(children[2], "queued").await, CancelOutcome::Cancelled);
        assert_eq!(rig.cancel(children[1], "leased").await, CancelOutcome::Cancelled);
        assert_eq!(code(rig.start(leased).await), Code::UrmChildClaimLost);
        for child in &children[1..] {
            let events = rig.events(*child).await;
            assert_eq!((kinds(&events), events[0].phase), (vec![EventKind::Cancel], Phase::Terminal));
        }
        assert_eq!(rig.cancel(children[0], "first").await, CancelOutcome::Requested);
        assert_eq!(rig.cancel(children[0], "second").await, CancelOutcome::Requested, "the first one counts");
        let extend = ExtendChildLeases::of(&started, u64::MAX);
        assert_eq!(rig.store.run(&extend).await.unwrap().output, [LeaseHeld::Cancel]);
        rig.finish(started, ChildFinish::Cancelled, Spend::default()).await.unwrap();
        let events = rig.events(children[0]).await;
        assert_eq!(kinds(&events), [EventKind::Start, EventKind::Cancel, EventKind::Fail]);
        assert!(events[1..].iter().all(|event| event.cancel_request_id.as_deref() == Some("first")));
        assert_eq!(events[2].code.as_deref(), Some("URM_CHILD_CANCELLED"));
        let before = rig.events(children[0]).await.len();
        assert_eq!(rig.cancel(children[0], "late").await, CancelOutcome::AlreadyTerminal);
        assert_eq!(rig.events(children[0]).await.len(), before, "nothing is written");
        let cancelled = rig.told().await.iter().filter(|told| told.starts_with("cancelled")).count();
        assert_eq!(cancelled, 3);
    });
}

#[test]
fn of_two_debits_the_first_that_commits_is_accepted_and_the_other_ends_its_child() {
    block_on(async {
        let rig = Rig::new().await;
        rig.spawn(2).await;
        let (first, second) = (rig.started().await, rig.started().await);
        rig.limit(Lane::Tokens, 10).await;
        let debit = |claim, amount| DebitChild { claim, spent: tokens(amount), calls: None, now_ns: rig.now() };
        assert_eq!(rig.store.run(&debit(first, 6)).await.unwrap().output, Debited::Accepted);
        assert_eq!(rig.store.run(&debit(first, 6)).await.unwrap().output, Debited::Accepted, "a report sent twice");
        assert_eq!(rig.total(Lane::Tokens).await, 6);
        assert_eq!(rig.store.run(&debit(second, 5)).await.unwrap().output, Debited::Exceeded(Lane::Tokens));
        assert_eq!(rig.total(Lane::Tokens).await, 6, "a refused debit changes nothing");
        let end = rig.token(second.child).await.end.unwrap();
        assert_eq!(end.code.as_deref(), Some("URM_CHILD_BUDGET_EXCEEDED"));
        assert_eq!(code(rig.pass(second).await), Code::UrmChildClaimLost);
        let finished = rig.finish(first, ChildFinish::Passed(Value::Null), tokens(10)).await.unwrap();
        assert_eq!((finished.outcome, rig.total(Lane::Tokens).await), (ChildOutcome::Passed, 10), "equal is accepted");
    });
}

#[test]
fn each_lane_has_a_total_and_a_limit_of_its_own_and_a_refused_debit_changes_none() {
    block_on(async {
        for lane in Lane::ALL {
            let rig = Rig::new().await;
            rig.spawn(2).await;
            let (first, second) = (rig.started().await, rig.started().await);
            rig.limit(lane, 10).await;
            let others = || Lane::ALL.into_iter().filter(move |other| *other != lane);
            let debit = |claim, spent| DebitChild { claim, spent, calls: None, now_ns: rig.now() };
            let elsewhere = others().fold(Spend::default(), |spent, other| spent.with(other, 1_000));
            assert_eq!(rig.store.run(&debit(first, elsewhere)).await.unwrap().output, Debited::Accepted);
            assert_eq!(rig.total(lane).await, 0, "{lane:?} is another one");
            let equal = rig.store.run(&debit(first, elsewhere.with(lane, 10))).await.unwrap().output;
            assert_eq!((equal, rig.total(lane).await), (Debited::Accepted, 10));
            let beyond = others().fold(Spend::default(), |spent, other| spent.with(other, 5)).with(lane, 1);
            assert_eq!(rig.store.run(&debit(second, beyond)).await.unwrap().output, Debited::Exceeded(lane));
            assert_eq!(rig.total(lane).await, 10);
            for other in others() {
                assert_eq!(rig.total(other).await, 1_000, "all lanes or none");
            }
            let end = rig.token(second.child).await.end.unwrap();
            assert_eq!(end.code.as_deref(), Some("URM_CHILD_BUDGET_EXCEEDED"));
            assert_eq!(end.reason.as_deref(), Some(format!("budget_exceeded:{}", lane.as_str()).as_str()));
        }
    });
}

/// Contenders for a lane are ordered by their commits; lanes do not meet.
#[test]
fn debits_of_one_lane_conflict_and_debits_of_two_lanes_do_not() {
    block_on(async {
        for lane in Lane::ALL {
            for other in Lane::ALL {
                let rig = Rig::new().await;
                rig.spawn(2).await;
                let claims = [rig.started().await, rig.started().await];
                rig.limit(lane, 10).await;
                let debit = |at: usize, lane| {
                    let spent = Spend::default().with(lane, 6);
                    DebitChild { claim: claims[at], spent, calls: None, now_ns: rig.now() }
                };
                let mut contenders = [rig.store.engine.begin().await.unwrap(), rig.store.engine.begin().await.unwrap()];
                assert_eq!(debit(0, lane).run(&mut contenders[0]).await.unwrap(), Debited::Accepted);
                assert_eq!(debit(1, other).run(&mut contenders[1]).await.unwrap(), Debited::Accepted, "so far");
                let [first, second] = contenders;
                first.commit().await.unwrap();
                assert_eq!(second.commit().await.is_err(), lane == other, "{lane:?} and {other:?}");
                if lane == other {
                    let again = rig.store.run(&debit(1, other)).await.unwrap().output;
                    assert_eq!((again, rig.total(lane).await), (Debited::Exceeded(lane), 6));
                }
            }
        }
    });
}

#[test]
fn a_child_that_passes_beyond_the_budget_has_failed() {
    block_on(async {
        let rig = Rig::new().await;
        let params = spec_params("external", &Value::Null, &tokens(3));
        rig.spawn_with(&[params], 2).await.unwrap();
        let claim = rig.started().await;
        let finished = rig.finish(claim, ChildFinish::Passed(Value::Null), tokens(4)).await.unwrap();
        assert_eq!(finished.code.as_deref(), Some("URM_CHILD_BUDGET_EXCEEDED"));
    });
}

#[test]
fn the_same_request_again_changes_nothing_and_another_under_its_name_is_refused() {
    block_on(async {
        let rig = Rig::new().await;
        let set = |limit: u64, payload: &[u8]| SetBudget {
            universe: rig.fence.universe,
            parent: rig.fence.world,
            limits: vec![(Lane::Tokens, Some(limit))],
            request: Some(RequestName {
                endpoint: "budget",
                client_request_id: "r".into(),
                payload: mundi_model::Hash::of(payload),
            }),
            now_ns: rig.now(),
        };
        rig.store.run(&set(1, b"1")).await.unwrap();
        rig.limit(Lane::Tokens, 7).await;
        rig.store.run(&set(1, b"1")).await.unwrap();
        let read = ReadBudget { universe: rig.fence.universe, parent: rig.fence.world };
        let lines = rig.store.run(&read).await.unwrap().output;
        assert!(lines.iter().any(|(lane, budget)| *lane == Lane::Tokens && budget.limit == Some(7)));
        assert_eq!(code(rig.store.run(&set(2, b"2")).await), Code::UrmRequestConflict);
    });
}

/// Also those whose names were drawn: they are rows like any other.
#[test]
fn a_request_is_forgotten_after_its_window_and_one_that_came_again_is_kept() {
    block_on(async {
        let rig = Rig::new().await;
        let (universe, parent) = (rig.fence.universe, rig.fence.world);
        let note = |name: &str| NoteRequest {
            universe,
            parent,
            request: RequestName {
                endpoint: "spawn",
                client_request_id: name.into(),
                payload: mundi_model::Hash::of(b"it"),
            },
            now_ns: rig.now(),
        };
        let rows = async || {
            let span = child_request::all(universe, parent);
            let mut tx = rig.store.engine.begin().await.unwrap();
            let read = RangeRead::new(span.start.as_bytes().to_vec(), span.end.as_bytes().to_vec(), 10);
            tx.range(read).await.unwrap().items.len()
        };
        let expire = async || expire_dedupe(&rig.store.engine, &rig.store.clock, universe).await.unwrap();
        let window = Duration::from_nanos(limits::DEDUPE_WINDOW_NS + 2 * dedupe_bucket::BUCKET_NS);
        rig.store.run(&note("once")).await.unwrap();
        rig.store.run(&note("again")).await.unwrap();
        expire().await;
        assert_eq!(rows().await, 2, "their window is not over");
        rig.store.clock.advance(window);
        assert!(!rig.store.run(&note("again")).await.unwrap().output, "it is a new request");
        expire().await;
        assert_eq!(rows().await, 1, "the one that came again has a new window");
        assert!(rig.store.run(&note("again")).await.unwrap().output);
        rig.store.clock.advance(window);
        expire().await;
        assert_eq!(rows().await, 0);
    });
}

#[test]
fn what_an_executor_reads_of_a_parent_follows_its_state() {
    block_on(async {
        let rig = Rig::new().await;
        let work = async || {
            let list = ListChildParents { universe: rig.fence.universe, after: None };
            rig.store.run(&list).await.unwrap().output.first().map(|(_, work)| *work)
        };
        assert_eq!(work().await, None);
        let children = rig.spawn(3).await;
        let spawned = work().await.unwrap();
        assert!((spawned.queued, spawned.active, spawned.blocked, spawned.deadline_ns) == (3, 0, false, None));
        let (claim, _) = rig.leased().await;
        let leased = work().await.unwrap();
        assert!(leased.version > spawned.version && leased.deadline_ns == Some(rig.now() + TTL_NS) && !leased.blocked);
        rig.start(claim).await.unwrap();
        rig.leased().await;
        let full = work().await.unwrap();
        assert!(full.blocked && !full.cancelling && (full.queued, full.active) == (1, 2));
        // What happens to the parent itself makes every executor look.
        for archived in [true, false] {
            let (universe, world) = (rig.fence.universe, rig.fence.world);
            rig.store.run(&ArchiveWorld { universe, world, archived, now_ns: rig.now() }).await.unwrap();
            let work = work().await.unwrap();
            assert!(work.version == 0 && !work.blocked && work.active == 2);
        }
        rig.cancel(claim.child, "stop").await;
        let cancelled = work().await.unwrap();
        assert!(cancelled.cancelling && cancelled.version == full.version);
        rig.pass(claim).await.unwrap();
        assert!(!work().await.unwrap().blocked, "there is room for the third");
        for child in &children[1..] {
            rig.cancel(*child, "all").await;
        }
        assert_eq!(work().await, None, "nothing waits and nothing runs");
    });
}

#[test]
fn numbers_that_are_taken_and_phases_without_events_are_found_and_hold_the_parent() {
    block_on(async {
        let (universe, stranger) = (mundi_model::UniverseId::from_bytes([1; 16]), ChildId::from_bytes([9; 16]));
        let row = child_order::ChildRow { child: stranger };

        let rig = Rig::new().await;
        rig.spawn(1).await;
        rig.put(child_order::dispatch_key(universe, rig.fence.world, 1), row).await;
        assert_eq!(code(rig.store.run(&rig.lease(1)).await), Code::UrmSchedulerReplayOrderInvalid);

        let rig = Rig::new().await;
        rig.spawn(1).await;
        let run = RunId::of_dispatch(rig.fence.world, 1);
        rig.put(child_order::run_key(universe, rig.fence.world, run), row).await;
        assert_eq!(code(rig.store.run(&rig.lease(1)).await), Code::UrmDispatchLeaseConflict);

        let rig = Rig::new().await;
        rig.put(child_order::queue_key(universe, rig.fence.world, 1), row).await;
        let params = spec_params("external", &Value::Null, &Spend::default());
        assert_eq!(code(rig.spawn_with(&[params], 2).await), Code::UrmDispatchLeaseConflict);

        let rig = Rig::new().await;
        rig.spawn(1).await;
        let claim = rig.started().await;
        let key = child_event::key(universe, rig.fence.world, claim.child, 0);
        let mut tx = rig.store.engine.begin().await.unwrap();
        tx.delete(key.as_bytes()).unwrap();
        tx.commit().await.unwrap();
        let found = rig.pass(claim).await;
        assert_eq!(code(found), Code::UrmSchedulerPhaseEventAtomicityViolation);

        let code = Code::UrmSchedulerPhaseEventAtomicityViolation;
        let hold = HoldParent { universe, parent: rig.fence.world, code, reason: "why".into(), now_ns: rig.now() };
        rig.store.run(&hold).await.unwrap();
        let described = rig.store.run(&DescribeWorld { universe, world: rig.fence.world }).await.unwrap().output;
        assert_eq!(described.meta.hold.unwrap().code, code.as_str());
        assert_eq!(rig.dispatch(1).await, ChildDispatched::Idle, "a parent on hold dispatches nothing");
    });
}

#[test]
fn an_archived_parent_dispatches_nothing_and_its_children_can_still_end() {
    block_on(async {
        let rig = Rig::new().await;
        let children = rig.spawn(2).await;
        let claim = rig.started().await;
        let (universe, world, now_ns) = (rig.fence.universe, rig.fence.world, rig.now());
        rig.store.run(&ArchiveWorld { universe, world, archived: true, now_ns }).await.unwrap();
        assert_eq!(rig.dispatch(1).await, ChildDispatched::ParentArchived);
        assert_eq!(rig.cancel(children[1], "archived").await, CancelOutcome::Cancelled);
        rig.pass(claim).await.unwrap();
    });
}

#[test]
fn ended_children_are_kept_up_to_a_bound_and_numbers_never_go_back() {
    block_on(async {
        let rig = Rig::new().await;
        let all = usize::try_from(limits::CHILDREN_ENDED_MAX).unwrap() + 3;
        let mut children = Vec::new();
        while children.len() < all {
            let some = rig.spawn((all - children.len()).min(100)).await;
            for child in &some {
                rig.cancel(*child, "x").await;
            }
            children.extend(some);
        }
        let list =
            ListChildren { universe: rig.fence.universe, parent: rig.fence.world, after: None, items_max: 9_999 };
        let kept = rig.store.run(&list).await.unwrap().output;
        assert_eq!(kept.iter().map(|token| token.child).collect::<Vec<_>>(), children[3..]);
        assert!(
            rig.store
                .run(&DescribeChild { universe: rig.fence.universe, parent: rig.fence.world, child: children[0] })
                .await
                .is_err()
        );
        let last = rig.spawn(1).await[0];
        assert_eq!(rig.token(last).await.queue_seq, all as u64 + 1);
        // It stands behind many that were cancelled: each dispatch passes a bounded number of them.
        let mut looks = 0;
        while rig.dispatch(1).await == ChildDispatched::Idle {
            looks += 1;
            assert!(looks < 10);
        }
        assert_eq!(rig.token(last).await.phase, Phase::Leased);
    });
}

/// Random operations of several executors, and what must hold after each of them.
#[test]
fn whatever_executors_do_numbers_are_unique_phases_only_rise_and_budgets_hold() {
    block_on(async {
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let rig = Rig::new().await;
            rig.limit(Lane::Tokens, 30).await;
            let (mut children, mut claims, mut phases) = (Vec::new(), Vec::new(), std::collections::BTreeMap::new());
            for _ in 0..60 {
                match rng.below(8) {
                    0 => children.extend(rig.spawn(1).await),
                    1 | 2 => {
                        if let ChildDispatched::Leased { claim, .. } = rig.dispatch(rng.below(3) + 1).await {
                            claims.push(claim);
                        }
                    }
                    3 => {
                        rig.recover(None).await;
                    }
                    4 if !children.is_empty() => {
                        let at = usize::try_from(rng.below(children.len() as u64)).unwrap();
                        rig.cancel(children[at], &format!("c{at}")).await;
                    }
                    5 => rig.store.clock.advance(Duration::from_nanos(TTL_NS / 3)),
                    _ if !claims.is_empty() => {
                        let claim = claims[usize::try_from(rng.below(claims.len() as u64)).unwrap()];
                        match rng.below(3) {
                            0 => drop(rig.start(claim).await),
                            1 => drop(rig.finish(claim, ChildFinish::Passed(Value::Null), tokens(rng.below(9))).await),
                            _ => {
                                let debit =
                                    DebitChild { claim, spent: tokens(rng.below(9)), calls: None, now_ns: rig.now() };
                                drop(rig.store.run(&debit).await);
                            }
                        }
                    }
                    _ => {}
                }
                check(&rig, &children, &mut phases).await;
            }
        }
    });
}

async fn check(rig: &Rig, children: &[ChildId], phases: &mut std::collections::BTreeMap<ChildId, Phase>) {
    let (mut queue, mut dispatch, mut runs) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let (mut active, mut spent) = (0, 0);
    for child in children {
        let token = rig.token(*child).await;
        assert!(queue.insert(token.queue_seq));
        assert!(token.dispatch_seq.is_none_or(|seq| dispatch.insert(seq)));
        assert!(token.run.is_none_or(|run| runs.insert(run)));
        let before = phases.insert(*child, token.phase).unwrap_or(Phase::Queued);
        assert!(token.phase >= before, "{before:?} became {:?}", token.phase);
        active += u64::from(matches!(token.phase, Phase::Leased | Phase::Started));
        spent += token.spent.tokens.unwrap_or(0);
        let events = rig.events(*child).await;
        assert!(events.iter().filter(|event| event.kind == EventKind::Start).count() <= 1);
        assert_eq!(
            events.iter().filter(|event| event.phase == Phase::Terminal).count(),
            usize::from(token.end.is_some())
        );
        let cancel = events.iter().position(|event| event.kind == EventKind::Cancel);
        let caused = events.iter().position(|event| event.cancel_request_id.is_some());
        assert_eq!(cancel, caused, "the cancel comes first in its lineage");
    }
    assert!(active <= 2);
    assert_eq!(spent, rig.total(Lane::Tokens).await);
    assert!(spent <= 30);
    let (universe, parent) = (rig.fence.universe, rig.fence.world);
    let state = rig.store.run(&ReadChildState { universe, parent }).await.unwrap().output;
    assert_eq!(state.active.len() as u64, active);
    assert!(child_state::key(universe, parent).as_bytes().len() > 16);
}
