//! `mundi program dev`: rebuilds and redeploys a project after each save.
//!
//! The folder is looked at a few times a second: its files, by time and size. With each change the types are made, the tests
//! run beside the build and the upload, and if all went well a world is switched to the component, also if it is paused or on hold. A world
//! whose open work the new program would treat differently is left as it is, and a fork of it that runs the new program takes its place.

use super::{
    client::{Server, escape},
    exit::{Failed, Outcome},
    output::{Out, print},
    program::upload,
    program_upgrade::runs,
    world::brief,
};
use clap::Args;
use mundi_model::Code;
use mundi_wasm::build::{Builder, Project, test};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs, io,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};
use tokio::task::{AbortHandle, block_in_place};

/// The interval between two walks of the folder: short for a person, long compared with a walk.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The most files that are watched. A folder with more is not a project, or contains something that should not be watched.
const FILES_MAX: usize = 10_000;

/// Generated files and folders, and the data of a `mundi dev` that was started in the project's folder. What begins with a dot is not
/// watched, either.
const MADE: [&str; 7] =
    ["target", "node_modules", "__pycache__", "program.wasm", "Cargo.lock", "package-lock.json", "mundi-data"];

/// How long a world may take to process an upgrade.
const TAKEN_UP: Duration = Duration::from_secs(30);

/// How a world was switched to a new program.
const CREATED: &str = "created";

/// The most worlds that are tried, each because the one before cannot be switched.
const WORLDS_MAX: usize = 100;

/// How long a world on hold may take to stand at its failed input again after an upgrade.
const HELD_AGAIN: Duration = Duration::from_secs(5);
const LOOK_AGAIN_EVERY: Duration = Duration::from_millis(20);

#[derive(Args)]
pub(super) struct Dev {
    #[command(flatten)]
    server: Server,
    /// The project's folder.
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// The world that runs the program; created if it does not exist. If its upgrade diverges, a fork of it, NAME-2, runs the
    /// program instead, and so on.
    #[arg(long, value_name = "NAME")]
    world: String,
    /// Does not run the project's tests.
    #[arg(long)]
    no_test: bool,
    /// Installs missing compilers from the package registries (not rustc).
    #[arg(long)]
    install: bool,
}

/// The world that runs the program, and the tasks that print what it does and logs.
struct Running {
    world: String,
    tails: [AbortHandle; 2],
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tails.iter().for_each(AbortHandle::abort);
    }
}

impl Dev {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let project = Project::open(&self.folder).map_err(|error| Failed::coded(&error))?;
        let (mut seen, mut running) = (BTreeMap::new(), None);
        loop {
            // What is saved while the tools run is found by the look after.
            let now = block_in_place(|| look(&project))?;
            if seen == now {
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            seen = now;
            let Err(failed) = self.bring(out, &mut running).await else { continue };
            tell(out, "failed", &json!({ "code": failed.code.map(Code::as_str), "detail": failed.detail() }))?;
            // A project that does not build is what this is for; a server that was never there is not.
            if failed.code.is_none() && running.is_none() {
                return Err(failed);
            }
        }
    }

    /// Tests, builds, uploads, and switches a world to the result.
    #[expect(clippy::disallowed_methods, reason = "how long it took is told, and nothing depends on it")]
    async fn bring(&self, out: Out, running: &mut Option<Running>) -> Outcome {
        let since = Instant::now();
        tell(out, "building", &json!({ "folder": self.folder.display().to_string() }))?;
        let stored = self.test_and_store(out).await?;
        let manifest = stored["hash"].as_str().unwrap_or_default();
        let from = running.as_ref().map(|running| running.world.clone());
        let (world, how) = self.point(from, manifest).await?;
        if running.as_ref().is_none_or(|running| running.world != world) {
            let tails = [Feed::Journal, Feed::Logs].map(|feed| {
                let tail = Tail { server: self.server.clone(), world: world.clone(), feed, out };
                tokio::spawn(tail.run(how == CREATED)).abort_handle()
            });
            *running = Some(Running { world: world.clone(), tails });
        }
        let took_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        tell(out, "running", &json!({ "world": world, "how": how, "manifest": manifest, "took_ms": took_ms }))
    }

