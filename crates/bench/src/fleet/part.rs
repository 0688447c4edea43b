//! One of the processes that are measured: a node in all roles that serves its API.

use super::SCHEMA;
use crate::program::programs;
use mundi_server::{
    api::{AccessPolicy, Api, ApiLimits, router},
    config::Config,
    node::Node,
    serve::{ServeLimits, Server},
};
use serde::{Deserialize, Serialize};
use std::{error::Error, io::Write, time::Duration};

/// Set for the processes that this one starts.
pub(super) const PART: &str = "MUNDI_BENCH_PART";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Part {
    /// The number of its worker.
    pub(super) worker: u64,
    pub(super) objects: String,
    /// The URL of its engine.
    pub(super) database: String,
    /// The term of its leases, if it is not the usual one.
    pub(super) lease_ttl_ms: Option<u32>,
}

impl Part {
    /// The part that this process was started for, if it is one of several.
    pub(super) fn given() -> Result<Option<Self>, Box<dyn Error>> {
        match std::env::var(PART) {
            Ok(part) => Ok(Some(serde_json::from_str(&part)?)),
            Err(_) => Ok(None),
        }
    }

    /// Serves until the process that started it closes the pipe, then ends as a server does at SIGTERM; says where on standard output.
    #[expect(clippy::print_stdout, reason = "how the processes of one measurement speak")]
    pub(super) fn run(self) -> Result<(), Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let node = runtime.block_on(self.open())?;
        let server = runtime.block_on(serve(&node))?;
        println!("{}", server.address());
        std::io::stdout().flush()?;
        std::io::stdin().read_line(&mut String::new())?;
        runtime.block_on(async {
            node.leave();
            let _in_time = tokio::time::timeout(Duration::from_secs(5), server.drain()).await;
            node.drain().await;
            node.stop().await;
        });
        Ok(())
    }

    async fn open(&self) -> Result<Node, Box<dyn Error>> {
        let settings = [
            ("MUNDI_ENGINE__URL", &*self.database),
            ("MUNDI_ENGINE__SCHEMA", SCHEMA),
            ("MUNDI_OBJECTS__URL", &self.objects),
            ("MUNDI_NODE__WORKER", &self.worker.to_string()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter();
        let lease = self.lease_ttl_ms.map(|ms| ("MUNDI_NODE__LEASE_TTL_MS".to_owned(), ms.to_string()));
        let settings = settings.chain(lease);
        let mut config = Config::load(None, settings, &[])?;
        config.http.private_hosts_allowed.insert("127.0.0.1".to_owned()); // where effects ask
        Ok(Node::open_configured(&config, programs()).await?)
    }
}

/// Serves the API where the other processes find it: they forward calls to worlds of this one.
async fn serve(node: &Node) -> Result<Server, Box<dyn Error>> {
    let router = router(Api::new(node.clone(), ApiLimits::default(), AccessPolicy::default()));
    let server = Server::start(([127, 0, 0, 1], 0).into(), router, None, ServeLimits::default()).await?;
    node.advertise(&format!("http://{}", server.address()));
    Ok(server)
}
