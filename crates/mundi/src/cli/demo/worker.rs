//! The worker of the demo: a process that is killed.

use super::{
    super::{client::Server, exit::Outcome, output::print},
    ledger::Ledger,
};
use clap::Args;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// How long each half of a step takes: long enough to be killed in.
const HALF_STEP: Duration = Duration::from_millis(80);

/// Carries out steps until it is killed.
#[derive(Args)]
pub(in super::super) struct DemoWorker {
    #[command(flatten)]
    server: Server,
    #[arg(long)]
    ledger: PathBuf,
    #[arg(long)]
    world: String,
}

impl DemoWorker {
    pub(in super::super) async fn run(self) -> Outcome {
        let Self { server, ledger, world } = self;
        let ledger = Ledger::at(ledger);
        loop {
            // A claim that crashes with its worker is given to the next one after its time.
            let form = json!({ "kinds": ["demo.step"], "wait": "30s", "ttl": "1s" });
            let tasks = server.post(&server.of("tasks/claim"), &form).await?;
            for task in tasks.as_array().into_iter().flatten() {
                carry_out(&server, &ledger, &world, task).await?;
            }
        }
    }
}

async fn carry_out(server: &Server, ledger: &Ledger, world: &str, task: &Value) -> Outcome {
    let step = task["params"]["step"].as_u64().unwrap_or(0);
    print(&format!("before step {step} was written"))?;
    tokio::time::sleep(HALF_STEP).await;
    ledger.enter(world, step, task["intent"].as_str().unwrap_or_default())?;
    print(&format!("after step {step} was written, before it was reported"))?;
    tokio::time::sleep(HALF_STEP).await;
    let done = json!({ "claim": task["claim"], "result": { "outcome": "approved" }, "adapter": "demo" });
    server.post(&server.of("tasks/complete"), &done).await?;
    print(&format!("after step {step} was reported"))
}

/// A worker process that this one started. It is killed when this value is dropped.
pub(super) struct Worker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    last: String,
}

impl Worker {
    pub(super) fn start(server: &Server, ledger: &Path, world: &str) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["demo-worker", "--url", server.url(), "--world", world, "--ledger"]).arg(ledger);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn()?;
        let out = child.stdout.take().ok_or_else(|| std::io::Error::other("the worker has no output"))?;
        Ok(Self { child, lines: BufReader::new(out).lines(), last: "before it began".to_owned() })
    }

    /// Waits until it has begun this many steps.
    pub(super) async fn wait_for_step(&mut self, steps: u64) -> Outcome {
        let mut begun = 0;
        while begun < steps {
            // It has nothing more to do once the world is done; then it is killed as it waits.
            let line = tokio::time::timeout(Duration::from_secs(3), self.lines.next_line()).await;
            let Ok(Some(line)) = line.unwrap_or(Ok(None)) else { return Ok(()) };
            begun += u64::from(line.starts_with("before"));
            self.last = line;
        }
        Ok(())
    }

    /// Kills it with SIGKILL; returns the step that it had begun.
    pub(super) async fn kill(mut self) -> String {
        drop(self.child.kill().await);
        while let Ok(Some(line)) = self.lines.next_line().await {
            self.last = line;
        }
        self.last
    }
}
