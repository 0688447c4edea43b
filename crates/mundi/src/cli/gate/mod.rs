//! `mundi gate`: the stop gate. Replays each fixture of a manifest three times, each in a fresh process, and compares the hashes.
//!
//! Metrics are computed from the fixtures alone: no live data goes in. A fixture passes if it is the one that the manifest names and all its replays have
//! the same hash. Every threshold is exactly 100.

mod earlier;

use super::{
    exit::{Failed, Outcome},
    output::{Out, print},
};
use clap::Args;
use mundi_model::{Code, Hash, child::replay::replay, json};
use mundi_sim::gate_fixtures::{Scenario, artifact};
use serde_json::{Map, Value, json};
use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// Replays of each fixture.
const REPLAYS: usize = 3;
/// Fixtures that are made for each metric.
const FIXTURES: u64 = 4;
const MANIFEST_SCHEMA: &str = "stop_gate.vnext_plus9_manifest@1";
const MANIFEST_HASH: &str = "vnext_plus9_manifest_hash";

#[derive(Args)]
pub(super) struct Gate {
    /// The manifest that names the fixtures.
    #[arg(long, required_unless_present_any = ["make", "replay", "seed", "conformance"])]
    manifest: Option<PathBuf>,
    /// Makes the fixtures and their manifest anew, in this folder.
    #[arg(long, value_name = "FOLDER", conflicts_with = "manifest")]
    make: Option<PathBuf>,
    /// Replays one fixture, and prints the hash. The gate starts this.
    #[arg(long, value_name = "FILE", hide = true)]
    replay: Option<PathBuf>,
    /// Adds the earlier metrics: replay of worlds, determinism of the simulator, conformance of the reference engine.
    #[arg(long, requires = "manifest")]
    earlier: bool,
    /// Simulates one seed, and prints the hash of all that happened. The gate starts this.
    #[arg(long, value_name = "N", hide = true)]
    seed: Option<u64>,
    /// Tries the contract of engines, and prints how many properties hold. The gate starts this.
    #[arg(long, hide = true)]
    conformance: bool,
}

impl Gate {
    pub(super) fn run(self, out: Out) -> Outcome {
        if let Some(seed) = self.seed {
            return print(&earlier::seed(seed)?);
        }
        if self.conformance {
            return print(&earlier::conformance()?);
        }
        match (self.replay, self.make, self.manifest) {
            (Some(file), ..) => {
                let hash = replay(&read(&file)?).map_err(|invalid| Failed::coded(&invalid))?;
                print(&hash.to_hex())
            }
            (None, Some(folder), _) => make(&folder),
            (None, None, Some(manifest)) => judge(&manifest, self.earlier, out),
            (None, None, None) => Err(Failed::usage("name a manifest")),
        }
    }
}

fn of_io(path: &Path) -> impl Fn(io::Error) -> Failed {
    move |error| Failed::new(Code::of_folder(error.kind()), format!("{}: {error}", path.display()))
}

fn read(path: &Path) -> Outcome<Vec<u8>> {
    fs::read(path).map_err(of_io(path))
}

/// The hash of a manifest: of its canonical JSON without the hash.
fn manifest_hash(manifest: &Value) -> String {
    let mut payload = manifest.clone();
    if let Some(fields) = payload.as_object_mut() {
        fields.remove(MANIFEST_HASH);
    }
    Hash::of(json::to_canonical(&payload).as_bytes()).to_hex()
}

fn make(folder: &Path) -> Outcome {
    fs::create_dir_all(folder).map_err(of_io(folder))?;
    let mut metrics = Map::new();
    for scenario in Scenario::ALL {
        let mut entries = Vec::new();
        for seed in 0..FIXTURES {
            let name = format!("{}-{seed}.json", scenario.metric().trim_end_matches("_pct"));
            let made = artifact(scenario, seed).map_err(|error| Failed::coded(&error))?;
            let (bytes, path) = (json::to_canonical(&made), folder.join(&name));
            fs::write(&path, &bytes).map_err(of_io(&path))?;
            entries.push(json!({"fixture": name, "sha256": Hash::of(bytes.as_bytes()).to_hex()}));
        }
        metrics.insert(scenario.metric().to_owned(), entries.into());
    }
    let mut manifest = json!({"schema": MANIFEST_SCHEMA, "metrics": metrics});
    manifest[MANIFEST_HASH] = manifest_hash(&manifest).into();
    let path = folder.join("vnext_plus9_manifest.json");
    fs::write(&path, json::to_canonical(&manifest)).map_err(of_io(&path))
}

