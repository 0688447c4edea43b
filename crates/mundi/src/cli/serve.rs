//! `mundi dev` and `mundi server`: a node and its API, until a signal. The first one drains, the second one stops.

use super::{
    exit::{Failed, Outcome},
    telemetry::Telemetry,
};
use mundi_model::{Code, Coded};
use mundi_server::{
    api::{Api, health_router, router},
    config::Config,
    node::{Node, Role},
    programs::Programs,
    serve::{App, Server, tls},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{net::SocketAddr, time::Duration};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(super) async fn run(config: &Config) -> Outcome {
    let mut signals = Signals::new()?;
    raise_open_files();
    let telemetry = Telemetry::start()?;
    let node = open(config).await?;
    let api = Api::sampled(node.clone(), config.api_limits(), config.access(config.api.bind), telemetry.sampler());
    telemetry.observe(&api);
    let server = if config.node.roles.contains(&Role::Api) { Some(start(config, &api).await?) } else { None };
    let scheme = if config.api.tls.key.is_some() { "https" } else { "http" };
    let health = match config.api.health_bind {
        Some(bind) => {
            let health = serve(config, bind, health_router(api.at(config.access(bind)))).await?;
            eprintln!("mundi: health and metrics at {scheme}://{}", health.address());
            Some(health)
        }
        None => None,
    };
    match &server {
        Some(server) => {
            if config.engine.is_shared() {
                eprintln!("mundi: worker {} of a fleet", node.worker());
            } else {
                eprintln!("mundi: data in {}", config.data.folder.display());
            }
            if let Some(address) = config.advertised(server.address()) {
                node.advertise(&address);
            }
            eprintln!("mundi: console at {scheme}://{}/", server.address());
            eprintln!("mundi: API at {scheme}://{}  (openapi: /openapi.json)", server.address());
        }
        None => eprintln!("mundi: running without an API"),
    }
    let escalated = tokio::select! {
        () = signals.next() => None,
        failed = node.escalated() => Some(failed),
    };
    eprintln!("mundi: draining; a second signal stops at once");
    tokio::select! {
        () = drain(&node, server.as_ref()) => {}
        () = signals.next() => eprintln!("mundi: stopping"),
    }
    // What was acknowledged is durable, drained or not.
    let stopped = tokio::time::timeout(Duration::from_secs(5), node.stop());
    let _in_time = stopped.await;
    drop(health);
    telemetry.end().await;
    match escalated {
        Some(failed) => Err(Failed::new(failed.code, format!("a worker shell failed: {}", failed.reason))),
        None => Ok(()),
    }
}

/// Every connection is a file descriptor; the default soft limit is often 1,024.
const OPEN_FILES: u64 = 65_536;

/// Raises the soft limit of open files up to the hard limit. A failure is ignored.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        let _as_before = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}

/// How long to wait for the folder's lock after its process was killed.
const HANDOVER: Duration = Duration::from_secs(5);

/// Opens the folder; waits if a process that is ending still holds its lock.
async fn open(config: &Config) -> Outcome<Node> {
    let (mut waited, pause) = (Duration::ZERO, Duration::from_millis(100));
    let components = mundi::components_of(config).map_err(|error| Failed::coded(&error))?;
    loop {
        let programs = Programs::builtin().with_loader(components.clone());
        match Node::open_configured(config, programs).await {
            Ok(node) => return Ok(node),
            Err(error) if error.code() == Code::FolderInUse && waited < HANDOVER => {
                if waited.is_zero() {
                    let folder = config.data.folder.display();
                    eprintln!(
                        "mundi: {folder} is open in another process; waiting up to {} s for it",
                        HANDOVER.as_secs()
                    );
                }
                tokio::time::sleep(pause).await;
                waited += pause;
            }
            Err(error) => return Err(Failed::coded(&error)),
        }
    }
}

async fn start(config: &Config, api: &Api) -> Outcome<Server> {
    if api.access.tokens_required {
        eprintln!("mundi: tokens are required; make one with `mundi token create`");
    }
    serve(config, config.api.bind, router(api.clone())).await
}

async fn serve(config: &Config, bind: SocketAddr, app: impl App) -> Outcome<Server> {
    let tls = tls(&config.api.tls).map_err(|error| Failed::new(Code::ConfigInvalid, error))?;
    let started = Server::start(bind, app, tls, config.serve_limits()).await;
    started.map_err(|error| Failed::new(Code::ConfigInvalid, format!("{bind} cannot be served: {error}")))
}

/// Releases worlds while the last answers are sent.
async fn drain(node: &Node, server: Option<&Server>) {
    node.leave();
    if let Some(server) = server {
        // Calls that wait need their worlds: requests end before the worlds do, or are given up on.
        let _in_time = tokio::time::timeout(Duration::from_secs(5), server.drain()).await;
    }
    node.drain().await;
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
