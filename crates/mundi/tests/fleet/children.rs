//! Two hundred parents with five children each, while the processes that run the children are killed and stopped, and a process that runs parents
//! is killed with them. The children themselves write down that they ran, which nobody else does.

use crate::{member::Fleet, setting};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const LEASE: Duration = Duration::from_secs(3);
const CHILDREN: usize = 5;
/// Requests at a time.
const CLIENTS: usize = 8;
/// Requests may meet a process that was just killed: they are sent again under their names.
const TRIES_MAX: usize = 300;
/// Long enough for the leases of children to run out, and for the rest to be dispatched.
const POLLS_MAX: usize = 600;

struct Api {
    http: reqwest::Client,
    url: String,
}

impl Api {
    async fn ask(&self, method: reqwest::Method, path: &str, body: &Value) -> Value {
        let url = format!("{}/v1/u/default{path}", self.url);
        let mut last = String::new();
        for attempt in 0..TRIES_MAX {
            match self.http.request(method.clone(), &url).body(body.to_string()).send().await {
                Ok(answer) => {
                    let (status, text) = (answer.status(), answer.text().await.unwrap_or_default());
                    // What an earlier attempt made is there.
                    let is_made = attempt > 0 && text.contains("WORLD_EXISTS");
                    if status.is_success() || is_made {
                        return serde_json::from_str(&text).unwrap_or(Value::Null);
                    }
                    assert!(status.is_server_error() || status == 429, "{path}: {status} {text}");
                    last = text;
                }
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{path}: {last}");
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        self.ask(reqwest::Method::POST, path, body).await
    }

    async fn get(&self, path: &str) -> Value {
        self.ask(reqwest::Method::GET, path, &Value::Null).await
    }

    async fn manifest(&self) -> Value {
        let programs = self.get("/programs").await;
        let kv = programs.as_array().unwrap().iter().find(|program| program["name"] == "kv").unwrap();
        let manifest = json!({ "program": kv["program"], "effects": { "child.spawn": {} } });
        self.post("/manifests", &manifest).await["hash"].clone()
    }

    /// Whether parents are assigned to a worker.
    async fn holds_worlds(&self, worker: u64) -> bool {
        let held = self.get(&format!("/assignments/k_{worker:016x}")).await;
        held["items"].as_array().is_some_and(|worlds| !worlds.is_empty())
    }

    async fn children(&self, parent: usize) -> Vec<Value> {
        self.get(&format!("/worlds/p-{parent}/children?limit=100")).await["items"].as_array().unwrap().clone()
    }
}

/// How often each child wrote that it runs.
fn runs(log: &Path) -> BTreeMap<String, usize> {
    let mut runs = BTreeMap::new();
    for line in std::fs::read_to_string(log).unwrap_or_default().lines() {
        *runs.entry(line.to_owned()).or_default() += 1;
    }
    runs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_child_runs_twice_and_none_is_lost_whatever_becomes_of_their_executors() {
    let _before = rustls::crypto::ring::default_provider().install_default();
    let parents = usize::try_from(setting("MUNDI_CHILD_PARENTS", 200)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (log, config) = (folder.path().join("runs"), folder.path().join("mundi.toml"));
    let script = format!("echo $MUNDI_CHILD >> {}; /bin/sleep 0.1", log.display());
    let command = format!("program = \"/bin/sh\"\nargs = [\"-c\", \"{script}\"]\nfolder = \"/\"\n");
    std::fs::write(&config, format!("[process.commands.note]\n{command}")).unwrap();

    let fleet = Fleet::start(LEASE);
    let mut api = fleet.member("api,world,timer,orchestrator");
    fleet.launch(&mut api);
    let mut worlds = fleet.member("world");
    fleet.launch(&mut worlds);
    let mut killed = fleet.member("adapter").configured(&config);
    let mut stopped = fleet.member("adapter").configured(&config);
    fleet.launch(&mut killed);
    fleet.launch(&mut stopped);
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(60)).build().unwrap();
    let asked = Arc::new(Api { http, url: api.url.clone() });
    let manifest = asked.manifest().await;
    let (next, spawned) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (asked, next, spawned, manifest) = (asked.clone(), next.clone(), spawned.clone(), manifest.clone());
            tokio::spawn(async move {
                while let Some(parent) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|parent| *parent < parents) {
                    asked.post("/worlds", &json!({ "world": format!("p-{parent}"), "manifest": manifest })).await;
                    for number in 0..CHILDREN {
                        let form = json!({
                            "kind": "process", "params": { "command": "note" }, "client_request_id": format!("{number}"),
                        });
                        asked.post(&format!("/worlds/p-{parent}/children"), &form).await;
                        spawned.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();

    // One executor dies again and again in the middle of it, each time with what it runs, and with it a process that holds parents. The other
    // executor is stopped until long after its leases.
    let (all, mut holders_killed) = (parents * CHILDREN, 0);
    for quarter in 1..4 {
        while spawned.load(Ordering::Relaxed) < all * quarter / 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let is_holding = asked.holds_worlds(worlds.worker).await;
        holders_killed += usize::from(is_holding);
        worlds.kill();
        killed.kill();
        if quarter == 2 {
            stopped.signal("-STOP");
        }
        fleet.launch(&mut worlds);
        fleet.launch(&mut killed);
    }
    assert!(holders_killed > 0, "no process that held a parent was killed");
    for client in clients {
        client.await.unwrap();
    }
    let mut open: Vec<usize> = (0..parents).collect();
    let mut ended = BTreeMap::new();
    for _ in 0..POLLS_MAX {
        let mut left = Vec::new();
        for parent in open {
            let children = asked.children(parent).await;
            assert_eq!(children.len(), CHILDREN, "a child of p-{parent} is lost");
            if children.iter().any(|child| child["phase"] != "terminal") {
                left.push(parent);
                continue;
            }
            ended.extend(children.into_iter().map(|child| (child["child_id"].as_str().unwrap().to_owned(), child)));
        }
        open = left;
        if open.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    assert!(open.is_empty(), "children of {} parents have not ended", open.len());

    // What the stopped one leased and had not started must not start now.
    let before = runs(&log);
    stopped.signal("-CONT");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let runs = runs(&log);
    assert_eq!(runs, before, "a process that lost its leases started children");
    let mut codes = BTreeMap::<String, usize>::new();
    for (child, token) in &ended {
        let (code, ran) = (token["code"].as_str().unwrap_or("ok"), runs.get(child).copied().unwrap_or(0));
        let may_run = match code {
            "ok" => 1..=1,
            // It may have died before its first line.
            "URM_CHILD_TERMINATED_ON_RESTART" => 0..=1,
            "URM_SCHEDULER_LEASE_ORPHANED" => 0..=0,
            other => panic!("{child} ended with {other}: {token}"),
        };
        assert!(may_run.contains(&ran), "{child} ended with {code} and ran {ran} times");
        *codes.entry(code.to_owned()).or_default() += 1;
    }
    println!("{codes:?}");
    assert_eq!((ended.len(), runs.len()), (all, runs.keys().filter(|child| ended.contains_key(*child)).count()));
    assert!(codes.len() > 1 && codes["ok"] > all / 4, "the troubles met nothing, or everything: {codes:?}");
    api.proves_every_world(parents as u64);
}