    /// The manifest of the component, if the tests pass. They run beside the build and beside the server's compiler: whoever waits for all of them
    /// waits for the longest.
    async fn test_and_store(&self, out: Out) -> Outcome<Value> {
        let builder = Builder { install: self.install, quick: true, ..Builder::default() };
        let project = block_in_place(|| builder.types(&self.folder)).map_err(|error| Failed::coded(&error))?;
        let tests = (!self.no_test).then(|| tokio::task::spawn_blocking(move || test(&project)));
        let stored = match block_in_place(|| builder.build(&self.folder)) {
            Ok(built) => upload(&self.server, out, &built.path, None).await,
            Err(error) => Err(Failed::coded(&error)),
        };
        let tested = match tests {
            Some(tests) => tests.await?.map_err(|error| Failed::coded(&error)),
            None => Ok(()),
        };
        // What does not build says more about itself than its tests do.
        let stored = stored?;
        tested.map(|()| stored)
    }

    /// Switches a world to the manifest: the last one, else the named one, else the next one whose history the program
    /// treats the same. The first name that is free becomes a fork of the world before it. Returns which, and how it was switched.
    async fn point(&self, from: Option<String>, manifest: &str) -> Outcome<(String, &'static str)> {
        let names = (1..=WORLDS_MAX).map(|n| if n == 1 { self.world.clone() } else { format!("{}-{n}", self.world) });
        let names = names.skip_while(|name| from.as_ref().is_some_and(|from| name != from));
        let mut parent = None;
        for name in names {
            match self.try_world(&name, parent.as_deref(), manifest).await? {
                Tried::Switched(how) => return Ok((name, how)),
                Tried::Diverges => {
                    eprintln!(
                        "{name} would treat its open work differently: it stays as it is, and a fork replaces it"
                    );
                    parent = Some(name);
                }
                Tried::Gone(state) => {
                    eprintln!("{name} is {state}: another world replaces it");
                    parent = None;
                }
            }
        }
        let detail = format!("{WORLDS_MAX} worlds from {} on diverge: delete some, or give another name", self.world);
        Err(Failed::new(Code::UpgradeDiverges, detail))
    }

    /// Switches a world to the manifest, if that is possible. A world that does not exist is made: a fork of the parent, if there is one.
    async fn try_world(&self, world: &str, parent: Option<&str>, manifest: &str) -> Outcome<Tried> {
        let at = self.server.of(&format!("worlds/{}", escape(world)));
        let found = match (self.server.get(&at).await, parent) {
            (Err(failed), None) if failed.code == Some(Code::WorldNotFound) => {
                self.server.post(&self.server.of("worlds"), &json!({ "world": world, "manifest": manifest })).await?;
                return Ok(Tried::Switched(CREATED));
            }
            (Err(failed), Some(parent)) if failed.code == Some(Code::WorldNotFound) => {
                let fork = self.server.of(&format!("worlds/{}/fork", escape(parent)));
                self.server.post(&fork, &json!({ "world": world, "manifest": manifest })).await?;
                let does_run = runs(&self.server, world, manifest, TAKEN_UP).await;
                return Ok(Tried::Switched(if does_run {
                    "forked"
                } else {
                    "forked: its first step with the new program fails"
                }));
            }
            // It was deleted, and its id is never used again.
            (Err(failed), _) if failed.code == Some(Code::WorldDeleted) => return Ok(Tried::Gone("deleted")),
            (found, _) => found?,
        };
        if found["manifest"] == manifest {
            return Ok(Tried::Switched("unchanged"));
        }
        match found["state"].as_str() {
            Some("archived") => return Ok(Tried::Gone("archived")),
            Some("deleting" | "deleted") => return Ok(Tried::Gone("deleted")),
            _ => {}
        }
        match self.server.post(&format!("{at}/upgrade"), &json!({ "manifest": manifest })).await {
            Err(failed) if failed.code == Some(Code::UpgradeDiverges) => return Ok(Tried::Diverges),
            sent => drop(sent?),
        }
        let is_taken = runs(&self.server, world, manifest, TAKEN_UP).await;
        Ok(Tried::Switched(match (is_taken, found["hold"]["failed_input"].is_string(), found["state"] == "paused") {
            (false, ..) => "upgrade sent: the world has not processed it yet, or its step `upgraded` fails",
            (true, true, _) if self.retry(&at).await? => "upgraded, and takes the input again that failed",
            (true, true, _) => "upgraded: it is on hold still, see `mundi world retry`",
            (true, false, true) => "upgraded: it is paused, see `mundi world resume`",
            (true, false, false) => "upgraded",
        }))
    }

