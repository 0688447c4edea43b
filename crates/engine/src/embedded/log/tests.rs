//! The log on a faulty disk: whatever happens, what was acknowledged is there, in order, and nothing else
//! but perhaps the one frame whose fate was left open.

#![allow(clippy::cast_possible_truncation, reason = "a test")]

use super::{
    super::sim_disk::{Call, Dice, Fault, SimDisk},
    Log,
    frame::{self, FrameBuilder},
    recover,
};
use crate::EngineError;
use mundi_model::{Code, Coded};
use std::{io::ErrorKind, sync::Arc};

const SEGMENT_BYTES: u64 = 4096 * 3;

/// How many seeds to try; `MUNDI_SEEDS` asks for more.
fn seeds(usual: u64) -> u64 {
    std::env::var("MUNDI_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(usual)
}

/// A log with a memory of what it promised.
struct Story {
    disk: SimDisk,
    log: Log,
    dice: Dice,
    /// The content of every acknowledged frame; version 1 is at index 0.
    acknowledged: Vec<u64>,
    /// Contents that may have been written as the next version.
    open: Vec<u64>,
    retired: u64,
    next_content: u64,
}

impl Story {
    fn begin(seed: u64) -> Self {
        let disk = SimDisk::new(seed);
        let log = Log::create(Arc::new(disk.clone()), SEGMENT_BYTES, 1).unwrap();
        let dice = Dice::new(seed ^ 0xabcd);
        Self { disk, log, dice, acknowledged: Vec::new(), open: Vec::new(), retired: 0, next_content: 0 }
    }

    fn append(&mut self) {
        let content = self.next_content;
        self.next_content += 1;
        let len = match self.dice.below(20) {
            0 => self.dice.below(3 * SEGMENT_BYTES),
            _ => self.dice.below(600),
        };
        let prepared = self.log.prepare(|place| {
            let mut builder = FrameBuilder::with_capacity(0);
            builder.write(&content.to_be_bytes(), Some(&vec![content as u8; len as usize]));
            builder.finish(place)
        });
        match prepared.map(|prepared| self.log.append(prepared)) {
            Ok(Ok(())) => {
                self.acknowledged.push(content);
                self.open.clear();
            }
            Ok(Err(_)) => self.open.push(content),
            Err(_) => {}
        }
    }

    fn retire(&mut self) {
        let persisted = self.retired + self.dice.below(self.acknowledged.len() as u64 + 1 - self.retired);
        self.retired = persisted;
        let _later = self.log.retire(persisted);
        let _no_spare = self.log.prepare_spare();
    }

    /// One thing that may happen. A process that is killed leaves the page cache behind, synced or not.
    fn step(&mut self) -> Result<(), String> {
        match self.dice.below(24) {
            0 | 1 => self.retire(),
            2 => return self.kill(),
            _ => self.append(),
        }
        Ok(())
    }

    /// The process is killed, and another one opens the folder on the same machine, whose disk behaves.
    fn kill(&mut self) -> Result<(), String> {
        self.disk.set_plan(Box::new(|_, _| None));
        self.reopen()
    }

    /// The power fails and comes back.
    fn crash(&mut self) -> Result<(), String> {
        self.disk = self.disk.crash();
        self.reopen()
    }

    fn reopen(&mut self) -> Result<(), String> {
        let acknowledged = self.acknowledged.len() as u64;
        let recovered = recover(Arc::new(self.disk.clone()), SEGMENT_BYTES, acknowledged)
            .map_err(|error| format!("refused: {error}"))?
            .ok_or("the log is gone")?;
        if recovered.first_version > self.retired + 1 {
            return Err(format!("it begins at {} though only {} was retired", recovered.first_version, self.retired));
        }
        let from = recovered.first_version;
        for (frame, version) in recovered.frames_above(from - 1).zip(from..) {
            let frame = frame.map_err(|error| error.to_string())?;
            let writes = frame::writes(&frame);
            let (key, _) = writes.first().ok_or("an empty frame")?;
            let content = u64::from_be_bytes(key[..].try_into().map_err(|_| "a strange key")?);
            match self.acknowledged.get(version as usize - 1) {
                Some(expected) if *expected == content => {}
                None if version == acknowledged + 1 && self.open.contains(&content) => self.acknowledged.push(content),
                expected => return Err(format!("version {version} is {content}, expected {expected:?}")),
            }
        }
        if recovered.last_version != self.acknowledged.len() as u64 {
            return Err(format!("it ends at {}, expected {}", recovered.last_version, self.acknowledged.len()));
        }
        recovered.settle().map_err(|error| error.to_string())?;
        self.open.clear();
        self.log = recovered.log;
        Ok(())
    }
}

#[test]
fn nothing_acknowledged_is_lost_on_a_disk_that_tears_loses_and_reorders() {
    for seed in 0..seeds(2_000) {
        let mut story = Story::begin(seed);
        for life in 0..4 {
            for _ in 0..story.dice.below(60) {
                story.step().unwrap_or_else(|what| panic!("seed {seed}, life {life}, killed: {what}"));
            }
            story.crash().unwrap_or_else(|what| panic!("seed {seed}, life {life}: {what}"));
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_on_a_disk_whose_calls_fail() {
    for seed in 0..seeds(2_000) {
        let mut story = Story::begin(seed);
        for life in 0..4 {
            let mut dice = Dice::new(seed << 8 | life);
            let one_in = 2 + dice.below(40);
            story.disk.set_plan(Box::new(move |_, _| match dice.below(3 * one_in) {
                0 => Some(Fault::Error(ErrorKind::StorageFull)),
                1 => Some(Fault::Error(ErrorKind::Other)),
                2 => Some(Fault::Short),
                _ => None,
            }));
            for _ in 0..story.dice.below(60) {
                story.step().unwrap_or_else(|what| panic!("seed {seed}, life {life}, killed: {what}"));
            }
            story.crash().unwrap_or_else(|what| panic!("seed {seed}, life {life}: {what}"));
        }
    }
}

#[test]
fn each_single_call_may_fail_and_the_log_goes_on_by_itself() {
    let run = |failing: Option<(u64, ErrorKind)>| {
        let mut story = Story::begin(7);
        story.disk.set_plan(Box::new(move |number, _| match failing {
            Some((call, kind)) if call == number => Some(Fault::Error(kind)),
            _ => None,
        }));
        for number in 0..60 {
            if number % 12 == 0 {
                story.retire();
            }
            story.append();
        }
        let calls = story.disk.calls();
        story.disk.set_plan(Box::new(|_, _| None));
        let before = story.acknowledged.len();
        for _ in 0..5 {
            story.append();
        }
        assert_eq!(story.acknowledged.len(), before + 5, "it did not go on after {failing:?}");
        story.crash().unwrap_or_else(|what| panic!("{failing:?}: {what}"));
        calls
    };
    let calls = run(None);
    assert!(calls > 100);
    for call in 0..calls {
        for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
            run(Some((call, kind)));
        }
    }
}

#[test]
fn a_full_disk_is_named_and_nothing_is_applied() {
    let mut story = Story::begin(1);
    story.disk.set_plan(Box::new(|_, call| (call == Call::Create).then_some(Fault::Error(ErrorKind::StorageFull))));
    while story.log.active.lock().end + 700 < SEGMENT_BYTES {
        story.append();
    }
    let refused = story.log.prepare(|place| {
        let mut builder = FrameBuilder::with_capacity(0);
        builder.write(b"large", Some(&[0; 4000]));
        builder.finish(place)
    });
    assert_eq!(refused.err().map(|error| error.code()), Some(Code::DiskFull));
    story.reopen().unwrap();
}

/// A log of several segments, with its files and what it holds.
fn written() -> Story {
    let mut story = Story::begin(3);
    for _ in 0..60 {
        story.append();
    }
    assert!(story.log.full_segments() >= 2);
    story
}

fn recovered(disk: &SimDisk, acknowledged: u64) -> Result<u64, EngineError> {
    let recovered = recover(Arc::new(disk.clone()), SEGMENT_BYTES, acknowledged)?.expect("segments");
    recovered.frames_above(0).try_for_each(|frame| frame.map(|_| ()))?;
    Ok(recovered.last_version)
}

#[test]
fn a_flipped_bit_below_the_last_frame_is_corrupt_and_names_the_place() {
    let story = written();
    let last = story.acknowledged.len() as u64;
    let active = story.log.active.lock().segment.header.number;
    let end_of_active = story.log.active.lock().end;
    let mut found = 0;
    for (name, bytes) in story.disk.files() {
        let Some(number) = super::segment::number(&name) else { continue };
        let end = if number == active { end_of_active } else { bytes.len() as u64 };
        for offset in (4096..end).step_by(97) {
            let mut damaged = bytes.clone();
            damaged[offset as usize] ^= 1 << (offset % 8);
            story.disk.overwrite(&name, damaged);
            match recovered(&story.disk, 0) {
                Err(EngineError::Corrupt { path, offset: at, .. }) => {
                    assert!(path.ends_with(&name) && at <= offset, "{name} {offset}: {} {at}", path.display());
                    found += 1;
                }
                // The padding of a frame, the room behind the last one, or the last frame itself.
                Ok(version) => assert!(version == last || (number == active && version == last - 1), "{name} {offset}"),
                Err(other) => panic!("{name} {offset}: {other}"),
            }
        }
        story.disk.overwrite(&name, bytes);
    }
    assert!(found > 100, "only {found} flips were noticed");
}

#[test]
fn a_damaged_header_a_missing_segment_and_a_cut_file_are_corrupt() {
    let story = written();
    let files = story.disk.files();
    let segments: Vec<_> = files.iter().filter(|(name, _)| super::segment::number(name).is_some()).collect();
    let is_corrupt =
        |acknowledged| recovered(&story.disk, acknowledged).is_err_and(|error| error.code() == Code::EngineCorrupt);
    let acknowledged = story.acknowledged.len() as u64;
    for (name, bytes) in &segments {
        let mut damaged = bytes.clone();
        damaged[20] ^= 1;
        story.disk.overwrite(name, damaged);
        assert!(is_corrupt(0), "the header of {name} was damaged");
        story.disk.overwrite(name, bytes[..5000].to_vec());
        assert!(is_corrupt(acknowledged), "{name} was cut");
        story.disk.overwrite(name, bytes.clone());
    }
    let (middle, bytes) = segments[1];
    story.disk.lose(middle);
    assert!(is_corrupt(0), "{middle} was lost");
    story.disk.overwrite(middle, bytes.clone());
    assert_eq!(recovered(&story.disk, acknowledged).unwrap(), acknowledged);
}

#[test]
fn a_lost_end_is_a_torn_tail_unless_it_was_acknowledged() {
    let story = written();
    let last = story.acknowledged.len() as u64;
    let (name, end) = {
        let active = story.log.active.lock();
        (super::segment::name(active.segment.header.number), active.end)
    };
    let (_, mut bytes) = story.disk.files().into_iter().find(|(file, _)| *file == name).unwrap();
    bytes[end as usize - 100..end as usize].fill(0);
    story.disk.overwrite(&name, bytes);
    assert_eq!(recovered(&story.disk, last - 1).unwrap(), last - 1);
    let refused = recovered(&story.disk, last).unwrap_err();
    assert!(refused.to_string().contains("was acknowledged"), "{refused}");
}

#[test]
fn a_frame_whose_sync_failed_is_gone_or_durable_once_someone_has_read_it() {
    let mut open = 0;
    for seed in 0..50 {
        let mut story = Story::begin(seed);
        story.append();
        story.disk.set_plan(Box::new(|_, call| (call == Call::Sync).then_some(Fault::Error(ErrorKind::Other))));
        story.append();
        open += story.open.len();
        story.kill().unwrap();
        story.append();
        story.crash().unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
    assert!(open > 30, "only {open} syncs of a frame failed");
}

#[test]
fn recovery_changes_nothing() {
    let story = written();
    let before = story.disk.files();
    recovered(&story.disk, 0).unwrap();
    assert!(recovered(&story.disk, u64::MAX).is_err());
    assert_eq!(story.disk.files(), before);
}
