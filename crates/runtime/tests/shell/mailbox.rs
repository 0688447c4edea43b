//! The order, names, priorities and claims of messages, and how a mailbox is read.

use crate::{SECOND, dead_letters, id, send, send_mail, start};
use bytes::Bytes;
use mundi_engine::{Engine, Transaction};
use mundi_model::{Code, Coded, Hash, cbor};
use mundi_runtime::{
    Plane,
    calls::Calls,
    control::Ops,
    shell::{Frame, FrameFlags, Report},
    testing::Rig,
};
use mundi_store::{
    Clock,
    keyspace::{
        mail_mark::{self, MailClass},
        queue::Queue,
    },
    protocol::{ClaimMail, ClaimedMail, Finish, FinishMail, MailClaimed, MailFinished, MailName, NewMail, SendMail},
};

#[test]
fn messages_are_done_in_their_order_and_leave_nothing_behind() {
    let rig = Rig::new(1);
    let (stop, done, report) = start(&rig, Report::new());
    send(&rig, &[(0, "a"), (0, "b")]);
    send(&rig, &[(0, "c")]);
    rig.executor.run_for(SECOND / 100);
    assert_eq!(*done.lock(), ["a", "b", "c"]);
    assert_eq!((report.snapshot().inbox_attempts, report.snapshot().successes), (3, 3));
    stop.request_stop();
    rig.executor.block_on(async move { stop.join().await });
    report.reset();
    assert_eq!(report.snapshot(), mundi_runtime::shell::Counters::default());
}

fn only(claimed: MailClaimed) -> ClaimedMail {
    let MailClaimed::Messages(mut messages) = claimed else { panic!("nothing to claim") };
    assert_eq!(messages.len(), 1);
    messages.remove(0)
}

/// Once it was forgotten an hour after the message was due, however often that was put off.
#[test]
fn the_name_of_a_message_stays_while_it_is_put_off() {
    const WINDOW_NS: u64 = 1_000;
    let rig = Rig::new(1);
    let acting = rig.clone();
    rig.executor.block_on(async move {
        let (plane, universe, worker) = (&acting.plane, acting.universe, id(1));
        let (name, began_ns) = (Hash::of(b"name"), plane.now_ns());
        let send = async |after_ns: u64| {
            let mail = NewMail { due_ns: began_ns + 1, urgent: false, name: Some(name), frame: Bytes::from("frame") };
            let (mail, now_ns, dedupe_window_ns) = (vec![mail], began_ns + after_ns, WINDOW_NS);
            plane.run(&SendMail { universe, worker, mail, now_ns, dedupe_window_ns }).await.unwrap().output
        };
        assert_eq!((send(0).await, send(WINDOW_NS / 2).await), (1, 0));
        let claim = ClaimMail { universe, worker, token: [1; 16], now_ns: began_ns + 10, ttl_ns: 1_000, items_max: 1 };
        let ClaimedMail { place, claim, .. } = only(plane.run(&claim).await.unwrap().output);
        let not_before_ns = began_ns + 10 * WINDOW_NS;
        let name = Some(MailName { name, expires_at_ns: not_before_ns + WINDOW_NS });
        let how = Finish::Requeue { not_before_ns, name };
        plane.run(&FinishMail { universe, worker, place, claim, how }).await.unwrap();
        assert_eq!(send(5 * WINDOW_NS).await, 0, "it is still on its way");
        assert_eq!(send(12 * WINDOW_NS).await, 1, "its window is over");
    });
}

