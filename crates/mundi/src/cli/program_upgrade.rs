//! `mundi program upgrade`: all worlds of a named program, one after the other.
//!
//! Each upgrade is rehearsed by the server over the world's open work before it is sent. The first world that would diverge
//! ends the run, and those after it are untouched; run again, it continues with the worlds that are not there yet.

use super::{
    client::{Paging, Server, escape},
    exit::{Failed, Outcome},
    output::Out,
    progress::Progress,
    world::diverging_functions,
};
use clap::Args;
use mundi_model::{Code, Coded, ProgramNameInvalid, ProgramRef};
use serde_json::{Value, json};
use std::time::Duration;

/// How long a world may take to process an upgrade before the next world is upgraded: one that is paused or on hold processes it later.
const TAKEN_UP: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Args)]
pub(super) struct Upgrade {
    #[command(flatten)]
    server: Server,
    /// The name of the program: all live worlds that run any other version of it.
    program: String,
    /// The version to upgrade to; the newest by default.
    #[arg(long, value_name = "VERSION")]
    to: Option<u32>,
    /// Continues after a world that diverges or fails, and lists the failures.
    #[arg(long = "continue")]
    go_on: bool,
    /// Rehearses, and changes nothing.
    #[arg(long)]
    dry_run: bool,
}

/// The result for one world.
struct Done {
    result: &'static str,
    height: Option<u64>,
    detail: Option<String>,
    /// Why the run ends with an error.
    failed: Option<Failed>,
}

impl Done {
    fn well(result: &'static str) -> Self {
        Self { result, height: None, detail: None, failed: None }
    }

    fn diverges(height: Option<u64>, detail: String) -> Self {
        let failed = Some(Failed::differs(detail.clone()));
        Self { result: "DIVERGES", height, detail: Some(detail), failed }
    }

    fn failed(failed: Failed) -> Self {
        Self { result: "FAILED", height: None, detail: Some(failed.detail().to_owned()), failed: Some(failed) }
    }
}

impl Upgrade {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let invalid = |error: ProgramNameInvalid| Failed::new(error.code(), error.to_string());
        let target = ProgramRef::new(&self.program, self.to).map_err(invalid)?.to_string();
        let target = self.server.get(&self.server.of(&format!("programs/{target}"))).await?;
        let (Some(name), Some(manifest)) = (target["name"].as_str(), target["manifest_hash"].as_str()) else {
            return Err(Failed::plain("the server is too old: it names no programs"));
        };
        let filters = [("state", Some("live".to_owned())), ("program", Some(self.program.clone()))];
        let (mut worlds, _) = self.server.pages(&self.server.of("worlds"), &filters, &Paging::all()).await?;
        worlds.retain(|world| world["manifest"] != manifest);
        let (progress, mut rows, mut failed) = (Progress::of(worlds.len() as u64), Vec::new(), None);
        let work = async {
            for world in &worlds {
                let id = world["world"].as_str().unwrap_or_default();
                let called = world["name"].as_str().unwrap_or(id);
                let done = if self.dry_run {
                    self.rehearse((id, called), name).await
                } else {
                    self.upgrade((id, called), name, manifest).await
                };
                rows.push(json!({
                    "world": id, "name": world["name"], "from": world["program"], "to": name,
                    "result": done.result, "height": done.height, "detail": done.detail,
                }));
                progress.add(1);
                let is_bad = done.failed.is_some();
                failed = failed.take().or(done.failed);
                if is_bad && !self.go_on {
                    break;
                }
            }
        };
        let what = if self.dry_run { "rehearsing" } else { "upgrading" };
        progress.during(out, what, |worlds| format!("{worlds} worlds"), work).await;
        self.report(out, name, worlds.len(), &rows)?;
        failed.map_or(Ok(()), Err)
    }

    fn report(&self, out: Out, name: &str, total: usize, rows: &[Value]) -> Outcome {
        let columns = [
            ("NAME", "name"),
            ("WORLD", "world"),
            ("FROM", "from"),
            ("TO", "to"),
            ("RESULT", "result"),
            ("HEIGHT", "height"),
            ("WHY", "detail"),
        ];
        out.rows(&columns, rows, &Value::Null)?;
        let bad =
            rows.iter().filter(|row| ["DIVERGES", "FAILED"].contains(&row["result"].as_str().unwrap_or(""))).count();
        let (well, left) = (rows.len() - bad, total - rows.len());
        let did = if self.dry_run { "would run" } else { "run or will run" };
        eprintln!("{well} worlds {did} {name}, {bad} do not, {left} were not tried");
        if left > 0 {
            eprintln!(
                "{}",
                out.dim("--continue goes on after a world that diverges or fails; what was done is not done again")
            );
        }
        Ok(())
    }

    /// The rehearsal that the server makes before it sends an upgrade. The world is given by its id, and by the name that users see.
    async fn rehearse(&self, (world, called): (&str, &str), name: &str) -> Done {
        let at = self.server.of(&format!("worlds/{}/rehearse", escape(world)));
        match self.server.post(&at, &json!({ "program": name, "open_work": true })).await {
            Err(failed) => Done::failed(failed),
            Ok(report) if diverging_functions(&report).next().is_some() => {
                let named: Vec<_> = diverging_functions(&report).collect();
                let (height, count) = (report["to"].as_u64(), named.len());
                Done::diverges(
                    height,
                    format!("{world}: {count} running functions would diverge: {}", named.join("; ")),
                )
            }
            Ok(report) => match report["divergence"]["height"].as_u64() {
                Some(height) => {
                    Done::diverges(Some(height), format!("{called}: something else would follow at height {height}"))
                }
                None => Done::well("rehearsed"),
            },
        }
    }

    async fn upgrade(&self, (world, called): (&str, &str), name: &str, manifest: &str) -> Done {
        let at = self.server.of(&format!("worlds/{}/upgrade", escape(world)));
        match self.server.post(&at, &json!({ "program": name })).await {
            Err(failed) if failed.code == Some(Code::UpgradeDiverges) => {
                Done::diverges(None, format!("{called}: {}", failed.detail()))
            }
            Err(failed) => Done::failed(failed),
            Ok(_) => Done::well(if runs(&self.server, world, manifest, TAKEN_UP).await { "upgraded" } else { "sent" }),
        }
    }
}

/// Whether a world runs on a manifest, within some time.
pub(super) async fn runs(server: &Server, world: &str, manifest: &str, within: Duration) -> bool {
    let look = async {
        loop {
            match server.get(&server.of(&format!("worlds/{}", escape(world)))).await {
                Ok(found) if found["manifest"] == manifest => return true,
                Ok(_) => tokio::time::sleep(LOOK_EVERY).await,
                Err(_) => return false,
            }
        }
    };
    tokio::time::timeout(within, look).await.unwrap_or(false)
}
