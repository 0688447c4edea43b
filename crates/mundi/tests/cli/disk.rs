//! A full disk, one that cannot be written and a file where the folder should be, under the real process: a clear error, no
//! corruption, and it works again when there is room. And how many files it may open.

use crate::{
    process::Server,
    program::{at, run},
};
use serde_json::json;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

const W: &str = "/v1/u/default/worlds";

/// A small file system, taken down at the end.
struct SmallDisk {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl SmallDisk {
    /// `None` where the process may not mount.
    fn mount(megabytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mount");
        fs::create_dir(&path).unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self { path, _folder: folder });
        }
        eprintln!("skipped: this process may not mount a file system");
        None
    }

    fn remount(&self, how: &str) {
        let done = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(&self.path).status().unwrap();
        assert!(done.success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _left_behind = Command::new("umount").arg(&self.path).status();
    }
}

/// A file system of a real kind, in a file: one that turns read-only when it finds itself damaged.
struct FragileDisk {
    path: PathBuf,
    image: PathBuf,
    _folder: tempfile::TempDir,
}

impl FragileDisk {
    /// `None` where the process may not mount.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (path, image) = (folder.path().join("mount"), folder.path().join("image"));
        fs::create_dir(&path).unwrap();
        fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
        let disk = Self { path, image, _folder: folder };
        let made = Command::new("mkfs.ext4").arg("-q").arg(&disk.image).output();
        if made.is_ok_and(|output| output.status.success()) && disk.attach() {
            return Some(disk);
        }
        eprintln!("skipped: this process may not mount a file system");
        None
    }

    fn attach(&self) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop,errors=remount-ro"]).arg(&self.image).arg(&self.path);
        mount.output().is_ok_and(|output| output.status.success())
    }

    fn detach(&self) {
        let _left_behind = Command::new("umount").arg(&self.path).status();
    }

    /// As if the kernel had met damage: every file is read-only from now on, also those that are open. `false` where
    /// the kernel does not offer it.
    fn turn_read_only(&self) -> bool {
        let found = Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(&self.path).output().unwrap();
        let device = String::from_utf8(found.stdout).unwrap();
        let name = device.trim().rsplit('/').next().unwrap().to_owned();
        fs::write(format!("/sys/fs/ext4/{name}/trigger_fs_error"), "1").is_ok()
    }

    fn repair(&self) {
        self.detach();
        let _says_what_it_mended = Command::new("e2fsck").arg("-fy").arg(&self.image).output().unwrap();
        assert!(self.attach());
    }
}

impl Drop for FragileDisk {
    fn drop(&mut self) {
        self.detach();
    }
}

#[tokio::test]
async fn a_disk_that_turns_read_only_is_told_reads_go_on_and_nothing_is_lost() {
    let Some(disk) = FragileDisk::mount() else { return };
    let server = Server::start(&disk.path);
    server.post(W, &json!({ "world": "a", "program": "counter" })).await.ok(201);
    let mut acknowledged = 0u64;
    for _ in 0..50 {
        server.post(&format!("{W}/a/call/add"), &json!(1)).await.ok(200);
        acknowledged += 1;
    }
    if !disk.turn_read_only() {
        eprintln!("skipped: the kernel offers no way to damage a file system");
        return;
    }
    // Of what was in progress when it happened nothing is known; all that comes later is refused.
    let mut codes = Vec::new();
    for _ in 0..5 {
        let answer = server.post(&format!("{W}/a/send/add"), &json!(1)).await;
        assert!(answer.status.is_server_error(), "{}", answer.text);
        codes.push(answer.json["code"].as_str().unwrap().to_owned());
    }
    assert!(codes.iter().all(|code| code == "FOLDER_DENIED" || code == "COMMIT_UNKNOWN"), "{codes:?}");
    assert_eq!(codes.last().map(String::as_str), Some("FOLDER_DENIED"), "{codes:?}");
    assert_eq!(server.get(&format!("{W}/a")).await.ok(200)["state"], "live");
    let journal = server.get(&format!("{W}/a/journal?limit=1000")).await.ok(200);
    assert!(journal["items"].as_array().unwrap().len() as u64 > acknowledged, "what was there can be read");
    server.kill();
    disk.repair();
    let server = Server::start(&disk.path);
    let counted = server.post(&format!("{W}/a/call/add"), &json!(0)).await.ok(200).as_u64().unwrap();
    assert!((acknowledged..=acknowledged + 5).contains(&counted), "{counted} of {acknowledged} that were acknowledged");
    at(&server.url, &["verify", "--all"]).ok();
    server.kill();
    run(&["verify", "--data", disk.path.join("data").to_str().unwrap()]).ok();
}

