//! Transactions that begin with what their process remembers, in several processes that write the same keys.

#![cfg(feature = "testing")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test")]

use bytes::Bytes;
use futures_util::FutureExt;
use mundi_engine::{
    CommitError, Engine, Postgres, RangeRead, Read, ReadPlan, Source, Transaction,
    postgres::{
        Options, PostgresTransaction,
        testing::{fresh_schema, shared},
    },
};
use mundi_model::{Code, Coded, Stamp};
use std::collections::BTreeSet;

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

/// A transaction that may be answered by what its process remembers.
async fn cached(engine: &Postgres, reads: impl IntoIterator<Item = Read> + Send) -> PostgresTransaction {
    let reads: Vec<_> = reads.into_iter().collect();
    engine.begin_planned(Source::Cache, || ReadPlan::reads(reads)).await.unwrap().unwrap()
}

/// One key of the newest state, and its version, read together with others.
async fn look(engine: &Postgres, key: &[u8]) -> (Option<Bytes>, u64) {
    let plan = || ReadPlan::reads([Read::get(key)]);
    let mut tx = engine.begin_planned(Source::SharedSnapshot, plan).await.unwrap().unwrap();
    (tx.get_snapshot(key).await.unwrap(), tx.version().await.unwrap())
}

/// Adds one to a key and says whether it was applied.
async fn increment(engine: &Postgres, key: &str) -> bool {
    let mut tx = cached(engine, []).await;
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
    let mut remembering = cached(&one, []).await;
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
async fn shared_reads_tell_the_newest_value_and_a_version_that_covers_it() {
    let [one, other] = processes::<2>().await;
    let long = vec![b'k'; 4_000];
    assert_eq!(look(&one, b"key").await.0, None);
    for round in 0..20u64 {
        let mut tx = other.begin().await.unwrap();
        tx.put(b"key", round.to_le_bytes().to_vec()).unwrap();
        tx.put(&long, round.to_le_bytes().to_vec()).unwrap();
        let stamp = tx.commit().await.unwrap().stamp().unwrap();
        let keys = [&b"key"[..], &long, b"missing", b"key"];
        let looks = futures_util::future::join_all(keys.map(|key| look(&one, key))).await;
        assert_eq!([0, 1, 3].map(|place| number(looks[place].0.as_ref())), [round; 3]);
        assert_eq!(looks[2].0, None);
        assert!(looks.iter().all(|(_, version)| Stamp::new(*version, u16::MAX) >= stamp), "{looks:?} after {stamp:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_read_together_with_others_conflicts_as_if_it_had_been_read_alone() {
    let [one, other] = processes::<2>().await;
    let cases = [("a", true), ("absent", true), ("m/5", true), ("m/7", true), ("b", false)];
    for (round, (changed, conflicts)) in cases.into_iter().enumerate() {
        // Keys of its own: a value cached in an earlier round may be stale, and would conflict for that reason.
        let key = |name: &str| format!("{round}/{name}");
        put(&other, &[&key("a"), &key("b"), &key("m/5")]).await;
        let range = RangeRead::prefix(key("m/").as_bytes(), 10);
        let planned = ["absent", "b"].map(|name| Read::get(key(name).as_bytes()));
        let mut tx = cached(&one, planned.into_iter().chain([Read::Range(range.clone())])).await;
        assert!(tx.get(key("a").as_bytes()).await.unwrap().is_some());
        assert_eq!(tx.get(key("absent").as_bytes()).await.unwrap(), None);
        assert_eq!(tx.range(range).await.unwrap().items.len(), 1);
        put(&other, &[&key(changed)]).await;
        tx.put(b"elsewhere", "1").unwrap();
        let committed = tx.commit().await;
        assert_eq!(matches!(committed, Err(CommitError::Conflict)), conflicts, "{changed}: {committed:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_plans_all_reads_the_newest_state_of_one_moment_and_nothing_else() {
    let [one, other] = processes::<2>().await;
    assert!(increment(&one, "key").await, "now this process remembers it");
    for round in 2..20u64 {
        let mut tx = other.begin().await.unwrap();
        tx.put(b"key", round.to_le_bytes().to_vec()).unwrap();
        tx.put(b"pair", round.to_le_bytes().to_vec()).unwrap();
        let stamp = tx.commit().await.unwrap().stamp().unwrap();
        let plan = || ReadPlan::reads([Read::get(b"key"), Read::get(b"pair")]);
        let mut tx = one.begin_planned(Source::SharedSnapshot, plan).await.unwrap().unwrap();
        assert_eq!(number(tx.get(b"key").await.unwrap().as_ref()), round, "it was acknowledged");
        assert!(Stamp::new(tx.version().await.unwrap(), u16::MAX) >= stamp);
        put(&other, &["elsewhere"]).await;
        assert_eq!(number(tx.get(b"pair").await.unwrap().as_ref()), round);
        let more = tx.get(b"not planned").await.unwrap_err();
        assert_eq!(more.code(), Code::TransactionTooOld, "{more}");
        if round % 2 == 0 {
            put(&other, &["pair"]).await;
        }
        tx.put(b"depends", "1").unwrap();
        let committed = tx.commit().await;
        assert_eq!(matches!(committed, Err(CommitError::Conflict)), round % 2 == 0, "{committed:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_process_expects_to_read_it_remembers_as_it_wrote_it() {
    let [one, other] = processes::<2>().await;
    let rereads = vec![Bytes::from("claim/"), Bytes::from("state")];
    let plan = || ReadPlan { rereads, ..ReadPlan::default() };
    let mut tx = one.begin_planned(Source::OwnSnapshot, plan).await.unwrap().unwrap();
    tx.put_stamped(b"claim/", b"!", "held").unwrap();
    tx.put(b"state", "open").unwrap();
    tx.put(b"stat", "nobody asks").unwrap();
    let stamp = tx.commit().await.unwrap().stamp().unwrap();
    let claim = [b"claim/", &stamp.as_bytes()[..], b"!"].concat();
    // What is remembered is there at once; what is not takes a round trip.
    let recalled = async |key: &[u8]| cached(&one, []).await.get(key).now_or_never().map(Result::unwrap);
    assert_eq!(recalled(&claim).await, Some(Some(Bytes::from_static(b"held"))));
    assert_eq!(recalled(b"state").await, Some(Some(Bytes::from_static(b"open"))));
    assert_eq!(recalled(b"stat").await, None);
    // Taken away by another process: what is remembered does not commit.
    let mut tx = cached(&one, []).await;
    assert!(tx.get(&claim).await.unwrap().is_some());
    let mut taken = other.begin().await.unwrap();
    taken.delete(&claim).unwrap();
    taken.commit().await.unwrap();
    tx.put(b"state", "answered").unwrap();
    assert!(matches!(tx.commit().await, Err(CommitError::Conflict)));
}

async fn put(engine: &Postgres, keys: &[&str]) {
    let mut tx = engine.begin().await.unwrap();
    keys.iter().for_each(|key| tx.put(key.as_bytes(), "1").unwrap());
    tx.commit().await.unwrap();
}

/// Groups take values of counters from memory, if nobody else has touched them; and commits join that nobody has asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn additions_of_many_processes_all_count_and_deleted_ranges_are_empty() {
    let engines = processes::<3>().await;
    let writers = engines.iter().enumerate().flat_map(|(process, engine)| (0..8).map(move |n| (process, engine, n)));
    let tasks: Vec<_> = writers
        .map(|(process, engine, writer)| {
            let engine = engine.clone();
            tokio::spawn(async move {
                for turn in 0..40 {
                    let mut tx = engine.begin().await.unwrap();
                    tx.add(b"count/all", 1).unwrap();
                    tx.add(format!("count/{process}").as_bytes(), 1).unwrap();
                    tx.add(format!("count/{}", (writer + turn) % 5 + 10).as_bytes(), 1).unwrap();
                    tx.put_stamped(b"queue/", &[writer], "").unwrap();
                    if turn % 10 == 9 {
                        tx.delete_range(b"queue/", b"queue0").unwrap();
                    }
                    tx.commit().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut tx = engines[0].begin().await.unwrap();
    assert_eq!(number(tx.get(b"count/all").await.unwrap().as_ref()), 3 * 8 * 40);
    for process in 0..3 {
        assert_eq!(number(tx.get(format!("count/{process}").as_bytes()).await.unwrap().as_ref()), 8 * 40);
    }
    let mut spread = 0;
    for n in 10..15 {
        spread += number(tx.get(format!("count/{n}").as_bytes()).await.unwrap().as_ref());
    }
    assert_eq!(spread, 3 * 8 * 40);
    // Every writer ends with a deletion, so the last commit of all has left nothing but its own item.
    assert_eq!(tx.range(RangeRead::prefix(b"queue/", 1_000)).await.unwrap().items.len(), 1);
}

/// By which connections the groups of late were committed.
async fn note_committers(client: &tokio_postgres::Client, schema: &str, seen: &mut BTreeSet<i32>) -> usize {
    let by = format!("SELECT DISTINCT by FROM {schema}.commits WHERE by IS NOT NULL");
    seen.extend(client.query(&by, &[]).await.unwrap().iter().map(|row| row.get::<_, i32>(0)));
    seen.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_move_to_a_thread_of_their_own_and_back_and_none_is_lost() {
    let schema = fresh_schema();
    let engine = Postgres::open_with(shared().url(), Options { schema: schema.clone(), ..Options::default() }).await;
    let engine = engine.unwrap();
    let (client, line) = tokio_postgres::connect(shared().url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(line);
    let noted = "ADD COLUMN by integer, ALTER COLUMN by SET DEFAULT pg_backend_pid()";
    client.batch_execute(&format!("ALTER TABLE {schema}.commits {noted}")).await.unwrap();
    let (mut seen, mut rounds, mut lone) = (BTreeSet::new(), 0, 0);
    while note_committers(&client, &schema, &mut seen).await < 2 {
        lone += u64::from(increment(&engine, "lone").await);
        let crowd = (0..64).map(|writer| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let mut applied = 0;
                for _ in 0..100 {
                    applied += u64::from(increment(&engine, &format!("crowd {writer}")).await);
                }
                applied
            })
        });
        for writer in crowd.collect::<Vec<_>>() {
            assert_eq!(writer.await.unwrap(), 100, "they share no key");
        }
        rounds += 1;
        assert!(rounds < 100, "a crowd does not move it");
    }
    while note_committers(&client, &schema, &mut seen).await < 3 {
        assert!(lone < 10_000, "a lone one does not move it back");
        for _ in 0..100 {
            lone += u64::from(increment(&engine, "lone").await);
        }
    }
    let mut tx = engine.begin().await.unwrap();
    assert_eq!(number(tx.get(b"lone").await.unwrap().as_ref()), lone);
    for writer in 0..64 {
        assert_eq!(number(tx.get(format!("crowd {writer}").as_bytes()).await.unwrap().as_ref()), 100 * rounds);
    }
}
