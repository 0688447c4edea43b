//! A crash at every operation of every protocol, then another try: the store must hold, byte for byte, what it holds
//! after a run that nothing disturbed, apart from what a protocol's header declares.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::needless_pass_by_value, reason = "closures are handed over where they are written")]

use bytes::Bytes;
use mundi_engine::{Engine, Memory, Transaction};
use mundi_model::{
    Code, Coded, Epoch, Hash, Height, IntentHash, LabelChange, Labels, UniverseId, WorkerId, WorldId, WorldName, cbor,
    pool::{AuthorityChange, HolderId, LeaseAuthority, LeaseId},
    record::{
        Body, EffectPolicy, ForkGenesis, Input, Intent, ManifestChange, Operator, Payload, Receipt, ReceiptStatus,
        Record, Reply, ReplyOutcome, Sender,
    },
    watch::WatchPolicy,
};
use mundi_store::{
    Clock, Fence, StoreError,
    blob::Blobs,
    blobs::{Cas, CasConfig},
    journal::Batch,
    keyspace::{
        Family, QueueShard, Shard,
        assignment::Assignment,
        dead_letter::{self, DeadLetter},
        effect_pending::{EffectItem, EffectTerms, RateTerms},
        effect_place::{EffectPlace, EffectStage},
        kept_object::Kind,
        lease::{self, Lease, Probation},
        mailbox::MailPlace,
        queue::{Claim, Queue, QueueSeq},
        quotas::Quotas,
        registered::{Registered, RegisteredKind},
        schema_version::SchemaVersion,
        segment::SegmentRecord,
        timer_due::TimerItem,
        token::TokenRecord,
        token_usage::TokenUsage,
        worker::WorkerRecord,
    },
    objects::{self, Objects},
    protocol::{
        AcquireLease, Acquired, Answer, AnswerEffect, ArchiveWorld, AssignWorld, BeatLease, CancelEffect, ChargeToken,
        ClaimEffects, ClaimMail, ClaimedEffect, CloseWorld, CommitCursor, CommitTurn, Consumed, CreatePool,
        CreateUniverse, DeletePool, DescribeWorld, DropDeadLetter, EndProbation, ExtendClaims, FabricMessage,
        FailEffect, Failure, Finish, FinishMail, FireTimers, ForgetAssignment, GuardSchema, Heartbeat, HoldWorld,
        ImportWorld, InProcess, IndexWorlds, Inherited, KeepObject, KindCap, LabelWorld, ListDeadLetters, ListEffects,
        ListTimers, MailClaimed, MailName, MessageId, NameProgram, NameUniverse, NameWorld, NewItem, NewMail,
        NoteSnapshotDue, Opening, Over, Pass, PlaceWorld, Purpose, QueuedEffect, ReapEffects, Register, ReleaseHold,
        ReleaseLease, ReleaseObject, RenewLeases, Repeat, ReplayDeadLetter, RequestSweep, RetryEffect, SendMail,
        SetTokenQuotas, SetWatch, SettleWorld, TakeOverLease, TakenOver, UnnameProgram, WakeDueSnapshots,
        WithdrawLeaseRequest, WokenBy, WorldCall, WriteQuotas, WriteToken, call_world, compact_inbox, complete_effect,
        delete_world, deliver_mail, expire_dedupe, fabric_send, import_world,
    },
    testing::{
        AppendBatch, CountingEntropy, Fixture, HandmadeWorld, HeapBlobs, ManualClock, PinBlob, PlainSnapshots, Probe,
        Trouble, UnpinBlob, ask, ask_in_process, engine_contents, named_event, note_body, set_timers, world_id,
    },
    transfer::{self, TransferError},
    values::PoolRecord,
};
use pollster::block_on;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

#[path = "crash/children.rs"]
mod children;

type Store<B = HeapBlobs> = Fixture<Probe<Memory>, B>;
type Contents = BTreeMap<Bytes, Bytes>;

async fn on_the_heap() -> Store {
    Fixture::new(Probe::new(Memory::new()), 1).await.unwrap()
}

async fn with_content_store() -> Store<Cas<Probe<Memory>>> {
    let (engine, objects) = (Probe::new(Memory::new()), objects::open("memory:///").unwrap());
    let (clock, entropy) = (Arc::new(ManualClock::at_ns(1)), Arc::new(CountingEntropy::default()));
    let cas = Cas::new(engine.clone(), objects, clock, entropy, CasConfig::default());
    Fixture::with_blobs(engine, cas, 1).await.unwrap()
}

/// Runs `act` on what `setup` made: undisturbed, then with each kind of trouble at each operation, and once more after
/// every failure. `kept` says which keys must be the same.
fn survives<B: Blobs, C>(
    open: impl AsyncFn() -> Store<B>,
    setup: impl AsyncFn(&Store<B>) -> C,
    act: impl AsyncFn(&Store<B>, &C) -> Result<(), StoreError>,
    kept: impl Fn(&[u8]) -> bool,
) {
    let attempt = async |trouble: Option<(u64, Trouble)>| -> (Contents, u64) {
        let store = open().await;
        let context = setup(&store).await;
        store.engine.revive();
        if let Some((operation, trouble)) = trouble {
            store.engine.arm(operation, trouble);
        }
        let first = act(&store, &context).await;
        let operations = store.engine.operations();
        assert!(trouble.is_some() || first.is_ok(), "undisturbed: {first:?}");
        store.engine.revive();
        if first.is_err() {
            let second = act(&store, &context).await;
            assert!(second.is_ok(), "the second try after {trouble:?} ({first:?}): {second:?}");
        }
        let mut contents = engine_contents(&store.engine).await.unwrap();
        contents.retain(|key, _| kept(key));
        (contents, operations)
    };
    block_on(async {
        let (undisturbed, operations) = attempt(None).await;
        assert!(operations > 0);
        for operation in 0..operations {
            for trouble in Trouble::ALL {
                let (contents, _) = attempt(Some((operation, trouble))).await;
                assert_same(&undisturbed, &contents, operation, trouble);
            }
        }
    });
}

fn assert_same(expected: &Contents, found: &Contents, operation: u64, trouble: Trouble) {
    let differs = |(key, value): &(&Bytes, &Bytes), other: &Contents| other.get(*key) != Some(*value);
    let lacking: Vec<_> = expected.iter().filter(|entry| differs(entry, found)).collect();
    let added: Vec<_> = found.iter().filter(|entry| differs(entry, expected)).collect();
    assert!(
        lacking.is_empty() && added.is_empty(),
        "{trouble:?} at operation {operation}: expected {lacking:x?}, found {added:x?}"
    );
}

fn everything(_: &[u8]) -> bool {
    true
}

fn family_of(key: &[u8]) -> Option<u8> {
    match key.get(16) {
        Some(&family) if family == Family::World as u8 => key.get(33).copied(),
        family => family.copied(),
    }
}

async fn live<B: Blobs>(store: &Store<B>) -> Fence {
    store.live(1).await.unwrap()
}

async fn live_with_items<B: Blobs>(store: &Store<B>) -> Fence {
    let fence = live(store).await;
    let items = (0..5).map(|n| named_event(&n.to_string())).collect();
    store.send(fence.world, items).await.unwrap();
    fence
}

