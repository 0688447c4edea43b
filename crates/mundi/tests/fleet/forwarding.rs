//! A call that arrives at one process for a world of another.

use crate::member::{Fleet, Member};
use serde_json::{Value, json};
use std::time::Duration;

const WORLDS: &str = "/v1/u/default/worlds";
/// Of requests and leases: longer than a busy machine takes, and than the next worker waits.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Client(reqwest::Client);

impl Client {
    fn new() -> Self {
        let _before = rustls::crypto::ring::default_provider().install_default();
        Self(reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().unwrap())
    }

    async fn post(&self, member: &Member, path: &str, body: &Value, forwarded: Option<&str>) -> (u16, String) {
        let mut request = self.0.post(format!("{}{WORLDS}{path}", member.url)).body(body.to_string());
        if let Some(worker) = forwarded {
            request = request.header("mundi-forwarded-to", worker);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// The counter after an addition of one.
    async fn add(&self, member: &Member) -> u64 {
        let (status, said) = self.post(member, "/counted/call/add", &json!(1), None).await;
        assert_eq!(status, 200, "{said}");
        said.parse().unwrap()
    }

    async fn forwarded(&self, member: &Member) -> u64 {
        let metrics = self.0.get(format!("{}/metrics", member.url)).send().await.unwrap().text().await.unwrap();
        let line = metrics.lines().find(|line| line.starts_with("mundi_calls_forwarded_total"));
        line.and_then(|line| line.rsplit(' ').next()).unwrap().parse::<u64>().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_forwarded_to_the_process_that_holds_its_world_and_falls_back_when_that_dies() {
    let fleet = Fleet::start(Duration::from_secs(3));
    let [mut one, mut other] = [fleet.member("api,world,adapter,timer,orchestrator"), fleet.member("api")];
    fleet.launch(&mut one);
    fleet.launch(&mut other);
    let client = Client::new();
    let (status, said) = client.post(&one, "", &json!({ "world": "counted", "program": "counter" }), None).await;
    assert_eq!(status, 201, "{said}");
    let mut count = 0;
    // Until it has heard who holds the world, its calls go through the inbox.
    let forwarding = async {
        while client.forwarded(&other).await < 10 {
            count += 1;
            assert_eq!(client.add(&other).await, count);
        }
    };
    tokio::time::timeout(TIMEOUT, forwarding).await.expect("calls are forwarded");
    assert_eq!(client.forwarded(&one).await, 0, "it holds the world");
    let (status, said) = client.post(&other, "/counted/send/add", &json!(1), None).await;
    assert_eq!(status, 202, "{said}");
    count += 2;
    assert_eq!(client.add(&one).await, count, "what was acknowledged before comes before");
    let (status, said) = client.post(&other, "/counted/call/nonsense", &json!(1), None).await;
    assert_eq!(status, 400, "what the holder says is said: {said}");

    // Forwarded to the wrong one, it is refused before anything is done; and never forwarded from there.
    let holder = format!("k_{:016x}", one.worker);
    for (member, worker) in [(&other, holder.as_str()), (&one, "k_0000000000000001")] {
        let (status, said) = client.post(member, "/counted/call/add", &json!(1), Some(worker)).await;
        assert_eq!((status, said.contains("WORLD_ELSEWHERE")), (421, true), "{said}");
    }
    let (status, said) = client.post(&one, "/counted/call/add", &json!(1), Some(&holder)).await;
    count += 1;
    assert_eq!((status, said), (200, count.to_string()));

    // Clients that follow learn the address of the holder with their first answer. One needs the process that it began with no more.
    let following = |member: &Member| {
        let http = mundi_client::Http::new(&member.url, None, "default").follow_holders();
        mundi_client::Mundi::from(http).world("counted")
    };
    let mut third = fleet.member("api");
    fleet.launch(&mut third);
    let [by_third, by_other] = [following(&third), following(&other)];
    for world in [&by_third, &by_other, &by_third] {
        count += 1;
        assert_eq!(world.call::<u64>("add", &1).await.unwrap(), count);
        third.kill();
    }

    // It crashes: nobody answers there, and the call waits in the inbox for whoever comes next.
    one.kill();
    let forwarded = client.forwarded(&other).await;
    let mut next = fleet.member("world,orchestrator");
    let (answered, ()) = tokio::join!(client.add(&other), async { fleet.launch(&mut next) });
    count += 1;
    assert_eq!(answered, count, "once, and by the next holder");
    assert_eq!(client.forwarded(&other).await, forwarded, "there was nobody to hand it to");
    assert_eq!(
        by_other.call::<u64>("add", &1).await.unwrap(),
        count + 1,
        "the address of the dead holder is forgotten"
    );
}
