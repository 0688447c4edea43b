//! The embedded engine on a disk that fails: what was acknowledged stays, what was refused never shows,
//! and what was left open is there whole or not at all.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test")]

mod support;

use bytes::Bytes;
use mundi_engine::{
    CommitError, Embedded, Engine, RangeRead, Transaction,
    embedded::{
        Options,
        sim_disk::{Call, Dice, Fault, SimDisk},
    },
};
use mundi_model::{Code, Coded};
use pollster::block_on;
use std::{collections::BTreeMap, io::ErrorKind, path::Path, sync::Arc};

type State = BTreeMap<Bytes, Bytes>;

/// Tables and segments so small that every life writes files and changes segments.
fn open(folder: &Path, disk: &SimDisk) -> Embedded {
    let options = Options {
        segment_bytes: 16 << 10,
        memtable_bytes: 16 << 10,
        disk: Some(Arc::new(disk.clone())),
        ..Options::default()
    };
    Embedded::open_with(folder, &options).unwrap()
}

fn contents(engine: &Embedded) -> State {
    block_on(async {
        let mut tx = engine.begin().await.unwrap();
        let page = tx.range(RangeRead::new(&b""[..], &b"\xff"[..], 10_000)).await.unwrap();
        assert!(!page.more);
        page.items.into_iter().collect()
    })
}

/// One random transaction: what it would make of the state, and how its commit ended.
fn commit(engine: &Embedded, dice: &mut Dice, state: &State) -> (State, Result<(), CommitError>) {
    let mut after = state.clone();
    let outcome = block_on(async {
        let mut tx = engine.begin().await?;
        for _ in 0..=dice.below(4) {
            let key = Bytes::from(format!("key-{:02}", dice.below(40)));
            match dice.below(6) {
                0 => {
                    tx.delete(&key)?;
                    after.remove(&key);
                }
                1 => {
                    let counter = Bytes::from(format!("count-{}", dice.below(3)));
                    tx.add(&counter, 1)?;
                    let before =
                        after.get(&counter).map_or(0, |value| i64::from_le_bytes(value[..].try_into().unwrap()));
                    after.insert(counter, Bytes::copy_from_slice(&(before + 1).to_le_bytes()));
                }
                kind => {
                    if kind == 2 {
                        assert_eq!(tx.get(&key).await?.as_ref(), after.get(&key));
                    }
                    let value = Bytes::from(vec![dice.roll() as u8; dice.below(900) as usize]);
                    tx.put(&key, value.clone())?;
                    after.insert(key, value);
                }
            }
        }
        tx.commit().await.map(|_| ())
    });
    (after, outcome)
}

fn one_story(seed: u64) -> Result<(), String> {
    let folder = support::fast_folder();
    let mut dice = Dice::new(seed);
    let mut disk = SimDisk::new(seed);
    let mut engine = open(folder.path(), &disk);
    let mut state = State::new();
    for _ in 0..3 {
        let (mut faults, one_in) = (Dice::new(dice.roll()), 4 + dice.below(60));
        let kinds = [ErrorKind::StorageFull, ErrorKind::Other];
        disk.set_plan(Box::new(move |_, _| match faults.below(3 * one_in) {
            kind @ (0 | 1) => Some(Fault::Error(kinds[kind as usize])),
            2 => Some(Fault::Short),
            _ => None,
        }));
        let mut open_ends = Vec::new();
        for _ in 0..dice.below(60) {
            match commit(&engine, &mut dice, &state) {
                (after, Ok(())) => {
                    state = after;
                    open_ends.clear();
                }
                (after, Err(CommitError::Unknown(_))) => open_ends.push(after),
                (_, Err(_)) => {}
            }
            if contents(&engine) != state {
                return Err("a reader saw what was not acknowledged, or missed what was".to_owned());
            }
        }
        disk.set_plan(Box::new(|_, _| None));
        if dice.chance(2) {
            // Only the process crashes: what it wrote is there for the next one, synced or not.
            drop(engine);
            engine = open(folder.path(), &disk);
            state = settled(&engine, &state, &open_ends)?;
            open_ends.clear();
            if dice.chance(2) {
                let (after, outcome) = commit(&engine, &mut dice, &state);
                outcome.map_err(|error| error.to_string())?;
                state = after;
            }
        }
        disk = disk.crash();
        drop(engine);
        engine = open(folder.path(), &disk);
        state = settled(&engine, &state, &open_ends)?;
    }
    Ok(())
}

/// The contents of the engine, if they are the acknowledged commits, with or without the last one whose result is unknown.
fn settled(engine: &Embedded, state: &State, open_ends: &[State]) -> Result<State, String> {
    let found = contents(engine);
    if found == *state || open_ends.contains(&found) {
        return Ok(found);
    }
    Err(format!("{} keys where {} were acknowledged", found.len(), state.len()))
}

