//! Transactions that begin with what their process remembers, in several processes that write the same keys.

#![cfg(feature = "testing")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test")]

use bytes::Bytes;
use mundi_engine::{
    CommitError, Engine, Postgres, Transaction,
    postgres::{
        Options,
        testing::{fresh_schema, shared},
    },
};
use mundi_model::Stamp;

async fn processes<const N: usize>() -> [Postgres; N] {
    let options = Options { schema: fresh_schema(), ..Options::default() };
    let mut opened = Vec::new();
    for _ in 0..N {
        opened.push(Postgres::open_with(shared().url(), options.clone()).await.unwrap());
    }
    opened.try_into().unwrap()
}

fn number(value: Option<&Bytes>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value[..].try_into().unwrap()))
}

/// Adds one to a key and says whether it was applied.
async fn increment(engine: &Postgres, key: &str) -> bool {
    let mut tx = engine.begin_from_memory().await.unwrap();
    let before = number(tx.get(key.as_bytes()).await.unwrap().as_ref());
    tx.put(key.as_bytes(), (before + 1).to_le_bytes().to_vec()).unwrap();
    match tx.commit().await {
        Ok(_) => true,
        Err(CommitError::Conflict) => false,
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost_between_processes_that_remember() {
    let engines = processes::<3>().await;
    let writers = engines.iter().flat_map(|engine| (0..4).map(move |writer| (engine.clone(), writer)));
    let tasks: Vec<_> = writers
        .map(|(engine, writer)| {
            tokio::spawn(async move {
                let mut applied = 0;
                for turn in 0..100 {
                    // Two keys are everyone's; the third is one process' own, and mostly remembered.
                    let key = ["a", "b", &format!("own {writer}")][(turn + writer) % 3].to_owned();
                    applied += u64::from(increment(&engine, &key).await);
                }
                applied
            })
        })
        .collect();
    let mut applied = 0;
    for task in tasks {
        applied += task.await.unwrap();
    }
    let (mut tx, mut sum) = (engines[0].begin().await.unwrap(), 0);
    for key in ["a", "b", "own 0", "own 1", "own 2", "own 3"] {
        sum += number(tx.get(key.as_bytes()).await.unwrap().as_ref());
    }
    assert_eq!(sum, applied);
    assert!(applied > 100, "{applied} of 1200: they do not get on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_process_has_changed_conflicts_although_it_is_remembered() {
    let [one, other] = processes::<2>().await;
    assert!(increment(&one, "key").await && increment(&one, "key").await);
    let mut remembering = one.begin_from_memory().await.unwrap();
    assert_eq!(number(remembering.get(b"key").await.unwrap().as_ref()), 2);
    let mut tx = other.begin().await.unwrap();
    tx.put(b"key", 7u64.to_le_bytes().to_vec()).unwrap();
    tx.commit().await.unwrap();
    remembering.put(b"elsewhere", "1").unwrap();
    assert!(matches!(remembering.commit().await, Err(CommitError::Conflict)), "write skew");
    while !increment(&one, "key").await {}
    let newest = one.begin().await.unwrap().get(b"key").await.unwrap();
    assert_eq!(number(newest.as_ref()), 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peeks_tell_the_newest_value_and_a_version_that_covers_it() {
    let [one, other] = processes::<2>().await;
    let long = vec![b'k'; 4_000];
    assert_eq!(one.peek(b"key").await.unwrap().0, None);
    for round in 0..20u64 {
        let mut tx = other.begin().await.unwrap();
        tx.put(b"key", round.to_le_bytes().to_vec()).unwrap();
        tx.put(&long, round.to_le_bytes().to_vec()).unwrap();
        let stamp = tx.commit().await.unwrap().stamp().unwrap();
        let peeks =
            futures_util::future::join_all([&b"key"[..], &long, b"missing", b"key"].map(|key| one.peek(key))).await;
        let peeks: Vec<_> = peeks.into_iter().map(Result::unwrap).collect();
        assert_eq!([0, 1, 3].map(|place| number(peeks[place].0.as_ref())), [round; 3]);
        assert_eq!(peeks[2].0, None);
        assert!(peeks.iter().all(|(_, version)| Stamp::new(*version, u16::MAX) >= stamp), "{peeks:?} after {stamp:?}");
    }
}
