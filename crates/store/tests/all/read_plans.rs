//! A read plan says what its protocol reads: nothing is read in the usual course that was not planned, and nothing is planned that is not read.

#![expect(clippy::unwrap_used, reason = "a test")]

use bytes::Bytes;
use mundi_engine::Memory;
use mundi_model::{
    Hash, Height, UniverseId, WorkerId,
    record::{Input, Payload, ReceiptStatus, Sender},
};
use mundi_store::{
    Clock, Fence, Protocol,
    blobs::{Cas, CasConfig},
    journal::Batch,
    keyspace::{Shard, assignment::Assignment, effect_pending::EffectTerms, ready},
    objects::Objects,
    protocol::{
        AcquireLease, Answer, AssignWorld, ClaimEffects, ClaimMail, CommitTurn, Completed, Consumed, ExtendClaims,
        FabricMessage, FindClaims, Finish, FinishMail, InProcess, IsReady, KindCap, MailClaimed, MessageId, NewItem,
        NewMail, NextTimers, Over, PeekInbox, PlaceWorld, ReadPlacements, ReadReady, ReadReadyCounters, ReadTurn,
        ReapEffects, ReleaseLease, RenewLeases, SendMail, ShardsToReap, WokenBy, WorldCall, call_world,
        complete_effect, deliver_mail, fabric_send,
    },
    testing::{
        CountingEntropy, Counts, FaultyObjects, Fixture, ManualClock, Probe, ask, event, named_event, note_body,
        set_timers, world_id,
    },
};
use pollster::block_on;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

type Store = Fixture<Probe<Memory>>;

/// Runs a protocol and says what was read without a plan, and planned without being read.
async fn measured<O>(store: &Store, run: impl Future<Output = O>) -> (O, (u64, u64)) {
    store.engine.revive();
    let output = run.await;
    let Counts { unplanned, unread, .. } = store.engine.counts();
    (output, (unplanned, unread))
}

async fn keeps_its_plan<P: Protocol>(store: &Store, protocol: &P) -> P::Output {
    let (done, differs) = measured(store, store.run(protocol)).await;
    assert_eq!(differs, (0, 0), "{}", std::any::type_name::<P>());
    done.unwrap().output
}

async fn store() -> (Store, Fence) {
    let store = Fixture::new(Probe::new(Memory::new()), 1).await.unwrap();
    let fence = store.live(1).await.unwrap();
    (store, fence)
}

const WORKER: WorkerId = WorkerId::new(1).unwrap();

#[test]
fn protocols_of_leases_and_placement_keep_their_plans() {
    block_on(async {
        let (store, Fence { universe, world, .. }) = store().await;
        store.create(world_id(2), None).await.unwrap();
        let now_ns = store.clock.now_ns();
        let request = AcquireLease { universe, world: world_id(2), worker: WORKER, now_ns, ttl_ns: 9, opening: None };
        let fence = keeps_its_plan(&store, &request).await.fence;
        keeps_its_plan(&store, &RenewLeases { worker: WORKER, fences: vec![fence], now_ns, ttl_ns: 9 }).await;
        store.send(world, vec![event("a")]).await.unwrap();
        keeps_its_plan(&store, &ReadPlacements { universe, worlds: vec![world, world_id(2)] }).await;
        keeps_its_plan(&store, &IsReady { universe, world }).await;
        keeps_its_plan(&store, &ReadReadyCounters { universe }).await;
        let shards = Shard::all().map(|shard| (shard, None)).collect();
        keeps_its_plan(&store, &ReadReady { universe, shards, items_max: 9 }).await;
        let assignment =
            Assignment { desired: Some(WORKER), pinned: false, priority: ready::PRIORITY_NORMAL, reason: None };
        keeps_its_plan(&store, &AssignWorld { universe, world, assignment }).await;
    });
}

