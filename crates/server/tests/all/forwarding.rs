//! A call to a world that another node holds: two nodes on one database, each with an API of its own.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test")]

use mundi_engine::postgres::testing::{fresh_schema, shared};
use mundi_model::{Code, Coded, Value, WorldId};
use mundi_runtime::metrics::Metric;
use mundi_server::{
    api::{AccessPolicy, Api, ApiLimits, router},
    config::Config,
    node::Node,
    programs::Programs,
    serve::{ServeLimits, Server},
};
use std::time::Duration;

struct Member {
    node: Node,
    server: Server,
}

impl Member {
    async fn start(schema: &str, objects: &std::path::Path, roles: &str) -> Self {
        let objects = format!("file://{}", objects.display());
        let settings = [
            ("MUNDI_ENGINE__URL", shared().url()),
            ("MUNDI_ENGINE__SCHEMA", schema),
            ("MUNDI_OBJECTS__URL", &objects),
            ("MUNDI_NODE__ROLES", roles),
            ("MUNDI_NODE__LEASE_TTL_MS", "2000"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let config = Config::load(None, settings, &[]).unwrap();
        let node = Node::open_configured(&config, Programs::builtin()).await.unwrap();
        let router = router(Api::new(node.clone(), ApiLimits::default(), AccessPolicy::default()));
        let server = Server::start(([127, 0, 0, 1], 0).into(), router, None, ServeLimits::default()).await.unwrap();
        node.advertise(&format!("http://{}", server.address()));
        Self { node, server }
    }

    async fn add(&self, world: WorldId) -> Value {
        let universe = self.node.universe("default").unwrap();
        universe.call(world, "add", Value::Integer(1.into())).await.unwrap()
    }

    /// A call by HTTP, as if it had been forwarded to this worker.
    async fn add_forwarded(&self, world: WorldId, worker: &str) -> (u16, String) {
        let url = format!("http://{}/v1/u/default/worlds/{world}/call/add", self.server.address());
        let _before = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let request = reqwest::Client::builder().no_proxy().build().unwrap().post(url);
        let answer = request.header("mundi-forwarded-to", worker).body("1").send().await.unwrap();
        assert_eq!(answer.headers()["mundi-forwarded-to"], self.node.worker().to_string(), "it says who answers");
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    fn forwarded(&self) -> u64 {
        self.node.metrics().get(Metric::CallsForwarded)
    }

    /// A send by HTTP, as if it had been forwarded to a worker if one is named.
    async fn send(&self, world: WorldId, query: &str, forwarded_to: Option<&str>) -> (u16, String) {
        let url = format!("http://{}/v1/u/default/worlds/{world}/send/add{query}", self.server.address());
        let _before = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let mut request = reqwest::Client::builder().no_proxy().build().unwrap().post(url);
        if let Some(worker) = forwarded_to {
            request = request.header("mundi-forwarded-to", worker);
        }
        let answer = request.body("1").send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    fn sends_forwarded(&self) -> u64 {
        self.node.metrics().get(Metric::SendsForwarded)
    }
}

fn number(value: u64) -> Value {
    Value::Integer(value.into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_forwarded_to_the_holder_and_goes_through_the_inbox_when_the_holder_is_gone() {
    let (schema, objects) = (fresh_schema(), tempfile::tempdir().unwrap());
    let holder = Member::start(&schema, objects.path(), "[\"world\", \"orchestrator\", \"api\"]").await;
    let other = Member::start(&schema, objects.path(), "[\"api\"]").await;
    let world = holder.node.universe("default").unwrap().create("counter").await.unwrap();
    let mut count = 0;
    // Until it has heard who holds the world, its calls go through the inbox.
    let forwarding = async {
        while other.forwarded() < 10 {
            count += 1;
            assert_eq!(other.add(world).await, number(count));
        }
    };
    tokio::time::timeout(Duration::from_secs(60), forwarding).await.expect("calls are forwarded");
    assert_eq!(holder.forwarded(), 0, "it holds the world");
    let sender = other.node.universe("default").unwrap();
    let sent = sender.send(world, "add", number(1)).await.unwrap();
    assert_eq!((other.sends_forwarded(), sent.before), (1, false), "an embedder's send is forwarded as a call is");
    let refused = sender.send(world, "no such event", number(1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::EventInvalid, "{refused}");
    count += 2;
    assert_eq!(other.add(world).await, number(count), "what was acknowledged before comes before");

    // By the API a send is forwarded, too, with the answer of the holder; one with parameters of its own goes through the inbox.
    let before = other.sends_forwarded();
    let (status, said) = other.send(world, "", None).await;
    assert_eq!((status, said.contains("event_hash")), (202, true), "{said}");
    assert_eq!(other.sends_forwarded(), before + 1);
    let (status, said) = other.send(world, "?key=mine", None).await;
    assert_eq!(status, 202, "{said}");
    assert_eq!((other.sends_forwarded(), holder.sends_forwarded()), (before + 1, 0));
    count += 3;
    assert_eq!(other.add(world).await, number(count), "each arrived once");

    // Forwarded to the wrong one, it is refused before anything is done; and never forwarded from there.
    let own = holder.node.worker().to_string();
    for (member, worker) in [(&other, own.as_str()), (&holder, "k_0000000000000001")] {
        let (status, said) = member.add_forwarded(world, worker).await;
        assert_eq!((status, said.contains("WORLD_ELSEWHERE")), (421, true), "{said}");
        let (status, said) = member.send(world, "", Some(worker)).await;
        assert_eq!((status, said.contains("WORLD_ELSEWHERE")), (421, true), "{said}");
    }
    count += 1;
    assert_eq!(holder.add_forwarded(world, &own).await, (200, count.to_string()));

    // It is gone without a word: nobody answers there, and the call waits in the inbox for whoever comes next.
    let before = other.forwarded();
    holder.node.stop().await;
    holder.server.drain().await;
    drop(holder);
    let next = Member::start(&schema, objects.path(), "[\"world\", \"orchestrator\"]").await;
    assert_eq!(other.add(world).await, number(count + 1), "once, and by the next holder");
    assert_eq!(other.forwarded(), before, "there was nobody to hand it to");
    drop(next);
}
