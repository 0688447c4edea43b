//! Calls of worlds to worlds: the reply is the receipt, once, whatever dies between.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_engine::Memory;
use mundi_model::{
    Code, Coded, Hash, Height, InboxSeq, Value, WorkerId, WorldId, cbor,
    record::{Body, Input, Operator, Origin, Payload, Receipt, ReceiptStatus, Rejected, Reply, ReplyOutcome, Sender},
};
use mundi_store::{
    Clock, Fence, StoreError,
    journal::Batch,
    keyspace::{
        Family, Parts, Shard,
        effect_pending::EffectTerms,
        effect_place::{EffectPlace, EffectStage},
        queue::Claim,
    },
    protocol::{
        AnswerEffect, ArchiveWorld, Called, CancelEffect, ClaimEffects, ClaimedEffect, CommitTurn, Consumed,
        EffectClaim, FabricMessage, FailEffect, Failed, Failure, InProcess, KindCap, ListEffects, MessageId, Repeat,
        RetryEffect, TurnCommitted, WokenBy, WorldCall, call_world, expire_dedupe,
    },
    testing::{Fixture, Probe, Trouble, ask, ask_in_process, engine_contents, receipts},
};
use pollster::block_on;
use std::time::Duration;

type Store = Fixture<Probe<Memory>>;

const DEADLINE_NS: u64 = 1_000_000_000_000;

async fn two_worlds() -> (Store, Fence, Fence) {
    let store = Fixture::new(Probe::new(Memory::new()), 1).await.unwrap();
    let (from, to) = (store.live(1).await.unwrap(), store.live(2).await.unwrap());
    (store, from, to)
}

/// An effect of the caller, in a slot of its process.
async fn in_slot(store: &Store, from: Fence) -> ClaimedEffect {
    let held = Claim { token: [7; 16], worker: worker(), deadline_ns: u64::MAX, attempt: 1 };
    ask_in_process(store, from, &["world.call"], EffectTerms::default(), held).await.unwrap().remove(0)
}

fn worker() -> WorkerId {
    WorkerId::new(7).unwrap()
}

fn call(claim: EffectClaim, to: WorldId, payload: Payload) -> WorldCall {
    let message = FabricMessage {
        id: MessageId::Intent(claim.intent),
        claim,
        from: Sender { world: claim.world, height: Height::new(7) },
        to,
        input: Input::Event { schema: "e".into(), value: payload, key: None },
        correlation_id: Some("c".into()),
        trace: None,
        headers: [("h".to_owned(), "v".to_owned())].into(),
        dedupe_window_ns: 1,
    };
    WorldCall { message, deadline_ns: DEADLINE_NS }
}

async fn make(store: &Store, claim: EffectClaim, to: Fence) -> Result<Called, StoreError> {
    let call = call(claim, to.world, Payload::Inline(vec![0xf6]));
    call_world(&store.engine, &store.clock, &store.blobs, to.universe, call, WokenBy::ReadyQueue).await
}

fn place_of(called: &Called) -> InboxSeq {
    match called {
        Called::Waiting { seq, .. } => *seq,
        Called::Over => panic!("it waits"),
    }
}

/// A turn of a world that takes what is in its inbox, and says this.
async fn turn(store: &Store, fence: Fence, bodies: Vec<Body>) -> Result<TurnCommitted, StoreError> {
    let input = store.read_turn(fence).await?;
    let turn = CommitTurn {
        fence,
        cursor: input.cursor,
        expects_end: None,
        consumed: Consumed::of(&input.items, input.end.as_ref()),
        records: Batch::from_bodies(input.head, bodies)?,
        effects: Vec::new(),
        timers: Vec::new(),
        receipts: Vec::new(),
        in_process: InProcess::default(),
        logs: Vec::new(),
        authorities: Vec::new(),
        paused: None,
        ready: false,
        now_ns: store.clock.now_ns(),
    };
    Ok(store.run(&turn).await?.output)
}

fn reply(to: InboxSeq, said: u8) -> Body {
    Body::Reply(Reply { to, outcome: ReplyOutcome::Ok(Payload::Inline(vec![said])) })
}

async fn receipt(store: &Store, fence: Fence) -> Receipt {
    let mut receipts = receipts(store, fence).await.unwrap();
    assert_eq!(receipts.len(), 1);
    receipts.remove(0)
}

/// How many keys of a family there are.
async fn keys(store: &Store, family: Family) -> usize {
    let contents = engine_contents(&store.engine).await.unwrap();
    contents.keys().filter(|key| Parts::of(key).is_some_and(|parts| parts.family == family)).count()
}

