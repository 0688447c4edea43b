//! A hundred clients of a pool whose server is killed again and again: their own logs show no two holders of one resource.

use crate::process::{Answer, Server, client};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::Instant;

const P: &str = "/v1/u/default/pools";
const CLIENTS: usize = 100;
const RESOURCES: usize = 20;
const CYCLES: usize = 4;
const KILLS: usize = 3;

/// One use of a resource under a lease, as its client recorded it: from when it knew that it had the resource to when it stopped.
#[derive(Debug, Clone)]
struct Use {
    client: usize,
    resource: String,
    lease: String,
    from: Instant,
    to: Instant,
}

/// Where the server is; it comes back elsewhere after each kill.
#[derive(Clone)]
struct Pool {
    url: Arc<Mutex<String>>,
    http: reqwest::Client,
    log: Arc<Mutex<Vec<Use>>>,
    /// Leases that an operator revoked, and whether their holder stopped.
    revoked: Arc<Mutex<BTreeMap<String, bool>>>,
}

impl Pool {
    /// Sends a command until its outcome is definite, always under the same operation id.
    async fn command(&self, verb: &str, form: &Value) -> Answer {
        loop {
            let url = self.url.lock().unwrap().clone();
            let sent = self.http.post(format!("{url}{P}/p/{verb}")).body(form.to_string()).send().await;
            if let Ok(response) = sent {
                let answer = Answer::of(response).await;
                if answer.status.is_success() || answer.json["outcome"] == "definite" {
                    return answer;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn cycle(&self, number: usize, cycle: usize) {
        let (who, operation) = (format!("client-{number}"), |verb: &str| format!("{number}/{cycle}/{verb}"));
        let mut attempt = 0;
        let reserved = loop {
            let id = operation(&format!("reserve-{attempt}"));
            let form = json!({ "holder": who, "client": who, "ttl_slots": 3_600, "operation_id": id });
            let answer = self.command("reserve", &form).await;
            match answer.json["result"].as_str() {
                Some("ok") => break answer.json,
                Some("resource_busy") => {}
                other => panic!("{other:?}: {}", answer.text),
            }
            attempt += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let lease = reserved["lease_id"].as_str().unwrap().to_owned();
        let token = |verb: &str| json!({ "lease_id": lease, "lease_epoch": 1, "holder": who, "client": who, "operation_id": operation(verb) });
        self.command("activate", &token("activate")).await.ok(200);
        let from = Instant::now();
        if (number + cycle).is_multiple_of(10) {
            self.hand_over_to_operator(&lease).await;
        }
        // It stops before it says so.
        let to = Instant::now();
        let resource = reserved["resource_ids"][0].as_str().unwrap().to_owned();
        self.log.lock().unwrap().push(Use { client: number, resource, lease: lease.clone(), from, to });
        let released = self.command("release", &token("release")).await;
        let is_revoked = self.revoked.lock().unwrap().contains_key(&lease);
        let expected = if is_revoked { "stale_epoch" } else { "ok" };
        assert_eq!(released.json["result"], expected, "{}", released.text);
        if let Some(stopped) = self.revoked.lock().unwrap().get_mut(&lease) {
            *stopped = true;
        }
    }

    /// The holder hangs: it does nothing until an operator has revoked its lease.
    async fn hand_over_to_operator(&self, lease: &str) {
        let form = json!({ "lease_id": lease, "client": "operator", "operation_id": format!("revoke/{lease}") });
        self.revoked.lock().unwrap().insert(lease.to_owned(), false);
        self.command("revoke", &form).await.ok(200);
    }

    /// Reclaims what was revoked once its holder is known to have stopped: nothing else is evidence.
    async fn reclaim_all(&self, until: impl Fn() -> bool) {
        loop {
            let stopped: Vec<String> = self
                .revoked
                .lock()
                .unwrap()
                .iter()
                .filter(|(_, stopped)| **stopped)
                .map(|(id, _)| id.clone())
                .collect();
            for lease in stopped {
                let form =
                    json!({ "lease_id": lease, "client": "operator", "operation_id": format!("reclaim/{lease}") });
                self.command("reclaim", &form).await.ok(200);
                // Kept, so that it is known that it was revoked; not reclaimed again.
                self.revoked.lock().unwrap().insert(lease, false);
            }
            if until() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Reads nothing but the clients' logs.
fn no_two_clients_used_one_resource_at_a_time(log: &[Use]) {
    let mut of_resources: BTreeMap<&str, Vec<&Use>> = BTreeMap::new();
    log.iter().for_each(|used| of_resources.entry(&used.resource).or_default().push(used));
    for uses in of_resources.values_mut() {
        uses.sort_by_key(|used| used.from);
        for pair in uses.windows(2) {
            assert!(pair[0].to <= pair[1].from, "two holders at a time: {:?} and {:?}", pair[0], pair[1]);
            assert!(pair[0].lease < pair[1].lease, "leases rise: {:?} and {:?}", pair[0], pair[1]);
        }
    }
}

fn start(folder: &Path) -> Server {
    Server::start(folder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_resource_has_two_holders_while_the_server_is_killed_under_a_hundred_clients() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = start(folder.path());
    server.post(P, &json!({ "name": "p", "config": { "slot_ms": 1_000 } })).await.ok(201);
    let resources: Vec<Value> = (0..RESOURCES).map(|n| json!({ "resource": format!("r-{n}") })).collect();
    server.post(&format!("{P}/p/resources"), &json!({ "resources": resources })).await.ok(200);
    let pool = Pool {
        url: Arc::new(Mutex::new(server.url.clone())),
        http: client(),
        log: Arc::default(),
        revoked: Arc::default(),
    };
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let pool = pool.clone();
            tokio::spawn(async move {
                for cycle in 0..CYCLES {
                    pool.cycle(number, cycle).await;
                }
            })
        })
        .collect();
    let uses = || pool.log.lock().unwrap().len();
    let operator = pool.reclaim_all(|| uses() == CLIENTS * CYCLES);
    let killer = async {
        for kill in 1..=KILLS {
            while uses() < kill * CLIENTS * CYCLES / (KILLS + 1) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            server.kill();
            server = start(folder.path());
            pool.url.lock().unwrap().clone_from(&server.url);
        }
        server
    };
    let ((), server) = tokio::join!(operator, killer);
    for client in clients {
        client.await.unwrap();
    }
    let log = pool.log.lock().unwrap().clone();
    assert_eq!(log.len(), CLIENTS * CYCLES);
    assert!(log.iter().any(|used| used.client > 0));
    no_two_clients_used_one_resource_at_a_time(&log);
    let described = server.get(&format!("{P}/p")).await.ok(200);
    assert_eq!(described["shards"][0]["counts"]["resources"], RESOURCES);
}
