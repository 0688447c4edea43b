//! `mundi doctor`: checks a data folder or a server, and prints problems with what to do.

use super::{
    ServerArgs,
    client::{Paging, Server},
    exit::{Failed, Outcome},
    output::Out,
    world,
};
use clap::Args;
use mundi_model::Code;
use mundi_server::{
    config::Config,
    hardening,
    signs::{Sign, Verdict},
};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct Doctor {
    /// A data folder that no server has open; without it, the server is checked.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// A configuration file whose engine and object store are checked instead.
    #[arg(long, env = "MUNDI_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Also replay every world of the folder.
    #[arg(long)]
    worlds: bool,
    /// Check the database and the object store of the configuration: settings, permissions, clocks.
    #[arg(long, conflicts_with = "data")]
    fleet: bool,
    #[command(flatten)]
    server: Server,
}

/// Below this, a disk is nearly full.
const ROOM_BYTES_MIN: u64 = 1 << 30;

/// The checks and their findings.
struct Findings(Vec<Value>);

impl Findings {
    fn good(&mut self, check: &str, found: impl Into<String>) {
        self.0.push(json!({ "check": check, "verdict": "ok", "found": found.into(), "do": null }));
    }

    fn warn(&mut self, check: &str, found: impl Into<String>, what: &str) {
        self.0.push(json!({ "check": check, "verdict": "look", "found": found.into(), "do": what }));
    }

    fn bad(&mut self, check: &str, found: impl Into<String>, what: &str) {
        self.0.push(json!({ "check": check, "verdict": "WRONG", "found": found.into(), "do": what }));
    }

    fn sign(&mut self, Sign { check, verdict, found, advice }: &Sign) {
        match verdict {
            Verdict::Good => self.good(check, found),
            Verdict::Look => self.warn(check, found, advice),
            Verdict::Wrong => self.bad(check, found, advice),
        }
    }

    fn report(&self, out: Out) -> Outcome {
        let columns = [("CHECK", "check"), ("VERDICT", "verdict"), ("FOUND", "found"), ("DO", "do")];
        out.rows(&columns, &self.0, &Value::Null)?;
        let wrong = self.0.iter().filter(|finding| finding["verdict"] == "WRONG").count();
        if wrong == 0 { Ok(()) } else { Err(Failed::unproven(format!("checks that found something wrong: {wrong}"))) }
    }
}

impl Doctor {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let mut findings = Findings(Vec::new());
        if self.fleet {
            fleet_checks(self.config.as_deref(), &mut findings).await?;
            return findings.report(out);
        }
        if self.data.is_none() && self.config.is_none() {
            server_checks(&self.server, &mut findings).await;
            return findings.report(out);
        }
        let args = ServerArgs {
            data: self.data.clone(),
            config: self.config.clone(),
            bind: None,
            roles: None,
            replay_log: None,
        };
        let config = args.load()?;
        security_checks(&config, self.config.as_deref(), &mut findings);
        let there = config.engine.is_shared() || folder_checks(&config.data.folder, &mut findings);
        let healthy = there && engine_checks(&config, out, &mut findings).await;
        findings.report(out)?;
        if healthy && self.worlds { world::offline(&config, out).await } else { Ok(()) }
    }
}

/// Violations of the checklist in docs/operating/security.md.
fn security_checks(config: &Config, file: Option<&Path>, findings: &mut Findings) {
    for sign in hardening::look(config, file) {
        findings.sign(&sign);
    }
}

#[cfg(feature = "postgres")]
async fn fleet_checks(config: Option<&Path>, findings: &mut Findings) -> Outcome {
    use mundi_server::{checkup, config::environment};
    let file = config;
    let config = Config::load(file, environment(), &[]).map_err(|error| Failed::coded(&error))?;
    checkup::look(&config).await.iter().for_each(|sign| findings.sign(sign));
    security_checks(&config, file, findings);
    Ok(())
}

#[cfg(not(feature = "postgres"))]
async fn fleet_checks(_config: Option<&Path>, _findings: &mut Findings) -> Outcome {
    Err(Failed::plain("this build has no database to look at: it lacks the feature `postgres`"))
}

fn folder_checks(folder: &Path, findings: &mut Findings) -> bool {
    if !folder.is_dir() {
        findings.bad(
            "folder",
            format!("{} is not there", folder.display()),
            "give the folder that `mundi dev` printed",
        );
        return false;
    }
    findings.good("folder", folder.display().to_string());
    let probe = folder.join(".doctor");
    match std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe)) {
        Ok(()) => findings.good("writable", "yes"),
        Err(error) => {
            findings.bad("writable", error.to_string(), "make the disk writable, or change the folder's owner");
        }
    }
    match rustix::fs::statvfs(folder) {
        Ok(disk) => {
            let room = disk.f_bavail.saturating_mul(disk.f_frsize);
            match room < ROOM_BYTES_MIN {
                true => findings.warn(
                    "room",
                    super::progress::bytes(room),
                    "make room: commits are refused when none is left",
                ),
                false => findings.good("room", super::progress::bytes(room)),
            }
        }
        Err(error) => findings.warn("room", error.to_string(), "the disk does not say how full it is"),
    }
    if !folder.join("engine").is_dir() {
        findings.bad("engine", "there is none", "this is no data folder; `mundi dev --data DIR` makes one");
        return false;
    }
    true
}

