//! A real file system without room: commits are refused with a code, reads continue, and it works again by
//! itself when there is room. The tree's own files are on it, too.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test")]

use mundi_engine::{CommitError, Embedded, Engine, RangeRead, Transaction, embedded::Options};
use mundi_model::{Code, Coded};
use pollster::block_on;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A file system of a few megabytes, taken down at the end.
struct SmallDisk(PathBuf, #[expect(dead_code, reason = "holds the folder")] tempfile::TempDir);

impl SmallDisk {
    /// `None` where the process may not mount.
    fn mount(megabytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mount");
        fs::create_dir(&path).unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(path, folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _left_behind = Command::new("umount").arg(&self.0).status();
    }
}

fn open(path: &Path) -> Embedded {
    let options = Options { segment_bytes: 256 << 10, memtable_bytes: 256 << 10, ..Options::default() };
    Embedded::open_with(path, &options).unwrap()
}

fn commit(engine: &Embedded, number: u64) -> Result<(), CommitError> {
    block_on(async {
        let mut tx = engine.begin().await?;
        // Hardly compressible, so that every commit takes room.
        let value: Vec<u8> =
            (0..2000u64).map(|at| (number.wrapping_mul(2_654_435_761).wrapping_add(at * at) >> 3) as u8).collect();
        tx.put(&number.to_be_bytes(), value)?;
        tx.commit().await.map(|_| ())
    })
}

fn keys(engine: &Embedded) -> Vec<u64> {
    block_on(async {
        let mut tx = engine.begin().await.unwrap();
        let (mut keys, mut from) = (Vec::new(), Vec::new());
        loop {
            let page = tx.range(RangeRead::new(from, &b"\xff"[..], 1_000)).await.unwrap();
            keys.extend(page.items.iter().map(|(key, _)| u64::from_be_bytes(key[..].try_into().unwrap())));
            match page.items.last() {
                Some((last, _)) if page.more => from = [&last[..], &[0]].concat(),
                _ => return keys,
            }
        }
    })
}

#[test]
fn a_full_file_system_refuses_commits_serves_reads_and_recovers_by_itself() {
    let Some(disk) = SmallDisk::mount(12) else {
        println!("skipped: this process may not mount a file system");
        return;
    };
    let ballast = disk.0.join("ballast");
    fs::write(&ballast, vec![0; 6 << 20]).unwrap();
    let engine = open(&disk.0.join("data"));
    let mut acknowledged = Vec::new();
    let mut refusals = 0;
    for number in 1..20_000 {
        match commit(&engine, number) {
            Ok(()) => acknowledged.push(number),
            Err(error) => {
                let cause = if let CommitError::Unknown(cause) = &error { cause.code() } else { error.code() };
                assert_eq!(cause, Code::DiskFull, "{error}");
                refusals += 1;
                if refusals == 30 {
                    break;
                }
            }
        }
    }
    assert_eq!(refusals, 30, "the disk never filled");
    assert_eq!(keys(&engine), acknowledged);
    fs::remove_file(&ballast).unwrap();
    for number in 100_000..100_200 {
        let done = (0..1_000_000).any(|_| commit(&engine, number).is_ok()); // until the janitor has found the room
        assert!(done, "it does not work again");
        acknowledged.push(number);
    }
    assert_eq!(keys(&engine), acknowledged);
    drop(engine);
    assert_eq!(keys(&open(&disk.0.join("data"))), acknowledged);
}