#[test]
fn turns_and_what_comes_in_keep_their_plans() {
    block_on(async {
        let (store, fence) = store().await;
        let (sent, differs) = measured(&store, store.send(fence.world, vec![named_event("a")])).await;
        assert_eq!(differs, (0, 0), "enqueue");
        let seen = Some(sent.unwrap()[0].seq);
        let read = |cursor_seen| ReadTurn { fence, cursor_seen, items_max: 9, bytes_max: 9_999 };
        let (_, differs) = measured(&store, store.run(&read(None))).await;
        assert_eq!(differs, (1, 0), "where the items begin is read with the rest");
        let input = store.run(&read(None)).await.unwrap().output;
        let turn = CommitTurn {
            fence,
            cursor: input.cursor,
            expects_end: None,
            consumed: Consumed::of(&input.items, None),
            records: Batch::from_bodies(input.head, [note_body(1)]).unwrap(),
            effects: Vec::new(),
            timers: Vec::new(),
            receipts: Vec::new(),
            in_process: InProcess::default(),
            logs: Vec::new(),
            authorities: Vec::new(),
            paused: None,
            ready: true,
            now_ns: store.clock.now_ns(),
        };
        keeps_its_plan(&store, &turn).await;
        let input = keeps_its_plan(&store, &read(seen)).await;
        let again = CommitTurn {
            cursor: input.cursor,
            expects_end: input.end,
            consumed: None,
            records: Batch::from_bodies(input.head, [note_body(2)]).unwrap(),
            paused: Some(true),
            ready: false,
            ..turn
        };
        keeps_its_plan(&store, &again).await;
        let peek = PeekInbox { universe: fence.universe, world: fence.world };
        let (_, differs) = measured(&store, peek.run(&store.engine)).await;
        assert_eq!(differs, (0, 0), "peek");
    });
}

#[test]
fn protocols_of_queues_keep_their_plans() {
    block_on(async {
        let (store, fence) = store().await;
        let (universe, now_ns) = (fence.universe, store.clock.now_ns());
        for cap in [KindCap::default(), KindCap { calls_max: Some(9), rate: None }] {
            ask(&store, fence, &["a"; 3], EffectTerms::default()).await.unwrap();
            let claims = keeps_its_plan(&store, &claim(universe, now_ns, cap)).await.effects;
            let proofs: Vec<_> = claims.iter().map(|claimed| claimed.proof).collect();
            assert_eq!(proofs.len(), 3);
            let extend = ExtendClaims { claims: proofs, deadline_ns: now_ns + 99 };
            let (extended, differs) = measured(&store, store.run(&extend)).await;
            assert!(extended.unwrap().output.lost.is_empty());
            assert_eq!(differs, (0, 3), "only of an effect in a slot it is asked whether its world lives");
            let kinds = vec!["a".into()];
            keeps_its_plan(&store, &ShardsToReap { universe, kinds, items_max: 9, now_ns, gone: None }).await;
            for claimed in &claims {
                let answer = Answer::new(ReceiptStatus::Ok, Payload::Inline(vec![0xf5]), "test");
                let (engine, clock, blobs) = (&store.engine, &store.clock, &store.blobs);
                let complete = complete_effect(engine, clock, blobs, claimed, answer, WokenBy::ReadyQueue);
                let (completed, differs) = measured(&store, complete).await;
                assert_eq!((completed.unwrap(), differs), (Completed::Delivered, (0, 0)));
            }
        }
        set_timers(&store, fence, &[now_ns + 1, now_ns + 2]).await.unwrap();
        keeps_its_plan(&store, &NextTimers { universe }).await;
    });
}

fn claim(universe: UniverseId, now_ns: u64, cap: KindCap) -> ClaimEffects {
    ClaimEffects {
        universe,
        kind: "a".into(),
        worker: WORKER,
        token: [1; 16],
        items_max: 64,
        ttl_ns: 9,
        now_ns,
        first: Shard::all().next().unwrap(),
        cap,
    }
}

