//! Verification of worlds on a server, in a data folder or in files; and rehearsals of upgrades.

mod replay_bundle;

use super::{
    super::{
        client::{Paging, Server, escape},
        exit::{Failed, Outcome},
        output::Out,
        progress::Progress,
        verify::tell_proven,
    },
    World, worlds_in,
};
use clap::Args;
use mundi_kernel::rehearse::Compare;
use mundi_model::{Code, WorldId};
use mundi_runtime::bundle::BundleCompare;
use mundi_server::{
    config::Config,
    node::{Node, NodeConfig},
    programs::Programs,
    proof::ProofReport,
};
use mundi_store::protocol::WorldFilter;
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    of: World,
}

impl Verify {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of } = self;
        let none = json!({});
        let work = of.post("/verify", &none);
        let proof = Progress::default().during(out, "verifying", |_| String::new(), work).await?;
        out.object(&proof)?;
        tell_proven(out, &of.world, &proof);
        Ok(())
    }
}

/// Proves all worlds of a universe where they live.
pub(crate) async fn online(server: &Server, out: Out) -> Outcome {
    let mut worlds = worlds_in(server, "live").await?;
    worlds.extend(worlds_in(server, "archived").await?);
    let (progress, mut reports) = (Progress::of(worlds.len() as u64), Vec::new());
    let work = async {
        for (world, name) in worlds {
            let path = server.of(&format!("worlds/{world}/verify"));
            let report = match server.post(&path, &json!({})).await {
                Ok(proof) => proven(proof),
                Err(error) => refused(&world, &error),
            };
            reports.push(named(report, &name));
            progress.add(1);
        }
    };
    progress.during(out, "verifying", count, work).await;
    summary(out, &reports)
}

fn count(worlds: u64) -> String {
    format!("{worlds} worlds")
}

/// A node that runs nothing: to look at what a configuration names while no server has it open.
pub(crate) async fn open_quietly(config: &Config, out: Out) -> Outcome<Node> {
    if !config.engine.is_shared() && !config.data.folder.join("engine").is_dir() {
        let folder = config.data.folder.display();
        return Err(Failed::new(Code::FolderInvalid, format!("{folder} is no data folder")));
    }
    let node = NodeConfig { roles: [].into(), ..config.node().map_err(|error| Failed::coded(&error))? };
    let programs =
        Programs::builtin().with_loader(mundi::components(&config.data.folder).map_err(|error| Failed::coded(&error))?);
    let opening = Node::open_configured_as(config, programs, node);
    let opened = Progress::default().during(out, "opening", |_| String::new(), opening).await;
    opened.map_err(|error| Failed::coded(&error))
}

