//! Mailboxes and dead letters.

use crate::{
    Store,
    effects::{TERMS, claim_of},
    everything, live, on_the_heap, survives, worker,
};
use bytes::Bytes;
use mundi_engine::{Engine, Transaction};
use mundi_model::{Code, Coded, Hash};
use mundi_store::{
    Fence,
    keyspace::{
        dead_letter::{self, DeadLetter},
        mailbox::MailPlace,
        queue::{Claim, Queue, QueueSeq},
    },
    protocol::{
        ClaimMail, DropDeadLetter, Finish, FinishMail, ListDeadLetters, ListTimers, MailClaimed, MailName, NewItem,
        NewMail, ReplayDeadLetter, SendMail, deliver_mail,
    },
    testing::{ask, named_event, set_timers},
};

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