/// Whether nothing is left of an effect that is over.
async fn is_gone(store: &Store) -> bool {
    let families =
        [Family::OpenCall, Family::EffectPending, Family::EffectRetry, Family::EffectInflight, Family::EffectAttempt];
    for family in families {
        if keys(store, family).await > 0 {
            return false;
        }
    }
    true
}

fn claim_calls(store: &Store, token: u8) -> ClaimEffects {
    ClaimEffects {
        universe: store.universe,
        kind: "world.call".into(),
        worker: worker(),
        token: [token; 16],
        items_max: 9,
        ttl_ns: u64::MAX / 2,
        now_ns: store.clock.now_ns(),
        first: Shard::FIRST,
        cap: KindCap::default(),
    }
}

/// Times out a call, as an adapter does after its deadline.
async fn time_out(store: &Store, claim: EffectClaim) -> Failed {
    let failure = Failure { code: Code::CallTimeout, reason: "no reply".into(), repeat: Repeat::Never };
    let (now_ns, adapter) = (store.clock.now_ns(), "call".to_owned());
    let fail = FailEffect { claim, failure, adapter, signature: None, params: None, now_ns, dedupe_window_ns: 1 };
    store.run(&fail).await.unwrap().output
}

#[test]
fn the_reply_of_a_turn_is_the_receipt_and_nothing_else_is_left() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        let effect = in_slot(&store, from).await;
        let called = make(&store, effect.proof, to).await.unwrap();
        assert!(matches!(called, Called::Waiting { already_enqueued: false, .. }));
        assert_eq!(keys(&store, Family::EffectInflight).await, 0, "no slot waits for the reply");
        let item = store.read_turn(to).await.unwrap().items.remove(0);
        assert_eq!(item.seq, place_of(&called));
        let Origin { wants_reply, sender, correlation_id, headers, .. } = &item.item.origin;
        assert!(*wants_reply && sender.is_some_and(|sender| sender.world == from.world));
        assert_eq!((correlation_id.as_deref(), headers["h"].as_str()), (Some("c"), "v"));
        let committed = turn(&store, to, vec![reply(item.seq, 1)]).await.unwrap();
        assert_eq!(committed.callers, [(from.universe, from.world)]);
        let receipt = receipt(&store, from).await;
        assert_eq!((receipt.intent, receipt.kind.as_str()), (effect.proof.intent, "world.call"));
        assert_eq!((receipt.status, receipt.payload), (ReceiptStatus::Ok, Payload::Inline(vec![1])));
        assert!(is_gone(&store).await);
        assert_eq!(keys(&store, Family::Reply).await, 0, "nobody looks for it there");
        assert_eq!(make(&store, effect.proof, to).await.unwrap(), Called::Over);
    });
}

#[test]
fn replies_of_one_turn_go_to_their_callers_also_to_the_world_itself() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        let mut made = Vec::new();
        for caller in [from, from, to] {
            let effect = in_slot(&store, caller).await;
            made.push((effect.proof.intent, place_of(&make(&store, effect.proof, to).await.unwrap())));
        }
        let bodies = (1..).zip(&made).map(|(said, (_, seq))| reply(*seq, said)).collect();
        turn(&store, to, bodies).await.unwrap();
        let said = |receipts: Vec<Receipt>| receipts.into_iter().map(|it| (it.intent, it.payload)).collect::<Vec<_>>();
        let expected = |at: usize, said| (made[at].0, Payload::Inline(vec![said]));
        assert_eq!(said(receipts(&store, from).await.unwrap()), [expected(0, 1), expected(1, 2)]);
        assert_eq!(said(receipts(&store, to).await.unwrap()), [expected(2, 3)]);
    });
}

#[test]
fn a_failed_step_and_a_refused_event_are_error_receipts_that_say_where() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        let (first, second) = (in_slot(&store, from).await, in_slot(&store, from).await);
        let first = place_of(&make(&store, first.proof, to).await.unwrap());
        let second = place_of(&make(&store, second.proof, to).await.unwrap());
        let failed = ReplyOutcome::Failed("PROGRAM_FAILED".into(), "why".into(), Some(Height::new(5)));
        let rejected =
            Rejected { seq: second, code: "EVENT_INVALID".into(), reason: "no".into(), item: Hash::of(b"i") };
        let bodies = vec![Body::Reply(Reply { to: first, outcome: failed }), Body::Rejected(rejected)];
        let head = store.read_turn(to).await.unwrap().head.height.get();
        turn(&store, to, bodies).await.unwrap();
        let said: Vec<_> = receipts(&store, from).await.unwrap().into_iter().map(fields).collect();
        let text = |text: &str| Value::Text(text.to_owned());
        for (said, code, at) in [(&said[0], "PROGRAM_FAILED", 5), (&said[1], "EVENT_INVALID", head + 1)] {
            assert_eq!((&said["code"], &said["failed_code"]), (&text("CALL_FAILED"), &text(code)));
            assert_eq!(said["failed_at"], Value::Integer(at.into()));
        }
    });
}

