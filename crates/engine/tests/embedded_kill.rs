//! A real process is killed with `kill -9` while it commits; every commit that it reported is there.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test")]

use mundi_engine::{Embedded, Engine, RangeRead, Transaction, embedded::Options};
use pollster::block_on;
use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

const FOLDER: &str = "MUNDI_KILL_FOLDER";
const ROUND: &str = "MUNDI_KILL_ROUND";
const ROUNDS: u64 = 12;
const WRITERS: u64 = 6;

fn options() -> Options {
    Options { segment_bytes: 256 << 10, memtable_bytes: 128 << 10, ..Options::default() }
}

fn key(round: u64, writer: u64, number: u64) -> String {
    format!("{round:04}-{writer}-{number:08}")
}

/// Not a test by itself: the process that is killed. It writes a line for each acknowledged commit.
#[test]
fn the_process_that_is_killed() {
    let (Ok(folder), Ok(round)) = (std::env::var(FOLDER), std::env::var(ROUND)) else { return };
    let round: u64 = round.parse().unwrap();
    let engine = Embedded::open_with(folder, &options()).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let engine = &engine;
            scope.spawn(move || {
                for number in 0.. {
                    let key = key(round, writer, number);
                    let commit = async {
                        let mut tx = engine.begin().await?;
                        tx.put(key.as_bytes(), vec![1; 500])?;
                        tx.add(b"count", 1)?;
                        tx.commit().await
                    };
                    block_on(commit).unwrap();
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "acknowledged {key}").unwrap();
                    out.flush().unwrap();
                }
            });
        }
    });
}

/// Lets a process commit for a while, kills it, and returns what it had acknowledged.
fn run_and_kill(folder: &Path, round: u64) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_that_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    for line in lines.map_while(Result::ok) {
        // The first line shares its beginning with what the test harness prints.
        if let Some((_, key)) = line.split_once("acknowledged ") {
            acknowledged.push(key.to_owned());
        }
        if acknowledged.len() as u64 == 40 + round * 97 {
            child.kill().unwrap(); // what is still in the pipe was acknowledged, too, and is read on
        }
    }
    assert!(!child.wait().unwrap().success());
    acknowledged
}

#[test]
fn every_acknowledged_commit_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeSet::new();
    for round in 0..ROUNDS {
        acknowledged.extend(run_and_kill(folder.path(), round));
        let engine = Embedded::open_with(folder.path(), &options()).unwrap();
        let (found, count) = block_on(contents(&engine));
        let lost: Vec<_> = acknowledged.iter().filter(|key| !found.contains(*key)).collect();
        assert!(lost.is_empty(), "round {round}: lost {lost:?}");
        assert_eq!(count, found.len() as u64, "round {round}: a commit was applied in part, or twice");
        // At most one commit per writer and round was on its way.
        assert!(found.len() - acknowledged.len() <= ((round + 1) * WRITERS) as usize);
    }
}

async fn contents(engine: &Embedded) -> (BTreeSet<String>, u64) {
    let mut tx = engine.begin().await.unwrap();
    let (mut found, mut from) = (BTreeSet::new(), b"0".to_vec());
    loop {
        let page = tx.range(RangeRead::new(from, &b"9"[..], 10_000)).await.unwrap();
        found.extend(page.items.iter().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap()));
        match page.items.last() {
            Some((last, _)) if page.more => from = [&last[..], &[0]].concat(),
            _ => break,
        }
    }
    let count = tx.get(b"count").await.unwrap().unwrap();
    (found, u64::from_le_bytes(count[..].try_into().unwrap()))
}