#[test]
fn acknowledged_commits_survive_failing_disks_and_crashes() {
    for seed in 0..support::seeds() / 10 {
        one_story(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

#[test]
fn a_full_disk_is_a_typed_error_reads_go_on_and_it_works_again_by_itself() {
    let folder = support::fast_folder();
    let disk = SimDisk::new(1);
    let engine = open(folder.path(), &disk);
    let mut dice = Dice::new(1);
    let (mut state, outcome) = commit(&engine, &mut dice, &State::new());
    outcome.unwrap();
    disk.set_plan(Box::new(|_, call| {
        matches!(call, Call::Write | Call::Create).then_some(Fault::Error(ErrorKind::StorageFull))
    }));
    for _ in 0..20 {
        let (_, outcome) = commit(&engine, &mut dice, &state);
        let error = outcome.unwrap_err();
        let cause = if let CommitError::Unknown(cause) = &error { cause.code() } else { error.code() };
        assert_eq!(cause, Code::DiskFull, "{error}");
        assert_eq!(contents(&engine), state);
    }
    disk.set_plan(Box::new(|_, _| None));
    for _ in 0..20 {
        let (after, outcome) = commit(&engine, &mut dice, &state);
        outcome.unwrap();
        state = after;
    }
    assert_eq!(contents(&engine), state);
    let disk = disk.crash();
    drop(engine);
    assert_eq!(contents(&open(folder.path(), &disk)), state);
}

#[test]
fn counters_and_readers_survive_a_commit_that_was_not_written() {
    let folder = support::fast_folder();
    let disk = SimDisk::new(3);
    let engine = open(folder.path(), &disk);
    let count = || {
        block_on(async {
            let mut tx = engine.begin().await?;
            tx.get(b"read").await?;
            tx.put(b"read", &b"x"[..])?;
            tx.add(b"count", 1)?;
            tx.commit().await
        })
    };
    count().unwrap();
    disk.set_plan(Box::new(|_, call| (call == Call::Write).then_some(Fault::Error(ErrorKind::StorageFull))));
    assert!(count().is_err() && count().is_err());
    disk.set_plan(Box::new(|_, _| None));
    count().unwrap();
    assert_eq!(contents(&engine)[&b"count"[..]][..], 2i64.to_le_bytes());
}

#[test]
fn each_call_while_a_folder_is_made_may_fail_and_the_next_attempt_succeeds() {
    let attempt = |failing: u64| {
        let folder = support::fast_folder();
        let disk = SimDisk::new(failing);
        disk.set_plan(Box::new(move |number, _| (number == failing).then_some(Fault::Error(ErrorKind::StorageFull))));
        let options = Options { segment_bytes: 16 << 10, disk: Some(Arc::new(disk.clone())), ..Options::default() };
        let first = Embedded::open_with(folder.path(), &options);
        let was_reached = disk.calls() > failing;
        drop(first);
        disk.set_plan(Box::new(|_, _| None));
        let (after, outcome) = commit(&open(folder.path(), &disk), &mut Dice::new(1), &State::new());
        outcome.unwrap_or_else(|error| panic!("after call {failing} failed: {error}"));
        let disk = disk.crash();
        assert_eq!(contents(&open(folder.path(), &disk)), after, "after call {failing} failed");
        was_reached
    };
    let failed = (0..).take_while(|&failing| attempt(failing)).count();
    assert!(failed > 20, "only {failed} calls");
}

#[test]
fn a_failed_sync_leaves_the_fate_open_and_the_engine_goes_on_without_the_commit() {
    let folder = support::fast_folder();
    let disk = SimDisk::new(2);
    let engine = open(folder.path(), &disk);
    let mut dice = Dice::new(2);
    let (state, outcome) = commit(&engine, &mut dice, &State::new());
    outcome.unwrap();
    let mut failed = false;
    disk.set_plan(Box::new(move |_, call| {
        let fails = call == Call::Sync && !std::mem::replace(&mut failed, true);
        fails.then_some(Fault::Error(ErrorKind::Other))
    }));
    let (_, outcome) = commit(&engine, &mut dice, &state);
    assert_eq!(outcome.unwrap_err().code(), Code::CommitUnknown);
    assert_eq!(contents(&engine), state);
    let (after, outcome) = commit(&engine, &mut dice, &state);
    outcome.unwrap();
    let disk = disk.crash();
    drop(engine);
    assert_eq!(contents(&open(folder.path(), &disk)), after);
}

/// How many write at a time, and how much.
#[derive(Clone, Copy)]
struct Crowd {
    writers: u64,
    writes: u64,
    attempts: u64,
}

/// Few commits with many writes.
const LARGE: Crowd = Crowd { writers: 4, writes: 40, attempts: 25 };
/// More commits waiting than it takes to leave the answers of a group to the answerer: threads take long to wake.
const MANY: Crowd = Crowd { writers: 80, writes: 2, attempts: 4 };

/// Rewrites all keys of a writer with the number of an attempt, and counts it.
fn commit_large(engine: &Embedded, writes: u64, writer: u64, attempt: u64) -> Result<(), CommitError> {
    block_on(async {
        let mut tx = engine.begin().await?;
        for number in 0..writes {
            tx.put(format!("{writer}-{number:02}").as_bytes(), attempt.to_le_bytes().to_vec())?;
        }
        tx.add(b"count", 1)?;
        tx.commit().await.map(|_| ())
    })
}

/// The attempt that all keys of a writer are of, if they are all of one; zero before the first.
fn attempt_of(state: &State, writes: u64, writer: u64) -> Result<u64, String> {
    let value = |number| state.get(format!("{writer}-{number:02}").as_bytes()).map(|value| &value[..]);
    let first = value(0);
    if (1..writes).any(|number| value(number) != first) {
        return Err(format!("a commit of writer {writer} is there in part"));
    }
    Ok(first.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap())))
}

/// Commits a few times, and looks after each. Returns the last attempt that was acknowledged, how many were, and the attempts
/// since whose fate was left open.
fn write_large(engine: &Embedded, crowd: Crowd, writer: u64) -> Result<(u64, i64, Vec<u64>), String> {
    let (mut acknowledged, mut count, mut open_ends) = (0, 0, Vec::new());
    for attempt in 1..=crowd.attempts {
        match commit_large(engine, crowd.writes, writer, attempt) {
            Ok(()) => (acknowledged, count, open_ends) = (attempt, count + 1, Vec::new()),
            Err(CommitError::Unknown(_)) => open_ends.push(attempt),
            Err(_) => {}
        }
        let seen = attempt_of(&contents(engine), crowd.writes, writer)?;
        if seen != acknowledged {
            return Err(format!("writer {writer} sees attempt {seen} where {acknowledged} was acknowledged"));
        }
    }
    Ok((acknowledged, count, open_ends))
}

fn story_of_a_crowd(seed: u64, crowd: Crowd) -> Result<(), String> {
    let folder = support::fast_folder();
    let disk = SimDisk::new(seed);
    let engine = open(folder.path(), &disk);
    let mut faults = Dice::new(seed);
    let one_in = 3 + faults.below(12);
    disk.set_plan(Box::new(move |_, call| {
        let fails = matches!(call, Call::Sync | Call::Write) && faults.below(one_in) == 0;
        fails.then_some(Fault::Error(ErrorKind::Other))
    }));
    let ends = std::thread::scope(|scope| {
        let engine = &engine;
        let writers = (0..crowd.writers).map(|writer| scope.spawn(move || write_large(engine, crowd, writer)));
        let writers: Vec<_> = writers.collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Result<Vec<_>, _>>()
    })?;
    let count =
        |state: &State| state.get(&b"count"[..]).map_or(0, |value| i64::from_le_bytes(value[..].try_into().unwrap()));
    let acknowledged: i64 = ends.iter().map(|(_, count, _)| count).sum();
    if count(&contents(&engine)) != acknowledged {
        return Err("a counter holds what was not acknowledged, or misses what was".to_owned());
    }
    disk.set_plan(Box::new(|_, _| None));
    let disk = disk.crash();
    drop(engine);
    let found = contents(&open(folder.path(), &disk));
    let mut more = 0;
    for (writer, (acknowledged, _, open_ends)) in (0..).zip(&ends) {
        let attempt = attempt_of(&found, crowd.writes, writer)?;
        if attempt != *acknowledged && !open_ends.contains(&attempt) {
            return Err(format!("writer {writer} finds attempt {attempt} where {acknowledged} was acknowledged"));
        }
        more += i64::from(attempt != *acknowledged);
    }
    if count(&found) != acknowledged + more {
        return Err("a counter and what it counts do not agree after a crash".to_owned());
    }
    Ok(())
}

#[test]
fn large_groups_of_many_writers_are_there_whole_or_not_at_all_when_the_disk_fails() {
    for seed in 0..support::seeds() / 50 {
        story_of_a_crowd(seed, LARGE).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

#[test]
fn many_writers_see_what_was_acknowledged_and_nothing_else_when_the_disk_fails() {
    for seed in 0..support::seeds() / 100 {
        story_of_a_crowd(seed, MANY).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}
