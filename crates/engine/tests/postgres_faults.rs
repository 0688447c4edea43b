//! The engine on PostgreSQL when lines are cut, servers restart, and processes are suspended.

#![cfg(feature = "testing")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test")]

#[path = "support/proxy.rs"]
mod proxy;

use bytes::Bytes;
use futures_util::FutureExt;
use mundi_engine::{
    CommitError, Committed, Engine, EngineError, Postgres, RangeRead, Transaction,
    postgres::{
        Options, TABLES_VERSION,
        testing::{Server, fresh_schema, shared},
    },
};
use mundi_model::{Code, Coded};
use proxy::{Act, Proxy};
use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

fn in_schema(schema: &str) -> Options {
    Options { schema: schema.to_owned(), ..Options::default() }
}

async fn put(engine: &Postgres, key: &str) -> Result<Committed, CommitError> {
    let mut tx = engine.begin().await?;
    tx.put(key.as_bytes(), "1")?;
    tx.commit().await
}

async fn get(engine: &Postgres, key: &str) -> Option<Bytes> {
    engine.begin().await.unwrap().get(key.as_bytes()).await.unwrap()
}

fn port_of(url: &str) -> u16 {
    url.rsplit(':').next().and_then(|rest| rest.split('/').next()).unwrap().parse().unwrap()
}

/// An engine behind a line that can be cut, and one beside it.
async fn two_engines() -> (Proxy, Postgres, Postgres) {
    let (proxy, schema) = (Proxy::to(port_of(shared().url())).await, fresh_schema());
    let behind = Postgres::open_with(&proxy.url(), in_schema(&schema)).await.unwrap();
    let beside = Postgres::open_with(shared().url(), in_schema(&schema)).await.unwrap();
    (proxy, behind, beside)
}

/// The message by which a commit group ends.
fn ends_a_group(message: &[u8]) -> bool {
    message.windows(7).any(|window| window == b"COMMIT\0")
}

/// The message by which a group of one trip begins and ends.
fn is_a_group(message: &[u8]) -> bool {
    ends_a_group(message) && message.windows(11).any(|window| window == b"READ WRITE\0")
}