#[tokio::test]
async fn a_full_disk_refuses_with_a_code_and_takes_events_again_when_there_is_room() {
    let Some(disk) = SmallDisk::mount(96) else { return };
    let server = Server::start(&disk.path);
    server.post(W, &json!({ "world": "a", "program": "kv" })).await.ok(201);
    server.post(&format!("{W}/a/call/put"), &json!({ "key": "first", "value": 1 })).await.ok(200);
    let ballast = disk.path.join("ballast");
    // All but a little: what is left is filled by events.
    let mut left = 96 << 20;
    while left > 1 << 16 && fs::write(&ballast, vec![1; left]).is_err() {
        left = left * 15 / 16;
    }
    let value: String = (0..3_000u32).map(|n| char::from(b'a' + u8::try_from(n * n % 26).unwrap())).collect();
    let (mut acknowledged, mut refused) = (0u64, 0);
    for number in 0..40_000 {
        let event = json!({ "key": format!("k{number}"), "value": format!("{number}{value}") });
        let answer = server.post(&format!("{W}/a/send/put"), &event).await;
        match answer.status.as_u16() {
            202 | 200 => acknowledged += 1,
            429 => tokio::time::sleep(Duration::from_millis(5)).await, // its inbox is full while nothing is taken in
            _ => {
                assert_eq!(answer.json["code"], "DISK_FULL", "{}", answer.text);
                refused += 1;
            }
        }
        if refused == 5 {
            break;
        }
    }
    assert!(refused == 5 && acknowledged > 0, "{acknowledged} acknowledged, {refused} refused: the disk never filled");
    fs::remove_file(&ballast).unwrap();
    let mut works = false;
    for _ in 0..600 {
        let answer = server.post(&format!("{W}/a/call/put"), &json!({ "key": "last", "value": 1 })).await;
        works = answer.status.is_success();
        if works {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(works, "it does not work again although there is room");
    let cells =
        at(&server.url, &["--format", "json", "world", "cells", "a", "--prefix", "k", "--limit", "1000000"]).ok();
    let cells: serde_json::Value = serde_json::from_str(&cells).unwrap();
    let stored = cells["items"].as_array().unwrap().len() as u64;
    assert!(
        stored >= acknowledged && stored <= acknowledged + 5,
        "{acknowledged} were acknowledged, {stored} are there"
    );
    at(&server.url, &["verify", "--all"]).ok();
    server.kill();
    run(&["verify", "--data", disk.path.join("data").to_str().unwrap()]).ok();
}

#[tokio::test]
async fn a_disk_that_cannot_be_written_is_told_at_the_start_and_nothing_is_lost() {
    let Some(disk) = SmallDisk::mount(128) else { return };
    let server = Server::start(&disk.path);
    server.post(W, &json!({ "world": "a", "program": "counter" })).await.ok(201);
    server.post(&format!("{W}/a/call/add"), &json!(7)).await.ok(200);
    server.kill();
    disk.remount("ro");
    let data = disk.path.join("data");
    let data = data.to_str().unwrap();
    let refused = run(&["dev", "--bind", "127.0.0.1:0", "--data", data]);
    refused.failed(6, "FOLDER_DENIED");
    let told = run(&["doctor", "--data", data]);
    assert!(told.code == 7 && told.out.contains("WRONG"), "{}{}", told.out, told.err);
    disk.remount("rw");
    let server = Server::start(&disk.path);
    assert_eq!(server.post(&format!("{W}/a/call/add"), &json!(1)).await.ok(200), json!(8));
    at(&server.url, &["verify", "--all"]).ok();
}

#[test]
fn a_file_in_the_place_of_the_data_folder_is_told_by_its_code_and_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    for path in [file.clone(), file.join("below")] {
        run(&["dev", "--bind", "127.0.0.1:0", "--data", path.to_str().unwrap()]).failed(3, "FOLDER_INVALID");
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

/// The process raises its limit of open files to the most that it is allowed.
#[test]
fn a_server_asks_for_as_many_open_files_as_it_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -S -n 256; ulimit -H -n 1024; exec \"$0\" dev --bind 127.0.0.1:0 --data \"$1\""]);
    command.arg(env!("CARGO_BIN_EXE_mundi")).arg(folder.path().join("data")).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let serves = lines.any(|line| line.unwrap().contains("API at "));
    let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(serves);
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    assert_eq!(limit.split_whitespace().next(), Some("1024"), "{limit}");
}
