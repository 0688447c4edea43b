//! The roles and the state of the process that answers, and the health of its engine and its object store.

use super::{Api, Problem, access::Access};
use crate::{
    node::{Node, Role},
    signs::{Sign, Verdict},
};
use axum::{Json, extract::State};
use mundi_model::{Coded, limits};
use mundi_runtime::{Plane, control::engine_answers};
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;

/// An object that nobody writes: a store that says so answers, and lets us in.
const LOOKED_FOR: &str = "checkup";

/// The newest findings, and when they were made: however many ask, each process looks at most once in a while.
#[derive(Debug, Default)]
pub(super) struct Checkups(Mutex<Option<(u64, Vec<CheckupFinding>)>>);

/// The process that answers, and what it stands on.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Checkup {
    /// Its id as a worker, in every universe.
    worker: String,
    version: &'static str,
    /// Of `world`, `adapter`, `timer`, `orchestrator`, `watcher` and `api`.
    roles: Vec<&'static str>,
    /// It finishes what it has and takes nothing new.
    draining: bool,
    /// `embedded`, `postgres`, `foundationdb` or `memory`.
    engine: &'static str,
    /// The kind of the object store: `LocalFileSystem`, `AmazonS3` or another one.
    objects: String,
    /// The checks of `mundi doctor` for engine and object store; at most 15 seconds old.
    findings: Vec<CheckupFinding>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct CheckupFinding {
    check: String,
    /// `ok`, `look` or `wrong`.
    verdict: &'static str,
    found: String,
    /// The remedy, if there is one.
    advice: Option<String>,
}

impl From<Sign> for CheckupFinding {
    fn from(Sign { check, verdict, found, advice }: Sign) -> Self {
        let verdict = match verdict {
            Verdict::Good => "ok",
            Verdict::Look => "look",
            Verdict::Wrong => "wrong",
        };
        let advice = (!advice.is_empty()).then(|| advice.to_owned());
        Self { check: check.to_owned(), verdict, found, advice }
    }
}

/// The process that answers: its roles, the kinds of its engine and of its object store, and whether they are well, as `mundi doctor` sees it. A token
/// needs the verb `metrics`, or `read` in all universes.
#[utoipa::path(get, path = "/v1/checkup", tag = "health", responses((status = 200, body = Checkup)))]
pub(super) async fn checkup(State(api): State<Api>, access: Access) -> Result<Json<Checkup>, Problem> {
    access.require_metrics()?;
    let (node, plane) = (&api.node, api.node.plane());
    Ok(Json(Checkup {
        worker: node.worker().to_string(),
        version: env!("CARGO_PKG_VERSION"),
        roles: node.config().roles.iter().map(|role| name_of(*role)).collect(),
        draining: node.is_leaving(),
        engine: plane.engine.kind(),
        objects: node.objects().kind(),
        findings: api.checkups.findings(node).await,
    }))
}

const fn name_of(role: Role) -> &'static str {
    match role {
        Role::World => "world",
        Role::Adapter => "adapter",
        Role::Timer => "timer",
        Role::Orchestrator => "orchestrator",
        Role::Watcher => "watcher",
        Role::Api => "api",
    }
}

impl Checkups {
    /// One look at a time: those who ask meanwhile get its findings.
    async fn findings(&self, node: &Node) -> Vec<CheckupFinding> {
        let mut newest = self.0.lock().await;
        let now_ns = node.plane().now_ns();
        if let Some((at_ns, findings)) = &*newest
            && now_ns.saturating_sub(*at_ns) < limits::CHECKUP_EVERY_NS
        {
            return findings.clone();
        }
        let findings: Vec<_> = look(node).await.into_iter().map(CheckupFinding::from).collect();
        *newest = Some((now_ns, findings.clone()));
        findings
    }
}

async fn look(node: &Node) -> Vec<Sign> {
    let mut signs = vec![engine(node).await];
    match of_fleet(node).await {
        // The database and the object store of a fleet, in all that `mundi doctor --fleet` looks at.
        Some(of_fleet) => signs.extend(of_fleet),
        None => signs.push(objects(node).await),
    }
    signs
}

async fn engine(node: &Node) -> Sign {
    let plane = node.plane();
    if let Err(error) = engine_answers(&plane.engine).await {
        let found = format!("{}: {error}", error.code());
        return Sign::wrong("engine", found, "see the page of this code; worlds go on when the engine answers again");
    }
    Sign::good("engine", format!("{}, answers", plane.engine.kind()))
}

async fn objects(node: &Node) -> Sign {
    let objects = node.objects();
    match objects.size(&LOOKED_FOR.into()).await {
        Ok(_) => Sign::good("objects", format!("{}, answers", objects.kind())),
        Err(error) => {
            let found = format!("{}: {error}", error.code());
            Sign::wrong("objects", found, "look at objects.url, the credentials and the permissions")
        }
    }
}

#[cfg(feature = "postgres")]
async fn of_fleet(node: &Node) -> Option<Vec<Sign>> {
    let config = node.configured().filter(|config| config.engine.is_shared())?;
    Some(crate::checkup::look(config).await)
}

#[cfg(not(feature = "postgres"))]
async fn of_fleet(_node: &Node) -> Option<Vec<Sign>> {
    None
}