/// Proves all worlds of all universes that a configuration names.
pub(crate) async fn offline(config: &Config, out: Out) -> Outcome {
    let node = open_quietly(config, out).await?;
    let (progress, mut reports) = (Progress::default(), Vec::new());
    let work = async {
        for universe in node.universes() {
            let mut after: Option<WorldId> = None;
            loop {
                let page = universe.ops().list_worlds(WorldFilter::default(), after, 1_000).await;
                let page = page.map_err(|error| Failed::coded(&error))?;
                for found in page.items {
                    let report = match universe.ops().verify_world(found.world).await {
                        Ok(proof) => proven(serde_json::to_value(ProofReport::of_world(found.world, &proof))?),
                        Err(error) => refused(&found.world.to_string(), &Failed::coded(&error)),
                    };
                    reports.push(named(report, &json!(found.meta.name)));
                    progress.add(1);
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    };
    let done: Outcome = progress.during(out, "verifying", count, work).await;
    node.stop().await;
    done?;
    summary(out, &reports)
}

fn proven(mut proof: Value) -> Value {
    proof["verdict"] = json!("proven");
    proof
}

/// With the name of the world beside its id.
fn named(mut report: Value, name: &Value) -> Value {
    report["name"] = name.clone();
    report
}

fn refused(world: &str, error: &Failed) -> Value {
    let code = error.code.map(|code| code.as_str());
    json!({ "world": world, "verdict": "NOT PROVEN", "code": code, "detail": error.detail() })
}

pub(crate) fn summary(out: Out, reports: &[Value]) -> Outcome {
    let columns = [
        ("NAME", "name"),
        ("WORLD", "world"),
        ("VERDICT", "verdict"),
        ("RECORDS", "records"),
        ("RECEIPTS", "receipts"),
        ("WHY", "detail"),
    ];
    out.rows(&columns, reports, &Value::Null)?;
    let bad = reports.iter().filter(|report| report["verdict"] != "proven").count();
    eprintln!("{} proven, {bad} not", reports.len() - bad);
    if bad == 0 { Ok(()) } else { Err(Failed::unproven(format!("{bad} of {} worlds are not proven", reports.len()))) }
}

#[derive(Args)]
pub(crate) struct Replay {
    #[command(flatten)]
    server: Server,
    /// The id or the name of a world.
    world: Option<String>,
    /// The program that would have run: `todo`, the newest version, or `todo@2`. With --bundle, the folder of a project, which is built, or a component.
    #[arg(long, required_unless_present = "manifest", conflicts_with = "manifest")]
    program: Option<String>,
    /// Or the hash of its manifest.
    #[arg(long)]
    manifest: Option<String>,
    /// From the newest snapshot at or below this height on; from the first one if it is not given.
    #[arg(long)]
    from: Option<u64>,
    /// Up to this height; to the head if it is not given.
    #[arg(long)]
    to: Option<u64>,
    /// Compare intents, replies and failures only: for a program that keeps its cells in another form.
    #[arg(long)]
    outputs_only: bool,
    /// Only what an upgrade compares: running instances of durable functions at the head, and the outputs of whatever else is open.
    #[arg(long, conflicts_with_all = ["from", "to", "outputs_only"])]
    open_work: bool,
    /// Every live world that runs `--of`.
    #[arg(long, conflicts_with = "world", required_unless_present_any = ["world", "bundle"])]
    all: bool,
    /// A bundle in place of a world; no server is needed.
    #[arg(long, value_name = "FILE", requires = "program", conflicts_with_all = ["world", "all", "from", "to"])]
    bundle: Option<PathBuf>,
    /// The program, or the manifest, whose worlds are meant; the one that would have run if it is not given.
    #[arg(long, value_name = "PROGRAM", requires = "all")]
    of: Option<String>,
}

/// The running instances of durable functions that a rehearsal found to diverge, with their await.
pub(crate) fn diverging_functions(report: &Value) -> impl Iterator<Item = String> {
    report["functions"].as_array().into_iter().flatten().map(|found| {
        let text = |name: &str| found[name].as_str().unwrap_or_default();
        format!("{}: {}", text("instance"), text("detail"))
    })
}

impl Replay {
    pub(super) async fn run(self, out: Out) -> Outcome {
        if let (Some(bundle), Some(program)) = (self.bundle.clone(), self.program.clone()) {
            let compare = match (self.open_work, self.outputs_only) {
                (true, _) => BundleCompare::OpenWork,
                (false, true) => BundleCompare::Steps(Compare::Outputs),
                (false, false) => BundleCompare::Steps(Compare::Everything),
            };
            let report = replay_bundle::rehearsed(out, bundle, program.into(), compare).await?;
            return self.report(out, &[report]);
        }
        let worlds = match (&self.world, self.of.as_ref().or(self.program.as_ref()).or(self.manifest.as_ref())) {
            (Some(world), _) => vec![world.clone()],
            (None, Some(of)) => {
                let looked_at = Progress::default();
                looked_at.during(out, "looking for worlds,", count, self.worlds_of(of, &looked_at)).await?
            }
            (None, None) => Vec::new(),
        };
        let (progress, mut reports) = (Progress::of(worlds.len() as u64), Vec::new());
        let work = async {
            for world in worlds {
                let path = self.server.of(&format!("worlds/{}/rehearse", escape(&world)));
                reports.push(self.server.post(&path, &self.form()).await?);
                progress.add(1);
            }
            Ok(())
        };
        let done: Outcome = progress.during(out, "rehearsing", count, work).await;
        done?;
        self.report(out, &reports)
    }

    fn form(&self) -> Value {
        let Self { program, manifest, from, to, outputs_only, open_work, .. } = self;
        json!({
            "program": program, "manifest": manifest, "from": from, "to": to, "outputs_only": outputs_only,
            "open_work": open_work,
        })
    }

    fn report(&self, out: Out, reports: &[Value]) -> Outcome {
        let differs = |report: &&Value| !report["divergence"].is_null() || diverging_functions(report).next().is_some();
        let diverges = reports.iter().filter(differs).count();
        if out.is_json() || self.all {
            let row = |report: &Value| {
                let mut row = report.clone();
                row["diverges_at"] = report["divergence"]["height"].clone();
                row["functions_diverging"] = json!(diverging_functions(report).count());
                row
            };
            let rows: Vec<Value> = reports.iter().map(row).collect();
            let columns = [
                ("NAME", "world_name"),
                ("WORLD", "world"),
                ("FROM", "from"),
                ("TO", "to"),
                ("RECORDS", "records"),
                ("DIVERGES", "diverges_at"),
                ("FUNCTIONS", "functions_diverging"),
            ];
            out.rows(&columns, &rows, &Value::Null)?;
        } else if let Some(report) = reports.first() {
            out.object(report)?;
        }
        for report in reports {
            let world = report["world"].as_str().unwrap_or_default();
            diverging_functions(report).for_each(|named| eprintln!("{world}: {named}"));
        }
        eprintln!("worlds rehearsed: {}, of which diverge: {diverges}", reports.len());
        let first = reports.iter().find_map(|report| Some((report, report["divergence"]["height"].as_u64()?)));
        match first {
            Some((report, height)) => {
                let world = report["world_name"].as_str().or(report["world"].as_str()).unwrap_or_default();
                let total = reports.len();
                Err(Failed::differs(format!("{diverges} of {total} diverge, first {world} at height {height}")))
            }
            None if diverges > 0 => {
                Err(Failed::differs(format!("{diverges} of {} diverge, in running functions", reports.len())))
            }
            None => Ok(()),
        }
    }

    /// Live worlds under a manifest, which is named by its program or its hash.
    async fn worlds_of(&self, of: &str, looked_at: &Progress) -> Outcome<Vec<String>> {
        let filters = [("state", Some("live".to_owned())), ("program", Some(of.to_owned()))];
        let (worlds, _) = self.server.pages(&self.server.of("worlds"), &filters, &Paging::all()).await?;
        looked_at.add(worlds.len() as u64);
        let found: Vec<_> = worlds.iter().filter_map(|world| world["world"].as_str()).map(str::to_owned).collect();
        match found.is_empty() {
            true => Err(Failed::new(Code::WorldNotFound, format!("no live world runs `{of}`; --of names another one"))),
            false => Ok(found),
        }
    }
}