fn fields(receipt: Receipt) -> std::collections::BTreeMap<String, Value> {
    assert_eq!(receipt.status, ReceiptStatus::Error);
    let Payload::Inline(bytes) = receipt.payload else { panic!("a small one") };
    let Value::Map(fields) = cbor::decode(&bytes).unwrap() else { panic!("a map") };
    fields
}

#[test]
fn a_call_without_a_reply_is_claimed_at_its_deadline_and_times_out() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        ask(&store, from, &["world.call"], EffectTerms::default()).await.unwrap();
        let effect = store.run(&claim_calls(&store, 1)).await.unwrap().output.effects.remove(0);
        let seq = place_of(&make(&store, effect.proof, to).await.unwrap());
        let early = store.run(&claim_calls(&store, 2)).await.unwrap().output;
        assert!(early.effects.is_empty() && early.next_retry_ns == Some(DEADLINE_NS));
        store.clock.advance(Duration::from_nanos(DEADLINE_NS));
        let late = store.run(&claim_calls(&store, 3)).await.unwrap().output.effects.remove(0);
        assert_eq!(late.claim.attempt, 1, "it waited, and was not tried again");
        assert_eq!(time_out(&store, late.proof).await, Failed::Answered(ReceiptStatus::Timeout));
        turn(&store, to, vec![reply(seq, 1)]).await.unwrap();
        assert_eq!(receipt(&store, from).await.status, ReceiptStatus::Timeout, "what comes later goes nowhere");
        assert!(is_gone(&store).await);
    });
}

/// Between the claim at the deadline and its receipt.
#[test]
fn a_reply_that_comes_while_the_deadline_is_dealt_with_wins_and_is_the_only_one() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        let effect = in_slot(&store, from).await;
        let seq = place_of(&make(&store, effect.proof, to).await.unwrap());
        store.clock.advance(Duration::from_nanos(DEADLINE_NS));
        let late = store.run(&claim_calls(&store, 3)).await.unwrap().output.effects.remove(0);
        turn(&store, to, vec![reply(seq, 1)]).await.unwrap();
        assert_eq!(time_out(&store, late.proof).await, Failed::Over);
        assert_eq!(receipt(&store, from).await.status, ReceiptStatus::Ok);
        assert!(is_gone(&store).await);
    });
}

#[test]
fn operators_bring_a_call_forward_cancel_and_answer_it() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        let operator = Operator { token: None, name: "ops".into() };
        let waiting = async |store: &Store| -> EffectPlace {
            let (universe, after, items_max) = (store.universe, None, 9);
            let list = ListEffects { universe, world: None, kind: None, stage: None, after, items_max };
            store.run(&list).await.unwrap().output.items.remove(0).place
        };
        for how in 0..3 {
            let effect = in_slot(&store, from).await;
            let first = make(&store, effect.proof, to).await.unwrap();
            let (universe, now_ns, place) = (store.universe, store.clock.now_ns(), waiting(&store).await);
            assert_eq!(place.stage, EffectStage::Waiting);
            match how {
                0 => {
                    assert!(store.run(&RetryEffect { universe, place, now_ns }).await.unwrap().output);
                    let again = store.run(&claim_calls(&store, 3)).await.unwrap().output.effects.remove(0);
                    let second = make(&store, again.proof, to).await.unwrap();
                    assert_eq!(second, Called::Waiting { seq: place_of(&first), already_enqueued: true });
                    turn(&store, to, vec![reply(place_of(&first), 1)]).await.unwrap();
                }
                1 => {
                    let (reason, operator) = ("no".to_owned(), operator.clone());
                    let cancel = CancelEffect { universe, place, reason, operator, now_ns };
                    assert!(store.run(&cancel).await.unwrap().output);
                }
                _ => {
                    let (world, intent, kind) = (from.world, effect.proof.intent, "world.call".to_owned());
                    let (payload, woken_by) = (Payload::Inline(vec![9]), WokenBy::ReadyQueue);
                    let (place, status, operator) = (Some(place), ReceiptStatus::Ok, operator.clone());
                    let answer = AnswerEffect {
                        universe,
                        world,
                        intent,
                        kind,
                        place,
                        status,
                        payload,
                        operator,
                        now_ns,
                        woken_by,
                    };
                    store.run(&answer).await.unwrap();
                }
            }
            if how > 0 {
                turn(&store, to, vec![reply(place_of(&first), 1)]).await.unwrap();
            }
            assert!(is_gone(&store).await, "{how}");
        }
        let statuses: Vec<_> =
            receipts(&store, from).await.unwrap().into_iter().map(|receipt| receipt.status).collect();
        assert_eq!(statuses, [ReceiptStatus::Ok, ReceiptStatus::Error, ReceiptStatus::Ok]);
    });
}