/// Does this to the first message that is meant, and nothing afterwards; tells when it is done.
fn once(proxy: &Proxy, is_meant: fn(&[u8]) -> bool, act: Act) -> Arc<AtomicBool> {
    let done = Arc::new(AtomicBool::new(false));
    let doing = done.clone();
    proxy.decide(move |message| if is_meant(message) && !doing.swap(true, Ordering::SeqCst) { act } else { Act::Pass });
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_cut_in_the_commit_leaves_its_fate_unknown() {
    let (proxy, behind, beside) = two_engines().await;
    for (act, key) in [(Act::CutBefore, "never arrived"), (Act::CutAfter, "arrived")] {
        // A process that is not alone asks before it writes, so that its COMMIT is a message of its own.
        put(&beside, "before").await.unwrap();
        put(&behind, "before").await.unwrap();
        once(&proxy, ends_a_group, act);
        let fate = put(&behind, key).await;
        assert!(matches!(fate, Err(CommitError::Unknown(_))), "{act:?}: {fate:?}");
        put(&behind, "after").await.expect("the next commit takes a new line");
    }
    assert!(get(&beside, "arrived").await.is_some(), "it was applied");
    assert!(get(&beside, "never arrived").await.is_none());
    let stamps: Vec<_> = [put(&beside, "x").await, put(&behind, "y").await].map(|at| at.unwrap().stamp()).into();
    assert!(stamps.is_sorted());
}

async fn count(engine: &Postgres) -> Result<Committed, CommitError> {
    let mut tx = engine.begin().await?;
    tx.add(b"count", 1)?;
    tx.commit().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_of_one_trip_whose_line_is_cut_is_applied_once_or_its_fate_is_unknown() {
    let (proxy, behind, beside) = two_engines().await;
    let (mut acknowledged, mut unknown) = (0, 0);
    for round in 0..12 {
        for _ in 0..3 {
            count(&behind).await.unwrap(); // in the first one it hears of what it lost the round before; from the third on it is alone
            acknowledged += 1;
        }
        let is_cut = once(&proxy, is_a_group, if round % 2 == 0 { Act::CutBefore } else { Act::CutAfter });
        let mut fate = count(&behind).await;
        // As a rule: a process that learns of its own commit from the database first asks once more.
        for _ in 0..30 {
            if is_cut.load(Ordering::SeqCst) {
                break;
            }
            fate.unwrap();
            acknowledged += 1;
            fate = count(&behind).await;
        }
        assert!(is_cut.load(Ordering::SeqCst), "round {round}: it never tried in one trip");
        match fate {
            Ok(_) => acknowledged += 1,
            Err(CommitError::Unknown(_)) if round % 2 == 1 => unknown += 1,
            other => panic!("round {round}: {other:?}"),
        }
        let counted = get(&beside, "count").await.map(|value| u64::from_le_bytes(value[..].try_into().unwrap()));
        let counted = counted.unwrap();
        assert!((acknowledged..=acknowledged + unknown).contains(&counted), "{counted}: {acknowledged}, {unknown}");
        (acknowledged, unknown) = (counted, 0); // an unknown one was applied by now, or never will be
    }
}

/// Once the group that was refused left its session in a transaction that had failed: the next one found it of no use, and each time
/// that someone else had committed a new connection was made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_not_alone_any_more_commits_on_the_line_that_it_has() {
    let (proxy, behind, beside) = two_engines().await;
    put(&behind, "first").await.unwrap();
    let lines = Arc::new(AtomicUsize::new(0));
    let (counting, asks_for_itself) = (lines.clone(), b"pg_backend_pid");
    proxy.decide(move |message| {
        let made = message.windows(asks_for_itself.len()).filter(|window| window == asks_for_itself).count();
        counting.fetch_add(made, Ordering::SeqCst);
        Act::Pass
    });
    for _ in 0..10 {
        for _ in 0..3 {
            put(&behind, "own").await.unwrap(); // from the third on it is alone
        }
        put(&beside, "other").await.unwrap();
        put(&behind, "refused at first").await.unwrap();
    }
    assert_eq!(lines.load(Ordering::SeqCst), 0, "connections were made although none was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_cut_before_the_commit_costs_nothing() {
    let (proxy, behind, _) = two_engines().await;
    put(&behind, "before").await.unwrap();
    for round in 0..5 {
        proxy.cut();
        tokio::time::sleep(Duration::from_millis(50)).await; // until it is: cut in the middle of the commit, its fate is unknown
        let key = format!("round {round}");
        // Surely not applied, or applied: never unknown, because nothing was in progress.
        let fate = put(&behind, &key).await;
        assert!(matches!(fate, Ok(_) | Err(CommitError::Conflict)), "{fate:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_whose_line_is_cut_is_run_again() {
    let (proxy, behind, beside) = two_engines().await;
    put(&beside, "a").await.unwrap();
    let mut tx = behind.begin().await.unwrap();
    tx.get(b"a").await.unwrap();
    proxy.cut();
    let lost = loop {
        if let Err(lost) = tx.get(b"b").await {
            break lost; // the cut takes a moment to be noticed
        }
    };
    assert_eq!(lost.code(), Code::TransactionTooOld, "{lost}");
    tx.put(b"c", "1").unwrap();
    assert!(matches!(tx.commit().await, Err(CommitError::Conflict)));
    assert!(get(&behind, "a").await.is_some(), "the next one takes a new line");
    assert!(get(&beside, "c").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_stands_still_with_the_head_locked_does_not_stop_the_fleet() {
    let (schema, proxy) = (fresh_schema(), Proxy::to(port_of(shared().url())).await);
    let behind = Postgres::open_with(&proxy.url(), in_schema(&schema)).await.unwrap();
    let beside = Postgres::open_with(shared().url(), in_schema(&schema)).await.unwrap();
    let (client, line) = tokio_postgres::connect(shared().url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(line);
    let held = format!(
        "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
         WHERE relation = '{schema}.head'::regclass AND granted AND state = 'idle in transaction'"
    );
    // It holds the lock once it can be seen to: nobody else gets it at once. On a busy machine the server may come first.
    let standing = 'seen: loop {
        once(&proxy, ends_a_group, Act::Hold);
        let behind = behind.clone();
        let standing = tokio::spawn(async move { put(&behind, "held").await });
        while !standing.is_finished() {
            if client.query_one(&held, &[]).await.unwrap().get::<_, i64>(0) > 0 {
                break 'seen standing;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), put(&beside, "free")).await.expect("not for ever").unwrap();
    // The server has said so to the one that was suspended, too; a connection that breaks before that would leave the result unknown.
    let fate = tokio::time::timeout(Duration::from_secs(60), standing).await.expect("it is told").unwrap();
    assert!(matches!(fate, Err(CommitError::Engine(EngineError::DatabaseUnavailable { .. }))), "{fate:?}");
    assert!(get(&beside, "held").await.is_none(), "the server took the lock away, and with it the group");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_that_start_at_once_make_the_tables_once() {
    let schema = fresh_schema();
    let opening = (0..10).map(|_| {
        let options = in_schema(&schema);
        tokio::spawn(async move { Postgres::open_with(shared().url(), options).await })
    });
    let opening: Vec<_> = opening.collect();
    for (number, opened) in opening.into_iter().enumerate() {
        let engine = opened.await.unwrap().expect("all of them");
        put(&engine, &format!("{number}")).await.unwrap();
    }
    let engine = Postgres::open_with(shared().url(), in_schema(&schema)).await.unwrap();
    let page = engine.begin().await.unwrap().range(RangeRead::prefix(b"", 100)).await.unwrap();
    assert_eq!(page.items.len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_a_newer_program_are_not_touched() {
    let schema = fresh_schema();
    drop(Postgres::open_with(shared().url(), in_schema(&schema)).await.unwrap());
    let (client, line) = tokio_postgres::connect(shared().url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(line);
    client.batch_execute(&format!("UPDATE {schema}.tables SET version = {}", TABLES_VERSION + 1)).await.unwrap();
    let refused = Postgres::open_with(shared().url(), in_schema(&schema)).await.unwrap_err();
    assert_eq!(refused.code(), Code::DatabaseVersion, "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_server_loses_nothing_and_needs_none_of_ours() {
    let server = Server::start(&[]);
    let engine = Postgres::open(&server.url()).await.unwrap();
    let watched = tokio::spawn(engine.watch(b"watched", None));
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4).map(|writer| tokio::spawn(write_on(engine.clone(), writer, stop.clone()))).collect();
    for mode in ["immediate", "fast"] {
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.down(mode);
        server.up();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    stop.store(true, Ordering::SeqCst);
    let mut acknowledged = 0;
    for writer in writers {
        for key in writer.await.unwrap() {
            assert!(get(&engine, &key).await.is_some(), "{key} was acknowledged, and is lost");
            acknowledged += 1;
        }
    }
    assert!(acknowledged > 0);
    put(&engine, "watched").await.unwrap();
    watched.await.unwrap().expect("a watch outlives the restart");
}

/// Commits again and again, as a retry loop does; the keys that were acknowledged.
async fn write_on(engine: Postgres, writer: u32, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let key = format!("{writer}-{number}");
        match put(&engine, &key).await {
            Ok(_) => acknowledged.push(key),
            Err(CommitError::Conflict | CommitError::Unknown(_)) => {}
            Err(CommitError::Engine(EngineError::DatabaseUnavailable { .. })) => {}
            Err(other) => panic!("{other}"),
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_nobody_announced_is_found_by_looking() {
    let schema = fresh_schema();
    let engine = Postgres::open_with(shared().url(), in_schema(&schema)).await.unwrap();
    put(&engine, "other").await.unwrap();
    let mut watch = Box::pin(engine.watch(b"silent", None));
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut watch).await.is_err(), "there is nothing yet");
    let (client, line) = tokio_postgres::connect(shared().url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(line);
    // What a commit of another process does, but for the notification.
    let footprint = [&[0, 0, 0, 6][..], b"silent"].concat();
    client.execute(&format!("INSERT INTO {schema}.kv VALUES ($1, $2)"), &[&&b"silent"[..], &&b"1"[..]]).await.unwrap();
    client.execute(&format!("INSERT INTO {schema}.commits VALUES (2, $1)"), &[&footprint]).await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), watch).await.expect("it is found").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_nobody_asks_about_keep_no_connection_from_others() {
    let options = Options { connections_max: 2, ..in_schema(&fresh_schema()) };
    let engine = Postgres::open_with(shared().url(), options).await.unwrap();
    put(&engine, "a").await.unwrap();
    let mut watches: Vec<_> = (0..50).map(|_| Box::pin(engine.watch(b"never", None))).collect();
    for watch in &mut watches {
        assert!(watch.now_or_never().is_none()); // begun, and left alone in the middle of its look
    }
    for round in 0..20 {
        let mut tx = engine.begin().await.unwrap();
        tx.get(b"a").await.expect("there is a connection");
        tx.put(format!("{round}").as_bytes(), "1").unwrap();
        tx.commit().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_that_nobody_looks_after_lose_their_connection_to_those_who_wait() {
    let options = Options { connections_max: 2, ..in_schema(&fresh_schema()) };
    let engine = Postgres::open_with(shared().url(), options).await.unwrap();
    put(&engine, "a").await.unwrap();
    let (mut one, mut other) = (engine.begin().await.unwrap(), engine.begin().await.unwrap());
    one.get(b"a").await.unwrap();
    other.get(b"a").await.unwrap();
    other.put(b"committed", "1").unwrap();
    for _ in 0..2 {
        let mut waiting = engine.begin().await.unwrap();
        waiting.get(b"a").await.expect("one of theirs is taken");
    }
    let lost = one.get(b"b").await.unwrap_err();
    assert_eq!(lost.code(), Code::TransactionTooOld, "{lost}");
    other.commit().await.expect("what was read is still known to be unchanged");
    assert!(get(&engine, "committed").await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_that_nobody_polls_while_they_wait_for_a_connection_do_not_keep_it_from_others() {
    let options = Options { connections_max: 2, ..in_schema(&fresh_schema()) };
    let engine = Postgres::open_with(shared().url(), options).await.unwrap();
    put(&engine, "key").await.unwrap();
    // Each asks once, and is then left alone: when its turn comes, nobody takes it.
    let mut forgotten: Vec<_> = (0..8)
        .map(|_| {
            let engine = engine.clone();
            Box::pin(async move { get(&engine, "key").await })
        })
        .collect();
    for read in &mut forgotten {
        assert!(read.now_or_never().is_none());
    }
    for _ in 0..4 {
        assert!(get(&engine, "key").await.is_some(), "what they were given is taken back");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_no_index_holds_stand_in_their_place() {
    let engine = Postgres::open_with(shared().url(), in_schema(&fresh_schema())).await.unwrap();
    // Bytes that do not compress, of the longest key and of ones around what an index holds.
    let mut state = 1u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8 & 0x7f
    };
    let mut keys: Vec<Vec<u8>> = [9_900, 9_899, 2_704, 2_001, 2_000, 1_999, 5]
        .into_iter()
        .flat_map(|len| (0..4).map(move |_| len).collect::<Vec<_>>())
        .map(|len| (0..len).map(|_| noise()).collect())
        .collect();
    let sibling = [&keys[0][..9_898], b"zz"].concat(); // differs where no index looks
    keys.push(sibling);
    let mut tx = engine.begin().await.unwrap();
    for key in &keys {
        tx.put(key, key[..3].to_vec()).unwrap();
        tx.add(&[&key[..], b""].concat()[..key.len().min(9_000)], 0).unwrap();
    }
    tx.commit().await.unwrap();
    let mut sorted = keys.clone();
    sorted.extend(keys.iter().filter(|key| key.len() > 9_000).map(|key| key[..9_000].to_vec()));
    sorted.sort();
    sorted.dedup();
    for reverse in [false, true] {
        let read = RangeRead::prefix(b"", 1_000);
        let read = if reverse { read.reverse() } else { read };
        let page = engine.begin().await.unwrap().range(read).await.unwrap();
        let mut found: Vec<Vec<u8>> = page.items.iter().map(|(key, _)| key.to_vec()).collect();
        if reverse {
            found.reverse();
        }
        assert!(found == sorted, "{} of {} keys, in order", found.len(), sorted.len());
    }
    for key in &sorted {
        let mut tx = engine.begin().await.unwrap();
        assert!(tx.get(key).await.unwrap().is_some());
        tx.delete(key).unwrap();
        tx.commit().await.unwrap();
    }
    let mut tx = engine.begin().await.unwrap();
    assert!(tx.range(RangeRead::prefix(b"", 10)).await.unwrap().items.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_database_is_told_apart() {
    let code = |url: String| async move { Postgres::open(&url).await.unwrap_err().code() };
    let base = shared().url().to_owned();
    assert_eq!(
        code(base.replace("/postgres", "/nowhere").replace("postgres:/nowhere", "postgres:/")).await,
        Code::DatabaseInvalid
    );
    assert_eq!(code(base.replace("mundi@", "nobody@")).await, Code::DatabaseInvalid);
    assert_eq!(code(format!("{base}?sslmode=require")).await, Code::DatabaseInvalid, "this server has no TLS");
    assert_eq!(code("postgres://mundi@127.0.0.1:1/postgres".to_owned()).await, Code::DatabaseUnavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_asked_for_as_the_url_says() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=elsewhere"])
        .args([
            "-addext",
            "subjectAltName=DNS:elsewhere",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            "key.pem",
            "-out",
            "root.pem",
        ])
        .current_dir(folder.path())
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        eprintln!("openssl is not installed: TLS was not tried");
        return;
    }
    let server = Server::prepare(&["-c ssl=on -c ssl_cert_file=root.pem -c ssl_key_file=key.pem"]);
    for name in ["root.pem", "key.pem"] {
        server.write(name, &std::fs::read(folder.path().join(name)).unwrap());
    }
    server.up();
    let root = folder.path().join("root.pem").display().to_string();
    let url = |options: &str| format!("{}?{options}", server.url());
    for good in ["sslmode=require".to_owned(), format!("sslmode=verify-ca&sslrootcert={root}")] {
        let engine = Postgres::open(&url(&good)).await.unwrap_or_else(|error| panic!("{good}: {error}"));
        put(&engine, "k").await.unwrap();
    }
    let of_the_host = format!(
        "postgres://mundi@elsewhere:{}/postgres?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={root}",
        server.port()
    );
    Postgres::open(&of_the_host).await.expect("the name is the certificate's");
    for bad in [format!("sslmode=verify-full&sslrootcert={root}"), "sslmode=verify-ca".to_owned()] {
        let refused = Postgres::open(&url(&bad)).await.expect_err("nobody vouches for it");
        assert_eq!(refused.code(), Code::DatabaseInvalid, "{bad}: {refused}");
    }
}
