//! A native program that ends its process, in the middle of a turn, again and again.
//!
//! The process is this test's own program, started once more: an embedder with a program of its own.

use mundi::{
    Node, NodeConfig, Programs, Value,
    manifest::{Manifest, Schema},
    program::{Cause, Event, Failure, Host, Program, View},
};
use std::{
    collections::BTreeSet,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Output, abort},
    time::Duration,
};

const FOLDER: &str = "MUNDI_TEST_DEADLY_FOLDER";
const WORLDS: &str = "worlds";
/// The file in which a life that ended well leaves its findings.
const SAID: &str = "said";

struct Deadly;

impl Program for Deadly {
    fn handle(&self, _: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        if let Cause::Event { schema: "die", .. } = event.cause {
            abort();
        }
        Ok(())
    }

    fn query(&self, _: &mut dyn View, _: &str, _: &[u8]) -> Result<Vec<u8>, Failure> {
        Ok(Vec::new())
    }
}

fn declare(manifest: &mut Manifest) {
    manifest.events.insert("die".to_owned(), Schema::anything());
}

async fn open(folder: &Path, config: NodeConfig) -> Node {
    let programs = Programs::builtin().native("deadly", 1, Deadly, declare);
    Node::open(&folder.join("data"), programs, config).await.unwrap()
}

/// A life without turns: it makes a deadly world and another one, and the input is in an inbox.
async fn prepare(folder: &Path) {
    let node = open(folder, NodeConfig { roles: BTreeSet::new(), ..NodeConfig::default() }).await;
    let universe = node.universe("default").unwrap();
    let deadly = universe.create("deadly").await.unwrap();
    let other = universe.create("counter").await.unwrap();
    universe.send(deadly, "die", Value::Null).await.unwrap();
    std::fs::write(folder.join(WORLDS), format!("{deadly} {other}")).unwrap();
    node.drain().await;
    node.stop().await;
}

/// A life with turns: it ends well once the deadly world is on hold.
async fn live(folder: &Path) {
    let node = open(folder, NodeConfig::default()).await;
    let universe = node.universe("default").unwrap();
    let text = std::fs::read_to_string(folder.join(WORLDS)).unwrap();
    let (deadly, other) = text.split_once(' ').unwrap();
    let hold = loop {
        if let Some(hold) = universe.ops().describe_world(deadly.parse().unwrap()).await.unwrap().meta.hold {
            break hold;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let Value::Integer(sum) = universe.call(other.parse().unwrap(), "add", Value::Null).await.unwrap() else {
        panic!("the sum is a number")
    };
    let said = format!("deaths={} code={} sum={}", hold.failures, hold.code, i64::try_from(sum).unwrap());
    std::fs::write(folder.join(SAID), said).unwrap();
    node.drain().await;
    node.stop().await;
}

#[test]
#[ignore = "a process that another test starts"]
fn a_process_that_its_program_ends() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let folder: &Path = folder.as_ref();
    runtime.block_on(async {
        match folder.join(WORLDS).exists() {
            true => live(folder).await,
            false => prepare(folder).await,
        }
    });
}

fn start(folder: &Path) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["deaths::a_process_that_its_program_ends", "--exact", "--ignored", "--nocapture"]);
    command.env(FOLDER, folder).output().unwrap()
}

#[test]
fn a_world_that_ends_its_process_is_held_after_a_few_lives_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    assert!(start(folder.path()).status.success());
    let mut ended = 0;
    let last = loop {
        let life = start(folder.path());
        if life.status.success() {
            break said(folder.path());
        }
        assert_eq!(life.status.signal(), Some(6), "{}", String::from_utf8_lossy(&life.stderr));
        ended += 1;
        assert!(ended < 10, "it ends again and again");
    };
    assert_eq!(ended, 4, "one that was not counted, and three that were: {last}");
    assert_eq!(last, "deaths=3 code=WORLD_ENDS_PROCESS sum=1");
    assert!(start(folder.path()).status.success(), "it stays on hold");
    assert_eq!(said(folder.path()), "deaths=3 code=WORLD_ENDS_PROCESS sum=2");
}

fn said(folder: &Path) -> String {
    std::fs::read_to_string(folder.join(SAID)).unwrap()
}