#[test]
fn create_universe() {
    let act = async |store: &Store, universe: &UniverseId| {
        store.run(&CreateUniverse { universe: *universe, now_ns: 7 }).await.map(drop)
    };
    survives(on_the_heap, async |_| UniverseId::from_bytes([9; 16]), act, everything);
}

#[test]
fn create_world() {
    let act = async |store: &Store, world: &WorldId| store.create(*world, None).await.map(drop);
    survives(on_the_heap, async |_| world_id(1), act, everything);
}

#[test]
fn create_world_in_the_content_store() {
    let act = async |store: &Store<_>, world: &WorldId| store.create(*world, None).await.map(drop);
    survives(with_content_store, async |_| world_id(1), act, everything);
}

/// The epoch may rise by two: the header of the protocol says so.
#[test]
fn acquire_lease() {
    let setup = async |store: &Store| {
        store.create(world_id(1), None).await.unwrap();
        world_id(1)
    };
    let act = async |store: &Store, world: &WorldId| store.acquire(*world, 1).await.map(drop);
    survives(on_the_heap, setup, act, |key| family_of(key) != Some(Family::Lease as u8));
}

async fn open_after_a_crash(store: &Store, world: WorldId, life_ns: u64) -> Result<Acquired, StoreError> {
    let (universe, worker) = (store.universe, WorkerId::new(1).unwrap());
    let opening = Some(Opening { life_ns, pass: Pass::Alone });
    Ok(store.run(&AcquireLease { universe, world, worker, now_ns: 1, ttl_ns: 9, opening }).await?.output)
}

async fn probation(store: &Store, fence: Fence) -> Result<Option<Probation>, StoreError> {
    let found = engine_contents(&store.engine).await?;
    Ok(cbor::decode::<Lease>(&found[lease::key(fence.universe, fence.world).as_bytes()]).unwrap().probation)
}

/// Whoever comes after a holder that never released the world counts that one end and no other, however often its own commit is repeated.
#[test]
fn acquire_a_lease_that_was_never_released() {
    let setup = async |store: &Store| {
        let fence = live_with_items(store).await;
        assert_eq!(open_after_a_crash(store, fence.world, 1).await.unwrap().deaths, Some(0));
        fence.world
    };
    let act = async |store: &Store, world: &WorldId| {
        let Acquired { fence, deaths, .. } = open_after_a_crash(store, *world, 2).await?;
        assert_eq!(deaths, Some(1));
        assert_eq!(probation(store, fence).await?, Some(Probation { deaths: 1, life_ns: 2 }));
        Ok(())
    };
    survives(on_the_heap, setup, act, |key| family_of(key) != Some(Family::Lease as u8));
}

/// A turn, or a cycle without one: either way it is over for good, and a turn that crashes before its commit leaves it as it was.
#[test]
fn end_a_probation() {
    let setup = async |store: &Store| {
        let fence = live_with_items(store).await;
        open_after_a_crash(store, fence.world, 1).await.unwrap();
        open_after_a_crash(store, fence.world, 2).await.unwrap().fence
    };
    for by_turn in [false, true] {
        let act = async |store: &Store, fence: &Fence| {
            if by_turn {
                let turn = turn(store, *fence).await?.unwrap();
                if turn.records.start().height == Height::new(1) {
                    store.run(&turn).await?;
                }
            } else {
                store.run(&EndProbation { fence: *fence }).await?;
            }
            assert_eq!(probation(store, *fence).await?, None);
            Ok(())
        };
        survives(on_the_heap, setup, act, everything);
    }
}

#[test]
fn renew_leases() {
    let act = async |store: &Store, fence: &Fence| {
        let worker = WorkerId::new(1).unwrap();
        let renewed = store.run(&RenewLeases { worker, fences: vec![*fence], now_ns: 50, ttl_ns: 99 }).await?;
        assert_eq!(renewed.output.renewed, [*fence]);
        Ok(())
    };
    survives(on_the_heap, live, act, everything);
}

#[test]
fn release_lease() {
    let act = async |store: &Store, fence: &Fence| {
        store.run(&ReleaseLease { fence: *fence, active_at_ns: None }).await.map(drop)
    };
    survives(on_the_heap, live, act, everything);
}

#[test]
fn assign_world() {
    let act = async |store: &Store, fence: &Fence| {
        let assignment = Assignment { desired: WorkerId::new(2), pinned: true, priority: 1, reason: None };
        let (universe, world) = (fence.universe, fence.world);
        store.run(&AssignWorld { universe, world, assignment }).await.map(drop)
    };
    survives(on_the_heap, live, act, everything);
}