/// Once claim and acknowledge took a worker id and no attempt token, and removed before they checked.
#[test]
fn a_slow_worker_cannot_finish_what_was_claimed_again() {
    let rig = Rig::new(1);
    send(&rig, &[(0, "one")]);
    let acting = rig.clone();
    rig.executor.block_on(async move {
        let (plane, universe, worker) = (&acting.plane, acting.universe, id(1));
        let claim = async |token: u8| {
            let now_ns = plane.now_ns();
            let claim = ClaimMail { universe, worker, token: [token; 16], now_ns, ttl_ns: 1_000, items_max: 1 };
            plane.run(&claim).await.unwrap().output
        };
        let ClaimedMail { place, claim: slow, .. } = only(claim(1).await);
        assert!(matches!(claim(2).await, MailClaimed::Nothing { next_ns: Some(_), .. }), "busy even to its own worker");
        plane.clock.sleep(SECOND).await;
        let quick = only(claim(3).await).claim;
        assert_eq!((slow.attempt, quick.attempt), (1, 2));
        let finish = async |claim, how| {
            plane.run(&FinishMail { universe, worker, place, claim, how }).await.map(|done| done.output)
        };
        for how in [Finish::Acknowledge, Finish::Requeue { not_before_ns: 0, name: None }] {
            assert_eq!(finish(slow, how).await.unwrap_err().code(), Code::MailClaimLost);
        }
        assert_eq!(finish(quick, Finish::Acknowledge).await.unwrap(), MailFinished::Now);
        assert_eq!(finish(quick, Finish::Acknowledge).await.unwrap(), MailFinished::Before);
    });
}

#[test]
fn several_messages_are_claimed_together_the_urgent_ones_before_the_others() {
    let rig = Rig::new(1);
    send(&rig, &[(0, "a"), (0, "b"), (0, "c")]);
    let mut urgent = Frame::command(id(1), b"first".to_vec(), b"first".to_vec());
    urgent.flags.high_priority = true;
    send_mail(&rig, vec![urgent.to_mail(0).unwrap()]);
    let acting = rig.clone();
    rig.executor.block_on(async move {
        let (universe, worker) = (acting.universe, id(1));
        for expected in [&["first"][..], &["a", "b"], &["c"], &[]] {
            let claim = ClaimMail { universe, worker, token: [1; 16], now_ns: 1_000, ttl_ns: 1_000, items_max: 2 };
            let claimed = match acting.plane.run(&claim).await.unwrap().output {
                MailClaimed::Messages(messages) => messages,
                MailClaimed::Nothing { .. } => Vec::new(),
            };
            let text = |mail: &ClaimedMail| {
                String::from_utf8(Frame::decode_for(worker, &mail.frame).unwrap().payload).unwrap()
            };
            assert_eq!(claimed.iter().map(text).collect::<Vec<_>>(), expected);
        }
    });
}

/// Once sequence numbers began again when a queue had run empty.
#[test]
fn a_mailbox_that_ran_empty_does_not_start_over() {
    let rig = Rig::new(1);
    let mut places = Vec::new();
    for n in 0..3u8 {
        send(&rig, &[(0, "x")]);
        let acting = rig.clone();
        places.push(rig.executor.block_on(async move {
            let (universe, worker) = (acting.universe, id(1));
            let claim = ClaimMail { universe, worker, token: [n; 16], now_ns: 1, ttl_ns: 1, items_max: 1 };
            let claimed = acting.plane.run(&claim).await.unwrap().output;
            let ClaimedMail { place, claim, .. } = only(claimed);
            let how = Finish::Acknowledge;
            acting.plane.run(&FinishMail { universe, worker, place, claim, how }).await.unwrap();
            place.seq
        }));
    }
    assert!(places.is_sorted_by(|a, b| a < b));
}

fn flagged(text: &str, flags: FrameFlags) -> NewMail {
    let frame = Frame::command(id(1), text.as_bytes().to_vec(), text.as_bytes().to_vec());
    Frame { flags, ..frame }.to_mail(0).unwrap()
}