#[test]
fn placing_and_releasing_a_world_keep_their_plans() {
    block_on(async {
        let (store, fence) = store().await;
        let Fence { universe, world, .. } = fence;
        let to = Assignment { desired: Some(WORKER), pinned: false, priority: ready::PRIORITY_NORMAL, reason: None };
        let mail = vec![(WORKER, Bytes::from_static(b"start"))];
        keeps_its_plan(&store, &PlaceWorld { universe, world, over: Over::Seen(None), to, mail }).await;
        keeps_its_plan(&store, &ReleaseLease { fence, active_at_ns: Some(store.clock.now_ns()) }).await;
    });
}

#[test]
fn claims_that_are_found_and_reaped_keep_their_plans() {
    block_on(async {
        let (store, fence) = store().await;
        let (universe, now_ns) = (fence.universe, store.clock.now_ns());
        ask(&store, fence, &["a"; 3], EffectTerms::default()).await.unwrap();
        let claims = store.run(&claim(universe, now_ns, KindCap::default())).await.unwrap().output.effects;
        let shards: BTreeSet<_> = claims.iter().map(|claimed| claimed.proof.queue_shard).collect();
        let queue_shards: Vec<_> = shards.iter().copied().collect();
        let find = FindClaims { universe, queue_shards, token: [1; 16] };
        let (found, differs) = measured(&store, store.run(&find)).await;
        assert_eq!(found.unwrap().output.len(), 3);
        let behind_marks = u64::try_from(shards.len()).unwrap();
        assert_eq!(differs, (behind_marks, 0), "each range begins at a mark, which is read first");
        for queue_shard in shards {
            let reap = ReapEffects { universe, queue_shard, touched: false, items_max: 9, now_ns, gone: None };
            let (reaped, differs) = measured(&store, store.run(&reap)).await;
            assert!(reaped.unwrap().output.next_deadline_ns.is_some(), "the claims stand");
            assert_eq!(
                differs,
                (2, 0),
                "the range begins at a mark, which is read first, and a page with claims moves it"
            );
        }
    });
}

#[test]
fn messages_to_workers_keep_their_plans() {
    block_on(async {
        let (store, fence) = store().await;
        let (universe, now_ns) = (fence.universe, store.clock.now_ns());
        let new =
            |number: u8| NewMail { due_ns: 0, urgent: false, name: None, frame: Bytes::copy_from_slice(&[number]) };
        let mail = (0..2).map(new).collect();
        store.run(&SendMail { universe, worker: WORKER, mail, now_ns, dedupe_window_ns: 1 }).await.unwrap();
        let claim = ClaimMail { universe, worker: WORKER, token: [7; 16], now_ns, ttl_ns: 99, items_max: 2 };
        let (claimed, differs) = measured(&store, store.run(&claim)).await;
        let MailClaimed::Messages(claimed) = claimed.unwrap().output else { panic!("nothing to claim") };
        assert_eq!(
            differs,
            (2, 1),
            "each range begins at the mark of its class, and no class behind the first with messages is read"
        );
        let finish = |number: usize, how| {
            let (place, claim) = (claimed[number].place, claimed[number].claim);
            FinishMail { universe, worker: WORKER, place, claim, how }
        };
        keeps_its_plan(&store, &finish(0, Finish::Acknowledge)).await;
        let (acknowledge, item) = (finish(1, Finish::Acknowledge), NewItem { dedupe: None, ..named_event("x") });
        let deliver = deliver_mail(&store.engine, &store.clock, &store.blobs, &acknowledge, fence.world, item, 1);
        let (delivered, differs) = measured(&store, deliver).await;
        delivered.unwrap();
        assert_eq!(differs, (0, 0), "deliver");
    });
}

