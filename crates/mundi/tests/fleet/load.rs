//! Clients that insist: each event has a key and is sent again until it is acknowledged, through whichever API answers.

use crate::member::Member;
use mundi_model::WorldId;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinHandle;

const WORLDS: &str = "/v1/u/default/worlds";
const CLIENTS: u64 = 8;

/// The acknowledgements of a client, by world: the number of its events that were acknowledged, and of those that it never heard about (at most one).
pub(crate) type Acknowledged = BTreeMap<(String, String), (u64, u64)>;

pub(crate) struct Load {
    apis: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Acknowledged>>,
    pub(crate) ids: BTreeMap<String, WorldId>,
}

impl Load {
    pub(crate) async fn start(apis: &[Member], worlds: u64) -> Self {
        let apis = Arc::new(Mutex::new(urls(apis)));
        let stop = Arc::new(AtomicBool::new(false));
        let making = Client { name: "maker".to_owned(), http: http(), apis: apis.clone(), stop: stop.clone() };
        let mut ids = BTreeMap::new();
        for world in 0..worlds {
            let name = format!("w{world}");
            let made = making.insist("", &json!({ "world": name, "program": "kv" }), &format!("make {world}")).await;
            let made: Value = serde_json::from_str(&made.expect("it is made")).unwrap();
            ids.insert(name, made["world"].as_str().unwrap().parse().unwrap());
        }
        let start = |number: u64| {
            let client = Client { name: format!("c{number}"), http: http(), apis: apis.clone(), stop: stop.clone() };
            // Each begins elsewhere, so that every world is asked for all the time.
            let first = number * worlds / CLIENTS;
            tokio::spawn(client.run((first..worlds).chain(0..first).collect()))
        };
        let clients = (0..CLIENTS).map(start).collect();
        Self { apis, stop, clients, ids }
    }

    pub(crate) fn moved(&self, apis: &[Member]) {
        *self.apis.lock().unwrap() = urls(apis);
    }

    pub(crate) async fn stop(&mut self) -> Acknowledged {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Acknowledged::new();
        for client in self.clients.drain(..) {
            all.extend(client.await.unwrap());
        }
        all
    }
}

fn urls(apis: &[Member]) -> Vec<String> {
    apis.iter().map(|api| api.url.clone()).collect()
}

fn http() -> reqwest::Client {
    let _before = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

struct Client {
    name: String,
    http: reqwest::Client,
    apis: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
}

impl Client {
    /// To each world in turn the next number; now and then a timer and an effect.
    async fn run(self, worlds: Vec<u64>) -> Acknowledged {
        let mut told = Acknowledged::new();
        for round in 0u64.. {
            for world in &worlds {
                if self.stop.load(Ordering::Relaxed) {
                    return told;
                }
                let (path, name) = (format!("/w{world}/send"), &self.name);
                let put = json!({ "key": name, "value": round });
                let count = told.entry((format!("w{world}"), name.clone())).or_default();
                if self.insist(&format!("{path}/put"), &put, &format!("{name} {round} put")).await.is_some() {
                    count.0 += 1;
                } else {
                    count.1 += 1;
                }
                if (round + world) % 4 == 0 {
                    let remind = json!({ "key": format!("{name}-timer-{round}"), "value": round, "in_ms": 400 });
                    self.insist(&format!("{path}/remind"), &remind, &format!("{name} {round} remind")).await;
                    let params = json!({ "bytes": format!("{name} {round}") });
                    let ask = json!({ "key": format!("{name}-blob-{round}"), "kind": "blob.put", "params": params });
                    self.insist(&format!("{path}/ask"), &ask, &format!("{name} {round} ask")).await;
                }
            }
        }
        told
    }

    /// The response, unless the client is told to stop before it comes.
    async fn insist(&self, path: &str, body: &Value, key: &str) -> Option<String> {
        for attempt in 0usize.. {
            let url = {
                let apis = self.apis.lock().unwrap();
                format!("{}{WORLDS}{path}", apis[attempt % apis.len()])
            };
            let request = self.http.post(url).header("idempotency-key", key).timeout(Duration::from_secs(8));
            match request.body(body.to_string()).send().await {
                Ok(answer) if answer.status().is_success() => return Some(answer.text().await.unwrap_or_default()),
                // 409: someone came first; 429: it is full. Both say: again.
                Ok(answer) if answer.status().is_client_error() && ![409, 429].contains(&answer.status().as_u16()) => {
                    panic!("{key}: {} {}", answer.status(), answer.text().await.unwrap_or_default())
                }
                _ if self.stop.load(Ordering::Relaxed) => return None,
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        None
    }
}