/// Why nothing can be measured by a manifest: its hash is not its own, or it is not of the schema `stop_gate.vnext_plus9_manifest@1`.
fn manifest_fault(manifest: &Value, own: &str) -> Option<Failed> {
    let named = manifest[MANIFEST_HASH].as_str().unwrap_or_default();
    if named != own {
        let reason = format!("the manifest says {named}, and its hash is {own}");
        return Some(Failed::new(Code::UrmGateManifestStale, reason));
    }
    let has_fields = |value: &Value, names: &[&str]| {
        let fields = value.as_object();
        fields.is_some_and(|fields| fields.len() == names.len() && names.iter().all(|name| fields.contains_key(*name)))
    };
    let is_hash = |text: &str| text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_entry = |entry: &Value| {
        has_fields(entry, &["fixture", "sha256"])
            && entry["fixture"].is_string()
            && entry["sha256"].as_str().is_some_and(is_hash)
    };
    let are_entries = |entries: &Value| entries.as_array().is_some_and(|it| !it.is_empty() && it.iter().all(is_entry));
    let metrics = Scenario::ALL.map(Scenario::metric);
    let is_one = manifest["schema"] == MANIFEST_SCHEMA
        && has_fields(manifest, &["schema", "metrics", MANIFEST_HASH])
        && has_fields(&manifest["metrics"], &metrics)
        && metrics.iter().all(|metric| are_entries(&manifest["metrics"][*metric]));
    (!is_one)
        .then(|| Failed::new(Code::JsonMalformed, format!("the manifest is not of the schema `{MANIFEST_SCHEMA}`")))
}

fn judge(path: &Path, with_earlier: bool, out: Out) -> Outcome {
    let manifest = json::from_canonical(&read(path)?).map_err(|error| Failed::coded(&error))?;
    let own = manifest_hash(&manifest);
    let fault = manifest_fault(&manifest, &own);
    let folder = path.parent().unwrap_or(Path::new("."));
    let (mut metrics, mut failures) = (Map::new(), Vec::new());
    for scenario in Scenario::ALL {
        let metric = scenario.metric();
        let entries = manifest["metrics"][metric].as_array().map_or(&[][..], Vec::as_slice);
        let mut fail = |fixture: &str, failed: &Failed| {
            let (code, reason) = (failed.code.unwrap_or(Code::ReplayDiverged).as_str(), failed.detail());
            failures.push(json!({"metric": metric, "fixture": fixture, "code": code, "reason": reason}));
        };
        let mut passed = 0;
        // Without a manifest that holds, no fixture is the one that is meant.
        match &fault {
            Some(fault) => fail(&path.file_name().unwrap_or_default().to_string_lossy(), fault),
            None => {
                for entry in entries {
                    match check(folder, entry) {
                        Ok(()) => passed += 1,
                        Err(failed) => fail(entry["fixture"].as_str().unwrap_or_default(), &failed),
                    }
                }
            }
        }
        let pct = if entries.is_empty() { 0.0 } else { 100.0 * f64::from(passed) / entries.len() as f64 };
        metrics.insert(
            metric.to_owned(),
            json!({"passed": passed, "total": entries.len(), "pct": pct, "threshold": 100.0}),
        );
    }
    if with_earlier {
        let (measured, failed) = earlier::measure()?;
        metrics.extend(measured);
        failures.extend(failed);
    }
    let all_passed = failures.is_empty();
    let report = json!({
        "schema": "stop_gate_metrics@1", MANIFEST_HASH: own, "replays_per_fixture": REPLAYS,
        "metrics": metrics, "failures": failures, "all_passed": all_passed,
    });
    out.value(&report)?;
    if all_passed { Ok(()) } else { Err(Failed::differs("a threshold of the stop gate is not met")) }
}

/// Whether a fixture is the one that is meant, and leads to one hash in every replay.
fn check(folder: &Path, entry: &Value) -> Outcome {
    let path = folder.join(entry["fixture"].as_str().unwrap_or_default());
    let found = Hash::of(&read(&path)?).to_hex();
    if entry["sha256"] != found.as_str() {
        return Err(Failed::new(Code::UrmGateArtifactChanged, format!("its hash is {found}")));
    }
    let hashes: Vec<_> = (0..REPLAYS).map(|_| replay_apart(&path)).collect::<Result<_, _>>()?;
    match hashes.windows(2).all(|pair| pair[0] == pair[1]) {
        true => Ok(()),
        false => Err(Failed::new(Code::ReplayDiverged, format!("its replays have the hashes {}", hashes.join(", ")))),
    }
}

/// Replays a fixture in a process of its own.
fn replay_apart(path: &Path) -> Outcome<String> {
    run_apart(&["--replay".as_ref(), path.as_os_str()])
}

/// Runs a part of the gate in a process of its own; what it prints.
fn run_apart(part: &[&OsStr]) -> Outcome<String> {
    let program = std::env::current_exe().map_err(of_io(Path::new("mundi")))?;
    let ran = Command::new(&program).args(["gate", "--format", "json"]).args(part).output();
    let ran = ran.map_err(of_io(&program))?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    let code = Code::ALL.iter().copied().find(|code| said.contains(code.as_str()));
    Err(code.map_or_else(|| Failed::plain(said.clone()), |code| Failed::new(code, said.trim().to_owned())))
}