#[test]
fn what_has_high_priority_is_done_first_and_a_name_is_taken_once() {
    let rig = Rig::new(1);
    let (urgent, named) = (
        FrameFlags { high_priority: true, ..FrameFlags::default() },
        FrameFlags { dedupe: true, ..FrameFlags::default() },
    );
    let plain = FrameFlags::default();
    let mail = [("a", plain), ("b", named), ("c", urgent), ("b", named), ("a", plain), ("d", urgent)];
    assert_eq!(send_mail(&rig, mail.map(|(text, flags)| flagged(text, flags)).into()), 5);
    assert_eq!(send_mail(&rig, vec![flagged("b", named)]), 0, "also by another send");
    let (_stop, done, _) = start(&rig, Report::new());
    rig.executor.run_for(SECOND);
    assert_eq!(*done.lock(), ["c", "d", "a", "b", "a"]);
    rig.executor.run_for(SECOND * 3_601);
    assert_eq!(send_mail(&rig, vec![flagged("b", named), flagged("e", named)]), 2, "until its window is over");
    rig.executor.run_for(SECOND);
    assert_eq!(done.lock().len(), 7);
}

/// In a log-structured tree what was done is a tombstone: a scan of the dead costs more than all other work together.
#[test]
fn a_mailbox_is_read_from_its_mark_and_never_from_its_prefix() {
    let rig = Rig::new(1);
    let (_stop, done, _) = start(&rig, Report::new());
    let now_ns = rig.executor.now_ns();
    for n in 0..50 {
        send(&rig, &[(0, "x"), (now_ns + n * 3_000_000_000, "t")]);
        rig.executor.run_for(SECOND * 3);
    }
    assert_eq!(done.lock().len(), 100);
    let looking = rig.clone();
    let marks = rig.executor.block_on(async move {
        let mut tx = looking.plane.engine.begin().await.unwrap();
        let mut marks = Vec::new();
        for class in [MailClass::AtOnce, MailClass::Timed] {
            let key = mail_mark::key(looking.universe, id(1), class);
            let bytes = tx.get(key.as_bytes()).await.unwrap().expect("a mark");
            marks.push(cbor::decode::<mail_mark::MailMark>(&bytes).unwrap());
        }
        marks
    });
    assert!(marks[1].due_ns >= now_ns + 48 * 3_000_000_000, "{marks:?}");
    // What is sent for a time that has passed lies where the next look begins.
    send(&rig, &[(now_ns, "late")]);
    rig.executor.run_for(SECOND);
    assert_eq!(done.lock().last().unwrap(), "late");
}

#[test]
fn a_dead_letter_of_a_mailbox_is_inspected_replayed_drained_or_dropped() {
    let rig = Rig::new(1);
    let (_stop, done, _) = start(&rig, Report::new());
    send(&rig, &[(0, "wrong"), (0, "wrong"), (0, "wrong")]);
    rig.executor.run_for(SECOND);
    let ops = Ops::new(rig.plane.clone(), rig.universe, Calls::default());
    let acting = ops.clone();
    let queue = Queue::Mailboxes;
    rig.executor.block_on(async move {
        let letters = acting.list_dead_letters(queue, None, None, 10).await.unwrap().items;
        assert_eq!(letters.len(), 3);
        let letter = acting.read_dead_letter(queue, letters[0].seq).await.unwrap();
        assert_eq!((letter.code.as_str(), letter.attempts, letter.worker), ("COMMAND_INVALID", 1, Some(id(1))));
        assert_eq!(Frame::decode(&letter.item).unwrap().payload, b"wrong");
        acting.replay_dead_letter(queue, letters[0].seq).await.unwrap();
        let again = acting.replay_dead_letter(queue, letters[0].seq).await.unwrap_err();
        assert_eq!(again.code(), Code::DeadLetterNotFound, "it is replayed once");
        acting.drop_dead_letter(queue, letters[1].seq).await.unwrap();
    });
    rig.executor.run_for(SECOND);
    assert_eq!(done.lock().len(), 4);
    assert_eq!(dead_letters(&rig).len(), 2, "the one that was left, and the one that failed again");
    rig.executor.block_on(async move {
        let mut seen = 0;
        let taken = ops
            .drain_dead_letters(queue, |letter| {
                seen += 1;
                std::future::ready(Frame::decode(&letter.letter.item).is_ok() && seen == 2)
            })
            .await;
        assert_eq!((taken.unwrap(), seen), (1, 2), "what is not taken stays");
        assert_eq!(ops.list_dead_letters(queue, None, None, 10).await.unwrap().items.len(), 1);
    });
}
