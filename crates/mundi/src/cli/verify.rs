//! `mundi verify`: verifies files, a data folder, or a whole universe on a server.

use super::{
    ServerArgs,
    client::Server,
    exit::{Failed, Outcome},
    output::Out,
    progress::Progress,
    world,
};
use clap::Args;
use mundi_model::Code;
use mundi_runtime::bundle::{Bundle, BundleError};
use mundi_server::{programs::Programs, proof::ProofReport};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct Verify {
    /// Bundle files; no server is needed.
    #[arg(required_unless_present_any = ["all", "data", "config"])]
    files: Vec<PathBuf>,
    /// All worlds of the universe, on the server.
    #[arg(long, conflicts_with_all = ["files", "data"])]
    all: bool,
    /// All worlds of a data folder that no server has open.
    #[arg(long, value_name = "DIR", conflicts_with = "files")]
    data: Option<PathBuf>,
    /// All worlds of the engine of a configuration.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "data"])]
    config: Option<PathBuf>,
    #[command(flatten)]
    server: Server,
}

impl Verify {
    pub(super) async fn run(self, out: Out) -> Outcome {
        if self.data.is_some() || self.config.is_some() {
            let args = ServerArgs { data: self.data, config: self.config, bind: None, roles: None, replay_log: None };
            return world::offline(&args.load()?, out).await;
        }
        if self.all {
            return world::online(&self.server, out).await;
        }
        let mut reports = Vec::new();
        for file in self.files {
            let proving = file.clone();
            let work = async move { tokio::task::spawn_blocking(move || prove(&proving)).await };
            let (proof, name) = Progress::default().during(out, "verifying", |_| String::new(), work).await??;
            let mut report = serde_json::to_value(proof)?;
            report["name"] = json!(name);
            report["file"] = json!(file.display().to_string());
            reports.push(report);
        }
        match &reports[..] {
            [report] => {
                out.object(report)?;
                tell_proven(out, report["file"].as_str().unwrap_or_default(), report);
                Ok(())
            }
            reports => {
                let columns = [
                    ("FILE", "file"),
                    ("NAME", "name"),
                    ("WORLD", "world"),
                    ("RECORDS", "records"),
                    ("RECEIPTS", "receipts"),
                ];
                out.rows(&columns, reports, &Value::Null)
            }
        }
    }
}

/// The verdict, for people: a proof is printed only if everything holds.
pub(super) fn tell_proven(out: Out, of: &str, proof: &Value) {
    if !out.is_json() {
        let verdict = format!("{of} is proven: {} records, each with its hash and its outcome", proof["records"]);
        eprintln!("{}", out.green(&verdict));
    }
}

/// The proof of a bundle, and the name that its world has there.
fn prove(path: &Path) -> Outcome<(ProofReport, Option<String>)> {
    let unreadable = |error: std::io::Error| Failed::new(Code::FolderInvalid, format!("{}: {error}", path.display()));
    let wrong = |error: BundleError| {
        let height = error.height().map_or_else(String::new, |height| format!(" (height {height})"));
        Failed::new(mundi_model::Coded::code(&error), format!("{}{height}: {error}", path.display()))
    };
    let bundle = Bundle::open(std::fs::File::open(path).map_err(unreadable)?).map_err(wrong)?;
    let programs = Programs::builtin().with_loader(mundi::components_to_look().map_err(|error| Failed::coded(&error))?);
    let proof = bundle.verify(&programs.into_registry()).map_err(wrong)?;
    Ok((ProofReport::of_bundle(bundle.header().world, &proof), bundle.header().name.clone()))
}