    /// Lets a world take the input again at which it is on hold. After an upgrade it is on hold again only when a worker has looked at it:
    /// until then there is nothing to retry.
    async fn retry(&self, at: &str) -> Outcome<bool> {
        let retry = async {
            loop {
                match self.server.post(&format!("{at}/retry"), &Value::Null).await {
                    Err(failed) if failed.code == Some(Code::WorldNotOnHold) => {
                        tokio::time::sleep(LOOK_AGAIN_EVERY).await;
                    }
                    sent => return sent.map(|_| true),
                }
            }
        };
        tokio::time::timeout(HELD_AGAIN, retry).await.unwrap_or(Ok(false))
    }
}

/// Whether a world was switched to a program.
enum Tried {
    /// It was, in this way.
    Switched(&'static str),
    /// It would treat its open work differently.
    Diverges,
    /// It takes nothing: it is in this state.
    Gone(&'static str),
}

/// Metadata of a file, to detect changes without reading it.
type Stamp = (Option<SystemTime>, u64);

/// The files of a project that people edit.
fn look(project: &Project) -> Outcome<BTreeMap<PathBuf, Stamp>> {
    let (mut found, mut folders, types) = (BTreeMap::new(), vec![project.folder.clone()], project.types_path());
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            // Gone while it was looked at; that is a change, and the next look shows it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries.filter_map(Result::ok) {
            let (path, name) = (entry.path(), entry.file_name());
            let Ok(about) = entry.metadata() else { continue };
            let name = name.to_string_lossy();
            if MADE.contains(&&*name) || name.starts_with('.') || path == types {
                continue;
            }
            if about.is_dir() {
                folders.push(path);
            } else if about.is_file() {
                found.insert(path, (about.modified().ok(), about.len()));
            }
            if found.len() + folders.len() > FILES_MAX {
                let why = format!("{} has more than {FILES_MAX} files to watch", folder.display());
                return Err(Failed::new(Code::ProgramRefused, why));
            }
        }
    }
    Ok(found)
}

/// Prints an event: a line for people, or a JSON document in one line.
fn tell(out: Out, what: &str, about: &Value) -> Outcome {
    if out.is_json() {
        let mut document = about.clone();
        document["event"] = what.into();
        return print(&document.to_string());
    }
    let text = |name: &str| about[name].as_str().unwrap_or_default();
    print(&match what {
        "building" => out.dim(&format!("{}: testing and building ...", text("folder"))),
        "running" => {
            let seconds = about["took_ms"].as_u64().unwrap_or(0);
            let took = format!("after {}.{} s", seconds / 1_000, seconds % 1_000 / 100);
            format!("{} {} {}", out.green(&format!("{} runs", text("world"))), text("how"), out.dim(&took))
        }
        "failed" => format!("{} {}", out.red("failed:"), text("detail")),
        _ => format!("{} {}", out.dim(what), text("line")),
    })
}

/// A feed of a world: the records of its journal, or the lines that its program logs.
#[derive(Clone, Copy)]
enum Feed {
    Journal,
    Logs,
}

/// Prints a feed from now on, until it is dropped.
struct Tail {
    server: Server,
    world: String,
    feed: Feed,
    out: Out,
}