/// The note of a caller is removed with the name of its call, once the effect is over; and neither before.
#[test]
fn what_is_noted_of_a_caller_goes_with_the_name_of_its_call() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        let effect = in_slot(&store, from).await;
        make(&store, effect.proof, to).await.unwrap();
        let hours_later = async || {
            store.clock.advance(Duration::from_secs(3 * 3_600));
            expire_dedupe(&store.engine, &store.clock, store.universe).await.unwrap();
        };
        hours_later().await;
        assert_eq!(keys(&store, Family::OpenCall).await, 1, "the call is open");
        let late = store.run(&claim_calls(&store, 3)).await.unwrap().output.effects.remove(0);
        time_out(&store, late.proof).await;
        hours_later().await;
        hours_later().await;
        assert_eq!(keys(&store, Family::OpenCall).await, 0, "the destination never replied");
    });
}

#[test]
fn a_destination_that_takes_no_calls_is_refused_before_anything_is_enqueued() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        let effect = in_slot(&store, from).await;
        let (universe, world, now_ns) = (to.universe, to.world, store.clock.now_ns());
        store.run(&ArchiveWorld { universe, world, archived: true, now_ns }).await.unwrap();
        assert_eq!(make(&store, effect.proof, to).await.unwrap_err().code(), Code::WorldArchived);
        let nobody = Fence { world: WorldId::from_bytes([9; 16]), ..to };
        assert_eq!(make(&store, effect.proof, nobody).await.unwrap_err().code(), Code::WorldNotFound);
        assert_eq!(keys(&store, Family::OpenCall).await, 0);
        assert_eq!(keys(&store, Family::EffectInflight).await, 1, "the effect is in its slot still");
    });
}

#[test]
fn a_large_reply_is_a_reference_to_the_same_object() {
    block_on(async {
        let (store, from, to) = two_worlds().await;
        let blob = Payload::Blob(Hash::of(b"large"), 500_000);
        let effect = in_slot(&store, from).await;
        let seq = place_of(&make(&store, effect.proof, to).await.unwrap());
        let outcome = ReplyOutcome::Ok(blob.clone());
        turn(&store, to, vec![Body::Reply(Reply { to: seq, outcome })]).await.unwrap();
        assert_eq!(receipt(&store, from).await.payload, blob);
    });
}

/// A crash at every operation of the call and of the turn that replies, with each kind of trouble: then both are tried again. One receipt
/// is in the inbox, it is the reply, and nothing else is left.
#[test]
fn whatever_dies_between_a_call_and_its_reply_there_is_one_receipt() {
    async fn attempt(trouble: Option<(u64, Trouble)>) -> u64 {
        let (store, from, to) = two_worlds().await;
        let effect = in_slot(&store, from).await;
        store.engine.revive();
        if let Some((operation, trouble)) = trouble {
            store.engine.arm(operation, trouble);
        }
        let mut seq = None;
        for _ in 0..3 {
            match make(&store, effect.proof, to).await {
                Ok(called) => {
                    seq = Some(place_of(&called));
                    break;
                }
                Err(_) => store.engine.revive(),
            }
        }
        let seq = seq.expect("the call was made");
        let mut operations = store.engine.operations();
        let mut is_done = false;
        for _ in 0..3 {
            // A worker that lost its world reads the journal first.
            match turn(&store, to, vec![reply(seq, 1)]).await {
                Ok(_) => {
                    is_done = true;
                    break;
                }
                Err(_) => {
                    store.engine.revive();
                    if !receipts(&store, from).await.unwrap().is_empty() {
                        is_done = true; // it was applied without an answer
                        break;
                    }
                }
            }
        }
        operations = operations.max(store.engine.operations());
        assert!(is_done, "{trouble:?}");
        store.engine.revive();
        let receipt = receipt(&store, from).await;
        assert_eq!((receipt.status, receipt.payload), (ReceiptStatus::Ok, Payload::Inline(vec![1])), "{trouble:?}");
        assert!(is_gone(&store).await, "{trouble:?}");
        operations
    }
    block_on(async {
        let operations = attempt(None).await;
        assert!(operations > 10, "{operations}");
        for operation in 0..operations {
            for trouble in Trouble::ALL {
                attempt(Some((operation, trouble))).await;
            }
        }
    });
}
