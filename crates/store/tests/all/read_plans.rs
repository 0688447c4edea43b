//! A read plan says what its protocol reads: nothing is read in the usual course that was not planned, and nothing is planned that is not read.

#![expect(clippy::unwrap_used, reason = "a test")]

use mundi_engine::Memory;
use mundi_model::{
    UniverseId, WorkerId,
    record::{Payload, ReceiptStatus},
};
use mundi_store::{
    Clock, Fence, Protocol,
    journal::Batch,
    keyspace::{Shard, assignment::Assignment, effect_pending::EffectTerms, ready},
    protocol::{
        AcquireLease, Answer, AssignWorld, ClaimEffects, CommitTurn, Completed, Consumed, ExtendClaims, InProcess,
        IsReady, KindCap, NextTimers, PeekInbox, ReadPlacements, ReadReady, ReadReadyCounters, ReadTurn, RenewLeases,
        ShardsToReap, WokenBy, complete_effect,
    },
    testing::{Counts, Fixture, Probe, ask, event, named_event, note_body, set_timers, world_id},
};
use pollster::block_on;

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
