//! `mundi demo`: ten durable steps done by a worker that is killed again and again, and a fork with another outcome.
//!
//! The server runs in this process, on a folder that is gone afterwards. The worker is a process of its own, and its
//! outside world is a ledger: a file into which it writes each step under its intent, which is the same for each attempt.

mod ledger;
mod picture;
mod worker;

pub(super) use worker::DemoWorker;

use super::{
    client::Server,
    exit::{Failed, Outcome},
    output::Out,
};
use clap::Args;
use ledger::Ledger;
use mundi_model::Code;
use mundi_server::{
    api::{AccessPolicy, Api, ApiLimits, router},
    node::{Node, NodeConfig, SystemEntropy},
    programs::Programs,
    serve::{self, ServeLimits},
};
use mundi_store::Entropy;
use picture::Picture;
use serde_json::{Value, json};
use std::{path::Path, time::Duration};
use worker::Worker;

#[derive(Args)]
pub(super) struct Demo {
    /// The least number of kills of the worker.
    #[arg(long, default_value_t = 5)]
    kills: u32,
    /// The seed for the times of the kills; random by default.
    #[arg(long)]
    seed: Option<u64>,
}

const STEPS: u64 = 10;
const FORK_AT_STEP: u64 = 5;
const WORLD: &str = "demo";
const BRANCH: &str = "what-if";

/// Far longer than the demo takes: it fails instead of hanging.
const DEMO_TIMEOUT: Duration = Duration::from_secs(50);

impl Demo {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let folder = tempfile::tempdir()?;
        let node = Node::open(&folder.path().join("data"), Programs::builtin(), NodeConfig::default()).await;
        let node = node.map_err(|error| Failed::coded(&error))?;
        let api = Api::new(node.clone(), ApiLimits::default(), AccessPolicy::default());
        let socket =
            serve::Server::start(([127, 0, 0, 1], 0).into(), router(api), None, ServeLimits::default()).await?;
        let server = Server::local(&format!("http://{}", socket.address()));
        let story = tokio::time::timeout(DEMO_TIMEOUT, self.story(out, &server, folder.path())).await;
        stop(&node).await;
        story.map_err(|_| Failed::new(Code::CallTimeout, "the demo took too long; is the machine very busy?"))?
    }

    async fn story(&self, out: Out, server: &Server, folder: &Path) -> Outcome {
        let (ledger, picture) = (Ledger::at(folder.join("ledger")), Picture::new(out));
        picture.title("1. Ten durable steps, done by a worker that is killed at random");
        server.post(&server.of("worlds"), &json!({ "world": WORLD, "program": "steps" })).await?;
        server.post(&server.of("worlds/demo/send/start"), &json!({ "steps": STEPS })).await?;
        let kills = self.torment(server, &ledger, &picture, WORLD).await?;
        let counts = ledger.counts(WORLD)?;
        picture.steps(STEPS, &counts);
        if counts.values().any(|count| *count != 1) || counts.len() as u64 != STEPS {
            return Err(Failed::unproven(format!("the ledger does not hold each step once: {counts:?}")));
        }
        picture.say(&format!("killed {kills} times; the ledger holds each of the ten steps once"));

        picture.title("2. A fork at step five, where the outcome is another one");
        let height = receipt_of(server, FORK_AT_STEP).await?;
        server.post(&server.of("worlds/demo/fork"), &json!({ "world": BRANCH, "at": height })).await?;
        let refused = json!({ "step": FORK_AT_STEP, "outcome": "refused" });
        server.post(&server.of("worlds/what-if/send/outcome"), &refused).await?;
        let worker = Worker::start(server, ledger.path(), BRANCH)?;
        finished(server, BRANCH).await?;
        drop(worker);
        let difference = server.get(&server.of("worlds/demo/diff?with=what-if")).await?;
        picture.diff(difference.as_array().map_or(&[][..], Vec::as_slice));

        picture.title("3. Proof: both histories replayed from their first record");
        for world in [WORLD, BRANCH] {
            let proof = server.post(&server.of(&format!("worlds/{world}/verify")), &Value::Null).await?;
            picture.proof(world, &proof);
        }
        Ok(())
    }

    /// Starts workers and kills them until the world is done and there were enough kills.
    async fn torment(&self, server: &Server, ledger: &Ledger, picture: &Picture, world: &str) -> Outcome<u32> {
        let mut dice = Dice(self.seed.unwrap_or_else(drawn));
        let mut kills = 0;
        loop {
            let mut worker = Worker::start(server, ledger.path(), world)?;
            if kills >= self.kills {
                finished(server, world).await?;
                return Ok(kills);
            }
            // In the middle of whichever step it is at then: before, while or after it writes to the ledger.
            worker.wait_for_step(dice.next() % 2 + 1).await?;
            tokio::time::sleep(Duration::from_millis(dice.next() % 250)).await;
            let at = worker.kill().await;
            kills += 1;
            picture.killed(kills, &at);
            if progress(server, world).await?["done"] == true {
                return Ok(kills);
            }
        }
    }
}

async fn stop(node: &Node) {
    let stopping = async {
        node.drain().await;
        node.stop().await;
    };
    let _in_time = tokio::time::timeout(Duration::from_secs(5), stopping).await;
}

async fn progress(server: &Server, world: &str) -> Outcome<Value> {
    server.post(&server.of(&format!("worlds/{world}/query/progress")), &Value::Null).await
}

async fn finished(server: &Server, world: &str) -> Outcome {
    while progress(server, world).await?["done"] != true {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// The height at which the receipt of a step was journaled: below it, the step is still open.
async fn receipt_of(server: &Server, step: u64) -> Outcome<u64> {
    let journal = server.get(&server.of("worlds/demo/journal?limit=1000")).await?;
    let records = journal["items"].as_array().map_or(&[][..], Vec::as_slice);
    let intent = |record: &&Value| record["type"] == "intent" && record["params"]["step"] == step;
    let intent = records.iter().find(intent).map(|record| record["intent"].clone());
    let receipt = |record: &&Value| Some(&record["input"]["receipt"]) == intent.as_ref();
    let found = records.iter().find(receipt).and_then(|record| record["height"].as_u64());
    found.ok_or_else(|| Failed::unproven(format!("step {step} has no receipt in the journal")))
}

/// A seeded sequence (splitmix64): a demo can be repeated.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// A seed that differs from run to run.
fn drawn() -> u64 {
    let mut bytes = [0; 8];
    SystemEntropy::default().fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