impl Tail {
    /// The whole feed of a new world is printed. A stream that the server ends is opened again.
    async fn run(self, is_new: bool) {
        let at = self.server.of(&format!("worlds/{}", escape(&self.world)));
        let mut from = if is_new { None } else { self.end(&at).await };
        loop {
            let path = match (self.feed, from) {
                (Feed::Journal, from) => format!("{at}/journal?from={}", from.unwrap_or(0)),
                (Feed::Logs, None) => format!("{at}/logs"),
                (Feed::Logs, Some(after)) => format!("{at}/logs?after={after}"),
            };
            if let Ok(mut stream) = self.server.stream(&path, "text/event-stream").await {
                let mut rest = Vec::new();
                while let Ok(Some(piece)) = stream.chunk().await {
                    rest.extend_from_slice(&piece);
                    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                        let line: Vec<u8> = rest.drain(..=end).collect();
                        let Some(told) = document_in(&line) else { continue };
                        from = match self.feed {
                            Feed::Journal => told["height"].as_u64().map(|height| height + 1).or(from),
                            Feed::Logs => told["number"].as_u64().or(from),
                        };
                        let shown = match self.feed {
                            Feed::Journal => show(self.out, &self.world, &told),
                            Feed::Logs => show_log(self.out, &self.world, &told),
                        };
                        if shown.is_err() {
                            return;
                        }
                    }
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The present end of the feed: the head of the journal, or the number of the last line.
    async fn end(&self, at: &str) -> Option<u64> {
        match self.feed {
            Feed::Journal => self.server.get(at).await.ok()?["head"].as_u64(),
            Feed::Logs => self.server.get(&format!("{at}/logs?limit=1")).await.ok()?["items"][0]["number"].as_u64(),
        }
    }
}

/// The document in a line of a stream of events, if there is one.
fn document_in(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line.strip_prefix(b"data:")?).ok()
}

/// The reply of a program, or its failure.
fn reply(outcome: &Value) -> String {
    match outcome.get("ok") {
        Some(value) => brief(value),
        None => brief(outcome),
    }
}

/// Shows one line of the program's log.
fn show_log(out: Out, world: &str, logged: &Value) -> Outcome {
    let text = |name: &str| logged[name].as_str().unwrap_or_default();
    let (height, line) = (&logged["height"], format!("{} {}", text("level"), text("text")));
    if out.is_json() {
        return tell(out, "log", &json!({ "world": world, "height": height, "line": line, "log": logged }));
    }
    let line = format!("{world} {height} {line}");
    tell(out, "log", &json!({ "line": if text("level") == "error" { out.red(&line) } else { line } }))
}

/// Shows one record in one line; failures are marked.
fn show(out: Out, world: &str, record: &Value) -> Outcome {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let input = &record["input"];
    let (what, line) = match record["type"].as_str().unwrap_or_default() {
        "step_failed" | "rejected" => ("failure", format!("{}: {}", text(&record["code"]), text(&record["reason"]))),
        "ingress" if !input["event"].is_null() => {
            ("event", format!("{} {}", text(&input["event"]), brief(&input["value"])))
        }
        "ingress" if !input["receipt"].is_null() => {
            ("receipt", format!("{} {} {}", text(&input["status"]), text(&input["kind"]), brief(&input["payload"])))
        }
        "ingress" if !input["timer"].is_null() => ("timer", brief(&input["payload"])),
        "ingress" if !input["message"].is_null() => {
            ("message", format!("{} {}", text(&input["message"]), brief(&input["payload"])))
        }
        "intent" => ("effect", format!("{} {}", text(&record["kind"]), brief(&record["params"]))),
        "reply" => ("reply", reply(&record["outcome"])),
        "manifest_change" => ("program", text(&record["to"])),
        _ => return Ok(()),
    };
    let height = &record["height"];
    if out.is_json() {
        return tell(out, what, &json!({ "world": world, "height": height, "line": line, "record": record }));
    }
    let line = format!("{world} {height} {line}");
    let line = if what == "failure" { out.red(&line) } else { line };
    tell(out, what, &json!({ "line": line }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_wasm::build::{Language, Template, scaffold};

    #[test]
    fn what_people_edit_is_watched_and_what_tools_make_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let project = scaffold(&folder.path().join("tea"), Language::Python, Template::Handler).unwrap();
        let at = |path: &str| project.folder.join(path);
        let before = look(&project).unwrap();
        assert!([at("program.py"), at("mundi.json")].iter().all(|path| before.contains_key(path)), "{before:?}");
        let made = ["vocabulary.py", "program.wasm", "__pycache__/x.pyc", "target/debug/x", ".git/HEAD", "Cargo.lock"];
        for path in made.into_iter().chain(["mundi-data/engine/log/1.log"]) {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), "made").unwrap();
            assert_eq!(look(&project).unwrap(), before, "{path}");
        }
        for path in ["program.py", "more/of/it.py"] {
            let before = look(&project).unwrap();
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), "edited").unwrap();
            assert_ne!(look(&project).unwrap(), before, "{path}");
        }
    }

    #[test]
    fn a_record_is_found_in_a_line_of_events() {
        assert_eq!(document_in(b"data: {\"height\":3}\n").unwrap()["height"], 3);
        assert_eq!((document_in(b"id: 3\n"), document_in(b":\n"), document_in(b"\n")), (None, None, None));
    }
}