#[test]
fn append_batch() {
    let setup = async |store: &Store| {
        let fence = live(store).await;
        let head = store.read_turn(fence).await.unwrap().head;
        let (from, to) = (store.manifest_hash(), Hash::of(b"next"));
        let bodies = [note_body(1), Body::ManifestChange(ManifestChange { from, to, forced: false }), note_body(2)];
        AppendBatch { fence, batch: Batch::from_bodies(head, bodies).unwrap() }
    };
    let act = async |store: &Store, append: &AppendBatch| store.run(append).await.map(drop);
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn enqueue_of_named_items() {
    let act = async |store: &Store, fence: &Fence| {
        let items = ["a", "b", "c"].map(named_event).into();
        store.send(fence.world, items).await.map(drop)
    };
    survives(on_the_heap, live, act, everything);
}

#[test]
fn enqueue_of_a_large_payload() {
    let act = async |store: &Store<_>, fence: &Fence| {
        let large = named_event(&"x".repeat(50_000));
        store.send(fence.world, vec![large]).await.map(drop)
    };
    survives(with_content_store, live, act, everything);
}

#[test]
fn drain_inbox() {
    let act = async |store: &Store, fence: &Fence| {
        for _ in 0..10 {
            store.drain(*fence, 2).await?;
        }
        Ok(())
    };
    survives(on_the_heap, live_with_items, act, everything);
}

#[test]
fn commit_cursor() {
    let setup = async |store: &Store| {
        let fence = live_with_items(store).await;
        let items = store.read_turn(fence).await.unwrap().items;
        CommitCursor { fence, old: None, new: items[3].seq }
    };
    let act = async |store: &Store, commit: &CommitCursor| store.run(commit).await.map(drop);
    survives(on_the_heap, setup, act, everything);
}

/// Effects, timers, cancellations and replies are published with the records, or not at all.
#[test]
fn commit_turn() {
    let act = async |store: &Store, fence: &Fence| {
        for _ in 0..10 {
            if let Some(turn) = turn(store, *fence).await? {
                store.run(&turn).await?;
            }
        }
        Ok(())
    };
    survives(on_the_heap, live_with_items, act, everything);
}

/// What a worker makes of one item: an effect, a timer, the cancellation of the turn before, a reply.
async fn turn(store: &Store, fence: Fence) -> Result<Option<CommitTurn>, StoreError> {
    let input = store.read_turn(fence).await?;
    let Some(item) = input.items.first() else { return Ok(None) };
    let height = input.head.height;
    let intent = |kind: &str, height: Height| IntentHash::of(format!("{kind} at {height}").as_bytes());
    let announce = |kind: &str, height| {
        let params = Payload::Inline(vec![1]);
        Body::Intent(Intent { hash: intent(kind, height), kind: kind.into(), params, label: String::new() })
    };
    let earlier = Height::new(height.get().saturating_sub(4));
    let bodies = [
        announce("http", height),
        announce("timer.set", height.next()),
        Body::Cancel(intent("timer.set", earlier.next())),
        Body::Reply(Reply { to: item.seq, outcome: ReplyOutcome::Ok(Payload::Inline(vec![2])) }),
    ];
    let effect = EffectItem {
        world: fence.world,
        intent: intent("http", height),
        height,
        kind: "http".into(),
        params: Payload::Inline(vec![1]),
        label: String::new(),
        policy_context: None,
        published_at_ns: 3,
        trace: None,
        correlation_id: None,
        call: None,
        terms: EffectTerms::default(),
        lease: None,
    };
    let timer = TimerItem {
        world: fence.world,
        intent: intent("timer.set", height.next()),
        height: height.next(),
        deliver_at_ns: 1_000,
        payload: Payload::Inline(vec![]),
        published_at_ns: 3,
        trace: None,
        correlation_id: None,
        call: None,
    };
    Ok(Some(CommitTurn {
        fence,
        cursor: input.cursor,
        consumed: Consumed::of(&input.items[..1], None),
        records: Batch::from_bodies(input.head, bodies)?,
        effects: vec![effect],
        timers: vec![timer],
        receipts: Vec::new(),
        expects_end: None,
        in_process: InProcess::default(),
        logs: Vec::new(),
        authorities: Vec::new(),
        paused: None,
        ready: true,
        now_ns: 3,
    }))
}

async fn live_with_records<B: Blobs>(store: &Store<B>) -> Fence {
    let fence = live(store).await;
    store.append(fence, 9).await.unwrap();
    fence
}

#[test]
fn commit_and_promote_snapshot() {
    let act =
        async |store: &Store, fence: &Fence| store.snapshot(*fence, &store.facts(Height::new(5)), true).await.map(drop);
    survives(on_the_heap, live_with_records, act, everything);
}

#[test]
fn commit_and_promote_snapshot_in_the_content_store() {
    let act = async |store: &Store<Cas<Probe<Memory>>>, fence: &Fence| {
        store.snapshot(*fence, &store.facts(Height::new(10)), true).await.map(drop)
    };
    survives(with_content_store, live_with_records, act, everything);
}

#[test]
fn settle_world() {
    let setup = async |store: &Store| {
        let fence = live_with_items(store).await;
        store.drain(fence, 100).await.unwrap();
        fence
    };
    let act = async |store: &Store, fence: &Fence| store.run(&SettleWorld { fence: *fence }).await.map(drop);
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn compact_inbox_after_the_grace() {
    let setup = async |store: &Store| {
        let fence = live_with_items(store).await;
        while let Some(turn) = turn(store, fence).await.unwrap() {
            store.run(&turn).await.unwrap();
        }
        compact_inbox(&store.engine, &store.clock, fence, 10).await.unwrap();
        store.clock.advance(Duration::from_nanos(10));
        fence
    };
    let act =
        async |store: &Store, fence: &Fence| compact_inbox(&store.engine, &store.clock, *fence, 10).await.map(drop);
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn delete_world_in_chunks() {
    let setup = async |store: &Store| {
        let fence = live_with_items(store).await;
        store.run(&turn(store, fence).await.unwrap().unwrap()).await.unwrap();
        fence
    };
    let act = async |store: &Store, fence: &Fence| delete_world(&store.engine, &store.clock, *fence).await;
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn expire_dedupe_records() {
    let setup = async |store: &Store| {
        let fence = live_with_items(store).await;
        store.clock.advance(Duration::from_secs(3_600 + 300));
        fence
    };
    let act =
        async |store: &Store, fence: &Fence| expire_dedupe(&store.engine, &store.clock, fence.universe).await.map(drop);
    survives(on_the_heap, setup, act, everything);
}

const TERMS: EffectTerms = EffectTerms {
    timeout_ms: 1,
    attempts_max: 2,
    backoff_ms: 1,
    backoff_ms_max: 1,
    rate: None,
    children_active_max: None,
};

fn claim_of(store: &Store, token: u8) -> ClaimEffects {
    ClaimEffects {
        universe: store.universe,
        kind: "a".into(),
        worker: WorkerId::new(1).unwrap(),
        token: [token; 16],
        items_max: 10,
        ttl_ns: 1_000,
        now_ns: store.clock.now_ns(),
        first: Shard::new(0).unwrap(),
        cap: KindCap::default(),
    }
}

async fn asked(store: &Store) -> ClaimEffects {
    let fence = live(store).await;
    let rate = Some(RateTerms { per_second: 1, burst: 2 });
    ask(store, fence, &["a"; 3], EffectTerms { rate, ..TERMS }).await.unwrap();
    claim_of(store, 1)
}

async fn claimed(store: &Store) -> ClaimedEffect {
    let fence = live(store).await;
    ask(store, fence, &["a"], TERMS).await.unwrap();
    store.run(&claim_of(store, 1)).await.unwrap().output.effects.remove(0)
}

/// A rate limit puts one of three aside. A lost answer leaves the claims in the same hands.
#[test]
fn claim_effects() {
    let act = async |store: &Store, claim: &ClaimEffects| {
        mundi_store::protocol::claim_effects(&store.engine, &store.clock, claim).await.map(drop)
    };
    survives(on_the_heap, asked, act, everything);
}

async fn complete(store: &Store, claimed: &ClaimedEffect) -> Result<(), StoreError> {
    let (status, payload) = (ReceiptStatus::Ok, Payload::Inline(vec![0xf6]));
    let answer = Answer::new(status, payload, "test");
    complete_effect(&store.engine, &store.clock, &store.blobs, claimed, answer, WokenBy::ReadyQueue).await.map(drop)
}

/// A turn that withdraws an intent.
async fn cancel(store: &Store, fence: Fence, intent: IntentHash) -> CommitTurn {
    let input = store.read_turn(fence).await.unwrap();
    CommitTurn {
        fence,
        cursor: input.cursor,
        consumed: None,
        records: Batch::from_bodies(input.head, [Body::Cancel(intent)]).unwrap(),
        effects: vec![],
        timers: vec![],
        receipts: Vec::new(),
        expects_end: None,
        in_process: InProcess::default(),
        logs: Vec::new(),
        authorities: Vec::new(),
        paused: None,
        ready: false,
        now_ns: store.clock.now_ns(),
    }
}

#[test]
fn complete_an_effect() {
    let act = async |store: &Store, claimed: &ClaimedEffect| complete(store, claimed).await;
    survives(on_the_heap, claimed, act, everything);
}

/// The world withdrew the effect, or is gone: the answer is dropped, also by a run whose own answer was lost.
#[test]
fn complete_an_effect_that_nobody_waits_for() {
    for is_deleted in [false, true] {
        let setup = async |store: &Store| {
            let claimed = claimed(store).await;
            let fence = Fence { universe: store.universe, world: claimed.item.world, epoch: Epoch::INITIAL };
            match is_deleted {
                true => delete_world(&store.engine, &store.clock, fence).await.unwrap(),
                false => store.run(&cancel(store, fence, claimed.proof.intent).await).await.map(drop).unwrap(),
            }
            claimed
        };
        let act = async |store: &Store, claimed: &ClaimedEffect| complete(store, claimed).await;
        survives(on_the_heap, setup, act, everything);
    }
}

#[test]
fn fail_an_effect_for_now_and_for_good() {
    for repeat in [Repeat::Backoff, Repeat::Never] {
        let act = async |store: &Store, claimed: &ClaimedEffect| {
            let failure = Failure { code: Code::EffectFailed, reason: "down".into(), repeat };
            let (claim, adapter) = (claimed.proof, "test".to_owned());
            store
                .run(&FailEffect {
                    claim,
                    failure,
                    adapter,
                    signature: None,
                    params: None,
                    now_ns: 9,
                    dedupe_window_ns: 1,
                })
                .await
                .map(drop)
        };
        survives(on_the_heap, claimed, act, everything);
    }
}

#[test]
fn extend_a_claim() {
    let act = async |store: &Store, claimed: &ClaimedEffect| {
        store.run(&ExtendClaims { claims: vec![claimed.proof], deadline_ns: 77_000 }).await.map(drop)
    };
    survives(on_the_heap, claimed, act, everything);
}

/// Once with a budget that is left, once with one that is spent.
#[test]
fn reap_effects() {
    for attempts_max in [2, 1] {
        let setup = async |store: &Store| {
            let fence = live(store).await;
            ask(store, fence, &["a"; 4], EffectTerms { attempts_max, ..TERMS }).await.unwrap();
            store.run(&claim_of(store, 1)).await.unwrap();
        };
        let act = async |store: &Store, _: &()| {
            for queue_shard in QueueShard::all("a", Shard::new(0).unwrap()) {
                store
                    .run(&ReapEffects {
                        universe: store.universe,
                        queue_shard,
                        touched: false,
                        items_max: 10,
                        now_ns: 1_000_000,
                        gone: None,
                    })
                    .await?;
            }
            Ok(())
        };
        survives(on_the_heap, setup, act, everything);
    }
}

fn mail(store: &Store) -> SendMail {
    let new = |name: &str| NewMail {
        due_ns: u64::from(name == "timed"),
        urgent: name == "urgent",
        name: Some(Hash::of(name.as_bytes())),
        frame: Bytes::copy_from_slice(name.as_bytes()),
    };
    let mail = ["plain", "urgent", "timed"].map(new).into();
    SendMail { universe: store.universe, worker: worker(), mail, now_ns: 5, dedupe_window_ns: 1 }
}

fn worker() -> WorkerId {
    WorkerId::new(3).unwrap()
}

fn claim_mail(store: &Store, now_ns: u64) -> ClaimMail {
    ClaimMail { universe: store.universe, worker: worker(), token: [7; 16], now_ns, ttl_ns: 1_000, items_max: 1 }
}

/// Messages with names are sent once, whatever happens to the sender.
#[test]
fn send_mail_with_names() {
    let act = async |store: &Store, (): &()| store.run(&mail(store)).await.map(drop);
    survives(on_the_heap, async |_: &Store| (), act, everything);
}

#[test]
fn claim_a_message_and_raise_its_mark() {
    let setup = async |store: &Store| {
        store.run(&SendMail { mail: mail(store).mail.split_off(2), ..mail(store) }).await.unwrap();
    };
    let act = async |store: &Store, (): &()| store.run(&claim_mail(store, 10)).await.map(drop);
    survives(on_the_heap, setup, act, everything);
}

async fn claimed_mail(store: &Store) -> (MailPlace, Claim) {
    store.run(&mail(store)).await.unwrap();
    let claimed = store.run(&claim_mail(store, 10)).await.unwrap().output;
    let MailClaimed::Messages(messages) = claimed else { panic!("nothing to claim") };
    (messages[0].place, messages[0].claim)
}

#[test]
fn acknowledge_requeue_and_bury_a_message() {
    let bury = Finish::DeadLetter { code: "C".into(), reason: "why".into(), now_ns: 9 };
    let name = Some(MailName { name: Hash::of(b"plain"), expires_at_ns: 990 });
    for how in [Finish::Acknowledge, Finish::Requeue { not_before_ns: 99, name }, bury] {
        let act = async |store: &Store, (place, claim): &(MailPlace, Claim)| {
            let (universe, worker, how) = (store.universe, worker(), how.clone());
            store.run(&FinishMail { universe, worker, place: *place, claim: *claim, how }).await.map(drop)
        };
        survives(on_the_heap, claimed_mail, act, everything);
    }
}

/// The item enters the inbox and the message leaves the mailbox, or neither.
#[test]
fn deliver_a_message_into_an_inbox() {
    let setup = async |store: &Store| (claimed_mail(store).await, live(store).await);
    let act = async |store: &Store, ((place, claim), fence): &((MailPlace, Claim), Fence)| {
        let (universe, worker, how) = (store.universe, worker(), Finish::Acknowledge);
        let acknowledge = FinishMail { universe, worker, place: *place, claim: *claim, how };
        let item = NewItem { dedupe: None, ..named_event("x") };
        deliver_mail(&store.engine, &store.clock, &store.blobs, &acknowledge, fence.world, item, 1).await.map(drop)
    };
    survives(on_the_heap, setup, act, everything);
}

/// A letter of each queue that letters are replayed to.
async fn buried(store: &Store) -> Vec<(Queue, QueueSeq)> {
    let (universe, (place, claim)) = (store.universe, claimed_mail(store).await);
    let how = Finish::DeadLetter { code: "C".into(), reason: "why".into(), now_ns: 9 };
    store.run(&FinishMail { universe, worker: worker(), place, claim, how }).await.unwrap();
    let fence = live(store).await;
    ask(store, fence, &["a"], TERMS).await.unwrap();
    set_timers(store, fence, &[5]).await.unwrap();
    let effect = store.run(&claim_of(store, 1)).await.unwrap().output.effects.remove(0);
    let timer = store.run(&ListTimers { universe, world: None, after: None, items_max: 1 }).await.unwrap().output;
    let mut tx = store.engine.begin().await.unwrap();
    for (queue, item) in [
        (Queue::Effects, mundi_model::cbor::encode(&effect.item)),
        (Queue::Timers, mundi_model::cbor::encode(&timer.items[0].item)),
    ] {
        let (code, reason) = ("C".into(), "why".into());
        let letter = DeadLetter { world: None, code, reason, attempts: 1, item, at_ns: 1, worker: None };
        dead_letter::write(&mut tx, universe, queue, 0, &letter).unwrap();
    }
    tx.commit().await.unwrap();
    let mut letters = Vec::new();
    for queue in [Queue::Mailboxes, Queue::Effects, Queue::Timers] {
        let list = ListDeadLetters { universe, queue, world: None, after: None, items_max: 10 };
        letters.extend(store.run(&list).await.unwrap().output.items.iter().map(|letter| (queue, letter.seq)));
    }
    assert_eq!(letters.len(), 3);
    letters
}

/// A letter that is gone was replayed: that is what a lost answer comes to.
#[test]
fn replay_dead_letters_of_every_queue() {
    let act = async |store: &Store, letters: &Vec<(Queue, QueueSeq)>| {
        for &(queue, seq) in letters {
            match store.run(&ReplayDeadLetter { universe: store.universe, queue, seq, now_ns: 9 }).await {
                Err(error) if error.code() == Code::DeadLetterNotFound => {}
                replayed => replayed.map(drop)?,
            }
        }
        Ok(())
    };
    survives(on_the_heap, buried, act, everything);
}

fn operator() -> Operator {
    Operator { token: Some(7), name: "ops".into() }
}

#[test]
fn drop_dead_letters() {
    let act = async |store: &Store, letters: &Vec<(Queue, QueueSeq)>| {
        for &(queue, seq) in letters {
            store.run(&DropDeadLetter { universe: store.universe, queue, seq }).await?;
        }
        Ok(())
    };
    survives(on_the_heap, buried, act, everything);
}

/// An operator ends one effect and brings another one forward.
#[test]
fn intervene_in_effects() {
    let setup = async |store: &Store| {
        let fence = live(store).await;
        ask(store, fence, &["a"; 2], EffectTerms { rate: Some(RateTerms { per_second: 1, burst: 1 }), ..TERMS })
            .await
            .unwrap();
        store.run(&claim_of(store, 1)).await.unwrap();
        let (universe, world) = (store.universe, None);
        let list = ListEffects { universe, world, kind: None, after: None, items_max: 10 };
        store.run(&list).await.unwrap().output.items.into_iter().map(|effect| effect.place).collect::<Vec<_>>()
    };
    let act = async |store: &Store, places: &Vec<EffectPlace>| {
        for &place in places {
            let (universe, now_ns) = (store.universe, 9);
            let done = match place.stage {
                EffectStage::Waiting => store.run(&RetryEffect { universe, place, now_ns }).await.map(drop),
                _ => {
                    let (reason, operator) = ("why".into(), operator());
                    store.run(&CancelEffect { universe, place, reason, operator, now_ns }).await.map(drop)
                }
            };
            match done {
                Err(error) if error.code() == Code::EffectNotFound => {}
                done => done?,
            }
        }
        Ok(())
    };
    survives(on_the_heap, setup, act, everything);
}

/// An operator answers a pending effect, a claimed one, one in a slot of its world's process, and one that is in no queue.
/// What a lost commit left is found by the same answer, given again.
#[test]
fn answer_effects_by_hand() {
    let setup = async |store: &Store| {
        let fence = live(store).await;
        ask(store, fence, &["a"], TERMS).await.unwrap();
        store.run(&claim_of(store, 1)).await.unwrap();
        let claim = Claim { token: [3; 16], worker: WorkerId::new(1).unwrap(), deadline_ns: 900, attempt: 1 };
        ask_in_process(store, fence, &["b"], TERMS, claim).await.unwrap();
        ask(store, fence, &["a"], TERMS).await.unwrap();
        let list = ListEffects { universe: store.universe, world: None, kind: None, after: None, items_max: 10 };
        let mut asked: Vec<_> = store.run(&list).await.unwrap().output.items;
        asked.sort_by_key(|effect| effect.item.height);
        assert_eq!(asked.len(), 3);
        asked.into_iter().enumerate().map(|(n, effect)| by_hand(store, &effect, n > 0)).collect::<Vec<_>>()
    };
    let act = async |store: &Store, answers: &Vec<AnswerEffect>| {
        for by_hand in answers {
            match store.run(by_hand).await {
                // It is gone from its place: the first try was applied, or an operator looks for it again.
                Err(error) if error.code() == Code::EffectNotFound => panic!("{error}"),
                answered => answered.map(drop)?,
            }
        }
        Ok(())
    };
    survives(on_the_heap, setup, act, everything);
}

fn by_hand(store: &Store, effect: &QueuedEffect, at_its_place: bool) -> AnswerEffect {
    let QueuedEffect { place, item, .. } = effect;
    AnswerEffect {
        universe: store.universe,
        world: item.world,
        intent: item.intent,
        kind: item.kind.clone(),
        place: at_its_place.then_some(*place),
        status: ReceiptStatus::Timeout,
        payload: Payload::Inline(vec![0xf6]),
        operator: operator(),
        now_ns: 9,
        woken_by: WokenBy::ReadyQueue,
    }
}

/// Timers of two worlds, one of which is cancelled by then.
#[test]
fn fire_timers() {
    let setup = async |store: &Store| {
        for world in [1, 2] {
            let fence = store.live(world).await.unwrap();
            set_timers(store, fence, &[5, 2_000_000_000, 7_000_000_000_000]).await.unwrap();
        }
    };
    let act = async |store: &Store, _: &()| {
        for shard in Shard::all() {
            let (universe, now_ns) = (store.universe, 3_000_000_000);
            store.run(&FireTimers { universe, shard, items_max: 10, now_ns, dedupe_window_ns: 1 }).await?;
        }
        Ok(())
    };
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn send_to_another_world() {
    let setup = async |store: &Store| {
        let (from, to) = (live(store).await, store.live(2).await.unwrap());
        let held = Claim { token: [1; 16], worker: worker(), deadline_ns: u64::MAX, attempt: 1 };
        (ask_in_process(store, from, &["fabric.send"], TERMS, held).await.unwrap().remove(0), to)
    };
    let act = async |store: &Store, (from, to): &(ClaimedEffect, Fence)| {
        let message = FabricMessage {
            id: MessageId::Intent(from.proof.intent),
            claim: from.proof,
            from: Sender { world: from.proof.world, height: Height::new(1) },
            to: to.world,
            input: Input::Event { schema: "e".into(), value: Payload::Inline(vec![0xf6]), key: None },
            correlation_id: None,
            trace: None,
            headers: [].into(),
            dedupe_window_ns: 1,
        };
        fabric_send(&store.engine, &store.clock, &store.blobs, store.universe, message, WokenBy::ReadyQueue)
            .await
            .map(drop)
    };
    survives(on_the_heap, setup, act, everything);
}

/// Once in a slot of its process, and once brought forward by an operator.
#[test]
fn call_another_world() {
    for again in [false, true] {
        let setup = async |store: &Store| {
            let (from, to) = (live(store).await, store.live(2).await.unwrap());
            let held = Claim { token: [1; 16], worker: worker(), deadline_ns: u64::MAX, attempt: 1 };
            let mut effect = ask_in_process(store, from, &["world.call"], TERMS, held).await.unwrap().remove(0);
            if again {
                make_call(store, &effect, to).await.unwrap();
                let (universe, now_ns) = (store.universe, store.clock.now_ns());
                let list = ListEffects { universe, world: None, kind: None, after: None, items_max: 1 };
                let place = store.run(&list).await.unwrap().output.items.remove(0).place;
                store.run(&RetryEffect { universe, place, now_ns }).await.unwrap();
                let claim = ClaimEffects { kind: "world.call".into(), ..claim_of(store, 3) };
                effect = store.run(&claim).await.unwrap().output.effects.remove(0);
            }
            (effect, to)
        };
        let act = async |store: &Store, (effect, to): &(ClaimedEffect, Fence)| make_call(store, effect, *to).await;
        survives(on_the_heap, setup, act, everything);
    }
}

async fn make_call(store: &Store, effect: &ClaimedEffect, to: Fence) -> Result<(), StoreError> {
    let message = FabricMessage {
        id: MessageId::Intent(effect.proof.intent),
        claim: effect.proof,
        from: Sender { world: effect.proof.world, height: Height::new(1) },
        to: to.world,
        input: Input::Event { schema: "e".into(), value: Payload::Inline(vec![0xf6]), key: None },
        correlation_id: None,
        trace: None,
        headers: [].into(),
        dedupe_window_ns: 1,
    };
    let call = WorldCall { message, deadline_ns: 1 << 60 };
    call_world(&store.engine, &store.clock, &store.blobs, store.universe, call, WokenBy::ReadyQueue).await.map(drop)
}

#[test]
fn take_a_lease_over_to_delete_its_world() {
    let setup = async |store: &Store| {
        store.create(world_id(1), None).await.unwrap();
        world_id(1)
    };
    let act = async |store: &Store, world: &WorldId| {
        let (universe, by) = (store.universe, WorkerId::new(1).unwrap());
        let purpose = Purpose::Delete;
        let take = TakeOverLease { universe, world: *world, by, now_ns: 5, ttl_ns: 9, request_ttl_ns: 9, purpose };
        store.run(&take).await.map(drop)
    };
    survives(on_the_heap, setup, act, |key| family_of(key) != Some(Family::Lease as u8));
}

/// With something in its inbox, so that it is ready when it comes back.
#[test]
fn archive_a_world_and_bring_it_back() {
    for archived in [true, false] {
        let setup = async |store: &Store| {
            let fence = live_with_items(store).await;
            let (universe, world) = (fence.universe, fence.world);
            if !archived {
                store.run(&ArchiveWorld { universe, world, archived: true, now_ns: 5 }).await.unwrap();
            }
            ArchiveWorld { universe, world, archived, now_ns: 6 }
        };
        let act = async |store: &Store, archive: &ArchiveWorld| store.run(archive).await.map(drop);
        survives(on_the_heap, setup, act, everything);
    }
}

/// Who put it on hold and did not hear so finds the lease gone, and the world on hold.
#[test]
fn put_a_world_on_hold_and_release_it() {
    for released in [false, true] {
        let hold = async |store: &Store, fence: Fence| {
            let (code, reason) = (Code::StepAbandoned.to_string(), "why".to_owned());
            store.run(&HoldWorld { fence, code, reason, failures: 5, failed: None, seen: None, now_ns: 5 }).await
        };
        let setup = async |store: &Store| {
            let fence = live_with_items(store).await;
            if released {
                hold(store, fence).await.unwrap();
            }
            fence
        };
        let act = async |store: &Store, fence: &Fence| {
            let Fence { universe, world, .. } = *fence;
            if released {
                return store.run(&ReleaseHold { universe, world, now_ns: 6 }).await.map(drop);
            }
            let Err(error) = hold(store, *fence).await else { return Ok(()) };
            let is_done = error.code() == Code::LeaseFenced
                && store.run(&DescribeWorld { universe, world }).await?.output.meta.hold.is_some();
            if is_done { Ok(()) } else { Err(error) }
        };
        survives(on_the_heap, setup, act, everything);
    }
}

#[test]
fn register_keep_and_let_go() {
    for stays in [true, false] {
        let setup = async |store: &Store<Cas<Probe<Memory>>>| {
            Blobs::put(&store.blobs, store.universe, Bytes::from_static(b"program"), &[]).await.unwrap()
        };
        let act = async |store: &Store<Cas<Probe<Memory>>>, hash: &Hash| {
            let (universe, hash, kind) = (store.universe, *hash, Kind::Program);
            let entry = Registered { hash, needs: Vec::new(), at_ns: 5 };
            store.run(&Register { universe, entries: vec![(RegisteredKind::Program, entry)] }).await?;
            store.run(&KeepObject { universe, hash, kind, now_ns: 5 }).await?;
            if stays { Ok(()) } else { store.run(&ReleaseObject { universe, hash, kind }).await.map(drop) }
        };
        survives(with_content_store, setup, act, everything);
    }
}

/// The first version of a name, the next one, one with a number, and the end of one: each of them alone, because a manifest
/// that is not the newest any more rightly gets another number.
#[test]
fn name_programs_and_delete_versions() {
    let naming = |store: &Store, version, text: &[u8]| {
        let (universe, manifest, program) = (store.universe, Hash::of(text), Hash::of(b"code"));
        NameProgram { universe, name: "todo".into(), version, manifest, program, now_ns: 5 }
    };
    for before in [0, 1, 2] {
        let setup = async |store: &Store| {
            let entry = |text: &[u8]| {
                (RegisteredKind::Manifest, Registered { hash: Hash::of(text), needs: Vec::new(), at_ns: 5 })
            };
            let entries = [&b"one"[..], b"two", b"three"].map(entry).into();
            store.run(&Register { universe: store.universe, entries }).await.unwrap();
            for text in [&b"one"[..], b"two"].into_iter().take(before) {
                store.run(&naming(store, None, text)).await.unwrap();
            }
        };
        let next = async |store: &Store, (): &()| store.run(&naming(store, None, b"three")).await.map(drop);
        survives(on_the_heap, setup, next, everything);
        let numbered = async |store: &Store, (): &()| store.run(&naming(store, Some(9), b"three")).await.map(drop);
        survives(on_the_heap, setup, numbered, everything);
        let delete = async |store: &Store, (): &()| {
            let (universe, name) = (store.universe, "todo".to_owned());
            store.run(&UnnameProgram { universe, name, version: 1 }).await.map(drop)
        };
        survives(on_the_heap, setup, delete, everything);
    }
}

/// One that nobody looked into since, and one that grew while the commit was in progress.
#[test]
fn commit_a_turn_without_a_look_into_the_inbox() {
    let act = async |store: &Store, fence: &Fence| {
        let input = store.read_turn(*fence).await?;
        if let (Some(end), Some(turn)) = (input.end, turn(store, *fence).await?) {
            store.run(&CommitTurn { expects_end: Some(end), ..turn }).await?;
        }
        Ok(())
    };
    let setup = async |store: &Store| {
        let fence = live(store).await;
        store.send(fence.world, vec![named_event("only")]).await.unwrap();
        fence
    };
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn note_a_snapshot_that_is_due_and_wake_its_world() {
    let act = async |store: &Store, fence: &Fence| {
        store.run(&NoteSnapshotDue { fence: *fence, due_ns: Some(7) }).await?;
        store.run(&WakeDueSnapshots { universe: fence.universe, now_ns: 9, items_max: 9 }).await.map(drop)
    };
    let hints = |key: &[u8]| family_of(key) != Some(Family::ReadyNotify as u8);
    survives(on_the_heap, live, act, hints);
}

#[test]
fn forget_that_a_world_is_assigned() {
    let seen = || Assignment { desired: WorkerId::new(2), pinned: false, priority: 1, reason: None };
    let setup = async |store: &Store| {
        let Fence { universe, world, .. } = live(store).await;
        let place = PlaceWorld { universe, world, over: Over::Seen(None), to: seen(), mail: Vec::new() };
        store.run(&place).await.unwrap();
        (universe, world)
    };
    let act = async |store: &Store, (universe, world): &(UniverseId, WorldId)| {
        let (universe, world) = (*universe, *world);
        store.run(&ForgetAssignment { universe, world, seen: seen() }).await.map(drop)
    };
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn ask_for_a_lease_and_withdraw_the_request() {
    let act = async |store: &Store, fence: &Fence| {
        let Fence { universe, world, .. } = *fence;
        let (by, purpose, now_ns) = (WorkerId::new(9).unwrap(), Purpose::Upkeep, store.clock.now_ns());
        let ask = TakeOverLease { universe, world, by, now_ns, ttl_ns: 9, request_ttl_ns: 9, purpose };
        let asked = store.run(&ask).await?.output;
        assert!(matches!(asked, TakenOver::Requested(_)), "its holder has it: {asked:?}");
        store.run(&WithdrawLeaseRequest { universe, world, by }).await.map(drop)
    };
    survives(on_the_heap, live, act, everything);
}

#[test]
fn close_a_world_that_somebody_holds() {
    let act = async |store: &Store, fence: &Fence| {
        store.run(&CloseWorld { universe: fence.universe, world: fence.world }).await.map(drop)
    };
    survives(on_the_heap, live_with_items, act, everything);
}

#[test]
fn ask_for_a_sweep() {
    let act = async |store: &Store, universe: &UniverseId| {
        store.run(&RequestSweep { universe: *universe, dry_run: true, now_ns: 5 }).await.map(drop)
    };
    survives(on_the_heap, async |store: &Store| store.universe, act, everything);
}

#[test]
fn place_a_world_and_tell_its_worker() {
    let act = async |store: &Store, fence: &Fence| {
        let to = Assignment { desired: WorkerId::new(2), pinned: false, priority: 1, reason: None };
        let mail = vec![(WorkerId::new(2).unwrap(), Bytes::from_static(b"frame"))];
        let place = PlaceWorld { universe: fence.universe, world: fence.world, over: Over::Seen(None), to, mail };
        store.run(&place).await.map(drop)
    };
    survives(on_the_heap, live, act, everything);
}

#[test]
fn name_a_universe_guard_its_schema_and_heartbeat_in_it() {
    let act = async |store: &Store, universe: &UniverseId| {
        let (universe, worker) = (*universe, WorkerId::new(1).unwrap());
        store.run(&NameUniverse { name: "tenant".into(), universe, now_ns: 7 }).await?;
        store.run(&GuardSchema { universe, expected: SchemaVersion::CURRENT, bootstrap: true }).await?;
        let lives = WorkerRecord {
            started_at_ns: 1,
            expires_at_ns: 9,
            worlds_max: 3,
            draining: false,
            schema_version: 1,
            address: None,
            worlds: None,
        };
        store.run(&Heartbeat { universe, worker, record: Some(lives.clone()) }).await?;
        store.run(&Heartbeat { universe, worker: WorkerId::new(2).unwrap(), record: Some(lives) }).await?;
        store.run(&Heartbeat { universe, worker, record: None }).await.map(drop)
    };
    // How often those who watch the workers were told is nobody's promise.
    let kept = |key: &[u8]| family_of(key) != Some(Family::QueueNotify as u8);
    survives(on_the_heap, async |_| UniverseId::from_bytes([9; 16]), act, kept);
}

#[test]
fn write_and_revoke_tokens() {
    let act = async |store: &Store, universe: &UniverseId| {
        let token = |label: &str| TokenRecord {
            secret: Hash::of(b"secret"),
            universe: Some(*universe),
            verbs: 1,
            created_at_ns: 1,
            label: label.into(),
            quotas: None,
        };
        store.run(&WriteToken { id: 1, record: Some(token("stays")) }).await?;
        store.run(&WriteToken { id: 2, record: Some(token("goes")) }).await?;
        let quotas = Some(Quotas { worlds_max: Some(7), ..Quotas::default() });
        store.run(&SetTokenQuotas { id: 1, quotas }).await?;
        store.run(&WriteQuotas { universe: *universe, quotas }).await?;
        let amount = TokenUsage { worlds: 1, ..TokenUsage::default() };
        let charge = ChargeToken { id: 1, amount, quotas: Quotas::default(), give_back: false, change: 1 };
        store.run(&charge).await?;
        store.run(&charge).await?;
        store.run(&ChargeToken { give_back: true, change: 2, ..charge }).await?;
        store.run(&ChargeToken { change: 3, ..charge }).await?;
        store.run(&WriteToken { id: 2, record: None }).await.map(drop)
    };
    survives(on_the_heap, async |store: &Store| store.universe, act, everything);
}

#[test]
fn name_a_world() {
    let setup = async |store: &Store| {
        let name: WorldName = "alice".parse().unwrap();
        HandmadeWorld::create(&store.engine, store.universe, name.world(store.universe)).await.unwrap();
        name
    };
    let act = async |store: &Store, name: &WorldName| {
        store.run(&NameWorld { universe: store.universe, name: name.clone() }).await.map(drop)
    };
    survives(on_the_heap, setup, act, everything);
}

/// The labels, the index and the command in the inbox change together.
#[test]
fn label_a_world() {
    let setup = async |store: &Store| live(store).await.world;
    let act = async |store: &Store, world: &WorldId| {
        let labels = |pairs: &[(&str, &str)]| {
            Labels::new(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))).unwrap()
        };
        for (set, remove) in
            [(&[("customer", "17"), ("tier", "a")][..], vec![]), (&[("tier", "b")][..], vec!["customer".to_owned()])]
        {
            let change = LabelChange { set: labels(set), remove, operator: None };
            store.run(&LabelWorld { universe: store.universe, world: *world, change, now_ns: 5 }).await?;
        }
        Ok(())
    };
    survives(on_the_heap, setup, act, everything);
}

/// Worlds that were written before there was an index.
#[test]
fn index_worlds_of_an_earlier_version() {
    let setup = async |store: &Store| {
        for number in 0..3 {
            store.create(world_id(number), None).await.unwrap();
        }
        let mut tx = store.engine.begin().await.unwrap();
        let index = Family::WorldIndex as u8;
        let (mut start, mut end) = (store.universe.as_bytes().to_vec(), store.universe.as_bytes().to_vec());
        start.push(index);
        end.push(index + 1);
        tx.delete_range(&start, &end).unwrap();
        tx.commit().await.unwrap();
    };
    let act = async |store: &Store, (): &()| {
        store.run(&IndexWorlds { universe: store.universe, after: None }).await.map(drop)
    };
    survives(on_the_heap, setup, act, everything);
}

#[test]
fn create_a_pool_and_delete_it() {
    for stays in [true, false] {
        let name = || "gpus".parse::<WorldName>().unwrap();
        let act = async |store: &Store, (): &()| {
            let record = PoolRecord { created_at_ns: 5, shards: 2, manifest: Hash::of(b"m"), config: "{}".into() };
            store.run(&CreatePool { universe: store.universe, name: name(), record }).await?;
            if stays {
                Ok(())
            } else {
                store.run(&DeletePool { universe: store.universe, name: name() }).await.map(drop)
            }
        };
        survives(on_the_heap, async |_| (), act, everything);
    }
}

/// A beat whose commit got no answer may count twice, which says the same: the header of the protocol says so.
#[test]
fn watch_a_pool_and_hear_a_holder() {
    let lease = LeaseId::new(0, Height::new(7));
    let authority = LeaseAuthority { epoch: 1, holder: HolderId::of_name("ada") };
    for stays in [true, false] {
        let name = || "gpus".parse::<WorldName>().unwrap();
        let setup = async |store: &Store| {
            let record = PoolRecord { created_at_ns: 5, shards: 1, manifest: Hash::of(b"m"), config: "{}".into() };
            store.run(&CreatePool { universe: store.universe, name: name(), record }).await.unwrap();
            let fence = live_with_items(store).await;
            let granted = vec![AuthorityChange::granted(lease, authority)];
            let turn = turn(store, fence).await.unwrap().unwrap();
            store.run(&CommitTurn { authorities: granted, ..turn }).await.unwrap();
            fence
        };
        let act = async |store: &Store, fence: &Fence| {
            let (universe, policy) = (store.universe, stays.then(WatchPolicy::default));
            store.run(&SetWatch { universe, name: name(), policy }).await?;
            store.run(&BeatLease { universe, pool: fence.world, lease, authority }).await.map(drop)
        };
        let counters = [Family::LeaseBeat as u8, Family::QueueNotify as u8];
        survives(on_the_heap, setup, act, |key| !family_of(key).is_some_and(|family| counters.contains(&family)));
    }
}

#[test]
fn pin_an_object_and_let_it_go() {
    for stays in [true, false] {
        let setup = async |store: &Store<Cas<Probe<Memory>>>| {
            let fence = live(store).await;
            (fence, Blobs::put(&store.blobs, store.universe, Bytes::from_static(b"kept"), &[]).await.unwrap())
        };
        let act = async |store: &Store<Cas<Probe<Memory>>>, (fence, hash): &(Fence, Hash)| {
            let (fence, hash) = (*fence, *hash);
            store.run(&PinBlob { fence, hash, reason: "why".into(), now_ns: 5 }).await?;
            if stays { Ok(()) } else { store.run(&UnpinBlob { fence, hash }).await.map(drop) }
        };
        survives(with_content_store, setup, act, everything);
    }
}

/// A world of ten records that comes from elsewhere, with an effect that is to be carried out here.
#[test]
fn import_a_world() {
    let act = async |store: &Store<Cas<Probe<Memory>>>, world: &WorldId| {
        let (universe, world, height) = (store.universe, *world, Height::new(10));
        let facts = store.facts(height);
        let snapshot = PlainSnapshots::encode(&facts);
        let arrival = ForkGenesis {
            universe,
            world,
            parent: world,
            forked_at: height,
            parent_snapshot: Hash::of(b"parent"),
            snapshot: Hash::of(&snapshot),
            policy: EffectPolicy::Suppress,
            now_ns: 5,
            manifest: None,
            answers: None,
        };
        // What it waited for is not carried out here, and it is told so.
        // More than fits one transaction.
        let receipt = |n: u8| Receipt {
            intent: IntentHash::of(&[n]),
            kind: "http".into(),
            status: ReceiptStatus::Error,
            payload: Payload::Inline(vec![0; 60_000]),
            adapter: "fork".into(),
            signature: None,
            operator: None,
        };
        let (start, end) = (Height::GENESIS, height);
        let segment = SegmentRecord { start, end, size_bytes: 1, footer_bytes: 1, checksum: Hash::of(b"footer") };
        let import = ImportWorld {
            universe,
            world,
            segments: vec![segment],
            manifests: vec![(Height::GENESIS, store.manifest_hash())],
            snapshots: Vec::new(),
            arrival: Record { height, prev: Hash::of(b"last"), body: Body::ForkGenesis(arrival) },
            snapshot,
            own_from: height,
            inherited: Inherited { receipts: (0..20).map(receipt).collect(), ..Inherited::default() },
            policy: EffectPolicy::Suppress,
            name: None,
            labels: None,
            now_ns: 5,
        };
        import_world(&store.engine, &store.clock, &store.blobs, &PlainSnapshots, &import).await.map(drop)
    };
    survives(with_content_store, async |_| world_id(7), act, everything);
}

/// A whole universe comes from elsewhere. Once it is here, another try is refused; that is how who lost the answer learns of it.
#[test]
fn import_a_universe() {
    let setup = async |store: &Store| {
        let source = Fixture::new(Memory::new(), 2).await.unwrap();
        source.live(3).await.unwrap();
        source.send(world_id(3), vec![named_event("waits")]).await.unwrap();
        let (objects, place) = (objects::open("memory:///").unwrap(), objects::open("memory:///").unwrap());
        let named = ("tenant", source.universe);
        transfer::export(&source.engine, &objects, named, &place, 9, |_| {}).await.unwrap();
        for n in 0..20u8 {
            let mut tx = store.engine.begin().await.unwrap(); // its stamps must stand above those of the export
            tx.put(b"commits", vec![n]).unwrap();
            tx.commit().await.unwrap();
        }
        (place, objects)
    };
    let act = async |store: &Store, (place, objects): &(Objects, Objects)| match transfer::import(
        place,
        &store.engine,
        objects,
        &store.clock,
        |_| {},
    )
    .await
    {
        Err(TransferError::Refused(why)) if why.contains("another universe is called") => Ok(()),
        Err(TransferError::Store(error)) => Err(error),
        Err(TransferError::Engine(error)) => Err(error.into()),
        imported => {
            imported.expect("nothing but the engine fails");
            Ok(())
        }
    };
    survives(on_the_heap, setup, act, everything);
}

/// The harness itself: a protocol that is not idempotent is found out.
#[test]
#[should_panic(expected = "DieAfter at operation 1")]
fn a_protocol_that_counts_twice_is_found_out() {
    struct Careless;
    impl mundi_store::Protocol for Careless {
        type Output = ();

        fn on_unknown(&self) -> mundi_store::OnUnknown {
            mundi_store::OnUnknown::RunAgain
        }

        async fn run<T: mundi_engine::Transaction>(&self, tx: &mut T) -> Result<(), StoreError> {
            Ok(tx.add(b"counter", 1)?)
        }
    }
    let act = async |store: &Store, _: &()| store.run(&Careless).await.map(drop);
    survives(on_the_heap, async |_| (), act, everything);
}

#[test]
fn a_dead_process_writes_nothing_more() {
    block_on(async {
        let engine = Probe::new(Memory::new());
        engine.arm(0, Trouble::DieBefore);
        assert!(engine.begin().await.is_err() && engine.begin().await.is_err());
        engine.revive();
        assert!(engine.begin().await.is_ok());
    });
}
