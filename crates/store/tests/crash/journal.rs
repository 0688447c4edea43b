//! Turns and snapshots.

use crate::{
    Store, everything, family_of, live, live_with_items, live_with_records, on_the_heap, survives, with_content_store,
};
use mundi_engine::Memory;
use mundi_model::{
    Hash, Height, IntentHash,
    record::{Body, Intent, ManifestChange, Payload, Reply, ReplyOutcome},
};
use mundi_store::{
    Fence, StoreError,
    blobs::Cas,
    journal::Batch,
    keyspace::{
        Family,
        effect_pending::{EffectItem, EffectTerms},
        timer_due::TimerItem,
    },
    protocol::{CommitTurn, Consumed, InProcess, NoteSnapshotDue, WakeDueSnapshots},
    testing::{AppendBatch, Probe, named_event, note_body},
};

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

/// The turn that a worker makes of one item: an effect, a timer, the cancellation of the turn before, a reply.
pub(crate) async fn turn(store: &Store, fence: Fence) -> Result<Option<CommitTurn>, StoreError> {
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