async fn engine_checks(config: &Config, out: Out, findings: &mut Findings) -> bool {
    let node = match world::open_quietly(config, out).await {
        Ok(node) => node,
        Err(error) => {
            let what = match error.code {
                Some(Code::FolderInUse) => "a server runs on it: ask it instead, `mundi doctor --url URL`",
                Some(Code::FolderVersion) => "use the version of mundi that wrote it",
                Some(Code::EngineCorrupt) => "restore a backup; the message names file and offset",
                _ => "`mundi explain CODE` says what to do",
            };
            let code = error.code.map_or("", Code::as_str);
            findings.bad("engine", format!("{code} {}", error.detail()), what);
            return false;
        }
    };
    findings.good("engine", "opens");
    for universe in node.universes() {
        let page = universe.ops().list_worlds(mundi_store::protocol::WorldFilter::default(), None, 1_000).await;
        match page {
            Ok(page) => {
                let more = if page.next.is_some() { " or more" } else { "" };
                findings.good(&format!("universe {}", universe.name()), format!("{} worlds{more}", page.items.len()));
            }
            Err(error) => {
                findings.bad(
                    &format!("universe {}", universe.name()),
                    error.to_string(),
                    "`mundi explain CODE` says what to do",
                );
            }
        }
    }
    node.stop().await;
    true
}

/// Whether a worker has capacity for another active world.
fn room(workers: &Value, findings: &mut Findings) {
    let number = |worker: &Value, name: &str| worker[name].as_u64().unwrap_or(0);
    let takes = |worker: &&Value| worker["draining"] != true;
    let living: Vec<&Value> = workers.as_array().into_iter().flatten().filter(takes).collect();
    let left: u64 = living.iter().map(|it| number(it, "worlds_max").saturating_sub(number(it, "worlds"))).sum();
    let most: u64 = living.iter().map(|it| number(it, "worlds_max")).sum();
    match left {
        0 => findings.bad(
            "worlds",
            format!("no worker has room: {most} worlds have something to do"),
            "worlds wait: start another node with the role `world`, or raise node.worlds_max",
        ),
        _ => findings.good("worlds", "there is room"),
    }
}

/// Whether an authority is on this machine.
fn is_loopback(authority: &str) -> bool {
    let authority = authority.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

async fn server_checks(server: &Server, findings: &mut Findings) {
    match server.ask(Method::GET, "/livez", None).await {
        Ok(_) => findings.good("answers", server.url()),
        Err(error) => {
            findings.bad("answers", error.detail(), "start one with `mundi dev`, or say where it is with --url");
            return;
        }
    }
    if server.url().strip_prefix("http://").is_some_and(|rest| !is_loopback(rest)) {
        let what = "set api.tls, or reach it through a tunnel";
        findings.warn("tls", "tokens and data travel in clear", what);
    }
    match server.ask(Method::GET, "/readyz", None).await {
        Ok(_) => findings.good("ready", "yes"),
        Err(error) => findings.warn("ready", error.detail(), "it drains, or its engine does not answer"),
    }
    match server.get(&server.of("workers")).await {
        Ok(workers) => match workers.as_array().map_or(0, Vec::len) {
            0 => findings.bad("workers", "none lives", "no world runs: start a node with the role `world`"),
            count => {
                findings.good("workers", format!("{count} live"));
                room(&workers, findings);
            }
        },
        Err(error) => findings.bad("workers", error.detail(), "look at --universe and --token"),
    }
    for (check, filter, what) in [
        ("failed worlds", "failed", "`mundi world list --failed` lists them, `mundi world describe` says why"),
        ("worlds on hold", "on_hold", "`mundi world list --on-hold` lists them; retry, skip or upgrade each"),
    ] {
        let only = [(filter, Some("true".to_owned()))];
        match server.pages(&server.of("worlds"), &only, &Paging::first(100)).await {
            Ok((worlds, _)) if worlds.is_empty() => findings.good(check, "none"),
            Ok((worlds, next)) => {
                let more = if next.is_null() { "" } else { " or more" };
                findings.warn(check, format!("{}{more}", worlds.len()), what);
            }
            Err(error) => findings.bad(check, error.detail(), "`mundi explain CODE` says what to do"),
        }
    }
    for queue in ["effects", "timers", "mailboxes", "inboxes"] {
        let one = [("queue", Some(queue.to_owned()))];
        match server.pages(&server.of("dead-letters"), &one, &Paging::first(100)).await {
            Ok((letters, _)) if letters.is_empty() => findings.good(&format!("dead {queue}"), "none"),
            Ok((letters, next)) => {
                let more = if next.is_null() { "" } else { " or more" };
                let what = "`mundi dead-letter list` shows why; replay or drop them";
                findings.warn(&format!("dead {queue}"), format!("{}{more}", letters.len()), what);
            }
            Err(error) => {
                findings.bad(&format!("dead {queue}"), error.detail(), "`mundi explain CODE` says what to do");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_without_room_for_another_world_is_wrong_and_a_worker_that_drains_has_none() {
        let worker = |worlds: u64, draining: bool| json!({ "worlds": worlds, "worlds_max": 10, "draining": draining });
        let verdict = |workers: &[Value]| {
            let mut findings = Findings(Vec::new());
            room(&json!(workers), &mut findings);
            findings.0[0]["verdict"].clone()
        };
        assert_eq!(verdict(&[worker(10, false), worker(9, false)]), "ok");
        assert_eq!(verdict(&[worker(10, false), worker(0, true)]), "WRONG");
        assert_eq!(verdict(&[worker(11, false)]), "WRONG");
    }

    #[test]
    fn a_server_on_this_machine_is_told_apart_from_one_elsewhere() {
        assert!(["localhost:7600", "127.0.0.1", "127.0.0.1:1/x", "[::1]:7600"].iter().all(|here| is_loopback(here)));
        assert!(!["example.org", "10.0.0.7:7600", "localhost.example.org:1"].iter().any(|there| is_loopback(there)));
    }
}