#[test]
fn messages_and_calls_between_worlds_keep_their_plans() {
    block_on(async {
        let (store, from) = store().await;
        let to = store.live(2).await.unwrap();
        let (universe, now_ns) = (from.universe, store.clock.now_ns());
        ask(&store, from, &["a"; 2], EffectTerms::default()).await.unwrap();
        let claims = store.run(&claim(universe, now_ns, KindCap::default())).await.unwrap().output.effects;
        let message = |number: usize, input| FabricMessage {
            id: MessageId::Intent(claims[number].proof.intent),
            claim: claims[number].proof,
            from: Sender { world: from.world, height: Height::new(7) },
            to: to.world,
            input,
            correlation_id: None,
            trace: None,
            headers: [].into(),
            dedupe_window_ns: 1,
        };
        let payload = || Payload::Inline(vec![0xf6]);
        let (engine, clock, blobs) = (&store.engine, &store.clock, &store.blobs);
        let mail = Input::Message { inbox: "mail".into(), payload: payload(), headers: [].into() };
        let send = fabric_send(engine, clock, blobs, universe, message(0, mail), WokenBy::ReadyQueue);
        let (sent, differs) = measured(&store, send).await;
        sent.unwrap();
        assert_eq!(differs, (0, 1), "only of an effect in a slot it is asked whether its world lives");
        let event = Input::Event { schema: "e".into(), value: payload(), key: None };
        let call = WorldCall { message: message(1, event), deadline_ns: now_ns + 99 };
        let (called, differs) =
            measured(&store, call_world(engine, clock, blobs, universe, call, WokenBy::ReadyQueue)).await;
        called.unwrap();
        assert_eq!(differs, (1, 1), "as of a send, and the effect that waits is looked up by the place of its claim");
    });
}

#[test]
fn putting_an_object_keeps_its_plans() {
    block_on(async {
        let (store, fence) = store().await;
        let (clock, entropy) = (Arc::new(ManualClock::at_ns(7)), Arc::new(CountingEntropy::default()));
        let objects = Objects::new(Arc::new(FaultyObjects::in_memory()));
        let cas = Cas::new(store.engine.clone(), objects, clock, entropy, CasConfig::default());
        let refs = BTreeSet::new();
        let put = |bytes| cas.put(fence.universe, Bytes::from_static(bytes), &refs);
        for what in ["a new object", "an object that exists"] {
            let (hash, differs): (Result<Hash, _>, _) = measured(&store, put(b"bytes")).await;
            hash.unwrap();
            assert_eq!(differs, (0, 0), "{what}");
        }
    });
}

/// Protocols whose plans are compared above, by their own name or by the function that runs them.
const COMPARED: &[&str] = &[
    "AcquireLease",
    "AssignWorld",
    "CallWorld",
    "CasLookup",
    "CasPut",
    "ClaimEffects",
    "ClaimMail",
    "CommitTurn",
    "CompleteEffect",
    "DeliverMail",
    "Enqueue",
    "ExtendClaims",
    "FindClaims",
    "FinishMail",
    "IsReady",
    "NextTimers",
    "PlaceWorld",
    "ReadPlacements",
    "ReadReady",
    "ReadReadyCounters",
    "ReadTurn",
    "ReapEffects",
    "ReleaseLease",
    "RenewLeases",
    "SendMessage",
    "ShardsToReap",
];

#[test]
fn every_protocol_with_a_plan_is_compared_with_it() {
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { sources(&path, found) } else { found.push(path) }
        }
    }
    let mut files = Vec::new();
    sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/protocol")), &mut files);
    let mut planned = BTreeSet::new();
    for text in files.iter().map(|file| fs::read_to_string(file).unwrap()) {
        for rest in text.split("\nimpl").filter(|rest| rest.contains("fn read_plan")) {
            let head = rest.split_once("Protocol for ").map_or("", |(_, head)| head);
            planned.insert(head.split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned());
        }
    }
    assert_eq!(planned, COMPARED.iter().map(|name| (*name).to_owned()).collect());
}
