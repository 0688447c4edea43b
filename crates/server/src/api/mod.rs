//! The HTTP API: one file per noun. The same document that describes it is served at `/openapi.json`.

mod access;
mod blobs;
mod bulk;
mod bundles;
mod checkup;
mod children;
mod console;
mod dead_letters;
mod document;
mod effects;
mod events;
mod exposition;
mod extract;
mod fair_slots;
mod forks;
mod functions;
mod health;
mod hot_routes;
mod journal;
mod json;
mod labels;
mod logs;
mod moment;
mod naming;
mod pool_gauges;
mod pools;
mod problem;
mod program_names;
mod programs;
mod quotas;
mod requests;
mod revocation;
mod routes;
mod snapshots;
mod space;
mod sql;
mod state;
mod steps;
mod summary;
mod tasks;
mod timers;
mod tokens;
mod universe_events;
mod universes;
pub(crate) mod verify;
mod whoami;
mod why;
mod workers;
mod world_commands;
mod world_filters;
mod worlds;

pub(crate) use access::Access;
pub use access::{NewToken, names_of, verbs_of};
pub(crate) use extract::{ADMIN, RawBody, SEND};
pub use hot_routes::{HotRoutes, Routes};
pub use problem::Problem;
pub use requests::Sampler;
pub use routes::{health_router, openapi, router};
pub use sql::TABLES as SQL_TABLES;

use crate::{
    bodies::{Bodies, BodyBudgets},
    node::Node,
};
use std::{sync::Arc, time::Duration};

/// The state that every handler shares.
#[derive(Clone)]
pub struct Api(Arc<ApiState>);

pub struct ApiState {
    pub node: Node,
    pub limits: ApiLimits,
    pub access: AccessPolicy,
    /// There if traces are recorded.
    sampler: Option<Sampler>,
    requests: Arc<requests::Requests>,
    pool_gauges: Arc<pool_gauges::PoolGauges>,
    checkups: Arc<checkup::Checkups>,
    bodies: Arc<Bodies>,
    answers: Arc<Bodies>,
}

/// Bounds that the configuration may set.
#[derive(Debug, Clone)]
pub struct ApiLimits {
    pub body_bytes_max: usize,
    /// How long a body may take to arrive. One that is streamed has so much time more for every `body_bytes_per_second_min`.
    pub body_timeout: Duration,
    pub body_bytes_per_second_min: u64,
    /// The budget of all request bodies together.
    pub bodies: BodyBudgets,
    /// The budget of all answers that wait to be read.
    pub answers: BodyBudgets,
    /// The longest that a call, a claim or a tail is held open.
    pub wait_max: Duration,
}

impl Default for ApiLimits {
    fn default() -> Self {
        Self {
            body_bytes_max: 4 << 20,
            body_timeout: Duration::from_secs(30),
            body_bytes_per_second_min: 1_024,
            bodies: BodyBudgets::default(),
            answers: BodyBudgets::default(),
            wait_max: Duration::from_secs(300),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct AccessPolicy {
    /// Off only on loopback.
    pub tokens_required: bool,
    /// Names by which a server without tokens may be called, beside the loopback ones.
    pub hosts_allowed: Vec<String>,
}

impl Api {
    pub fn new(node: Node, limits: ApiLimits, access: AccessPolicy) -> Self {
        Self::sampled(node, limits, access, None)
    }

    /// An API whose requests are part of traces, if there is one who decides which of them are recorded.
    pub fn sampled(node: Node, limits: ApiLimits, access: AccessPolicy, sampler: Option<Sampler>) -> Self {
        let (bodies, answers) = (Bodies::new(limits.bodies), Bodies::of_answers(limits.answers));
        let (requests, pool_gauges, checkups) = (Arc::default(), Arc::default(), Arc::default());
        Self(Arc::new(ApiState { node, limits, access, sampler, requests, pool_gauges, checkups, bodies, answers }))
    }

    /// The same at another address, where others may come from.
    pub fn at(&self, access: AccessPolicy) -> Self {
        let ApiState { node, limits, sampler, requests, pool_gauges, checkups, bodies, answers, .. } = &*self.0;
        let (node, limits, sampler) = (node.clone(), limits.clone(), sampler.clone());
        let (requests, pool_gauges, checkups) = (requests.clone(), pool_gauges.clone(), checkups.clone());
        let (bodies, answers) = (bodies.clone(), answers.clone());
        Self(Arc::new(ApiState { node, limits, access, sampler, requests, pool_gauges, checkups, bodies, answers }))
    }

    /// How many requests were answered, by method, route and status.
    pub fn answers(&self) -> Vec<(&'static str, Box<str>, u16, u64)> {
        self.requests.answers()
    }
}

impl std::ops::Deref for Api {
    type Target = ApiState;

    fn deref(&self) -> &ApiState {
        &self.0
    }
}

/// How many items a page has when nobody says.
const PAGE_ITEMS: usize = 100;

/// The parameters of a list.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageParams {
    /// Where the page before ended: its `next`.
    after: Option<String>,
    /// At most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

impl PageParams {
    fn limit(&self) -> Result<usize, Problem> {
        limit(self.limit)
    }

    fn after<T: std::str::FromStr<Err = mundi_model::ParseIdError>>(&self) -> Result<Option<T>, Problem> {
        Ok(self.after.as_deref().map(str::parse).transpose()?)
    }
}

fn limit(limit: Option<usize>) -> Result<usize, Problem> {
    match limit {
        None => Ok(PAGE_ITEMS),
        Some(limit) if (1..=mundi_model::limits::LIST_ITEMS_MAX).contains(&limit) => Ok(limit),
        Some(limit) => {
            let max = mundi_model::limits::LIST_ITEMS_MAX;
            Err(Problem::invalid(format!("a limit of {limit}: expected 1 to {max}")))
        }
    }
}

/// A page of a list.
#[derive(Debug, serde::Serialize, utoipa::ToSchema)]
pub(crate) struct ListPage<T> {
    items: Vec<T>,
    /// Given as `after`, it asks for the next page; null at the end.
    next: Option<String>,
}

impl<T> ListPage<T> {
    fn of<I, C: ToString>(page: mundi_store::protocol::Page<I, C>, item: impl Fn(I) -> T) -> axum::Json<Self> {
        let items = page.items.into_iter().map(item).collect();
        axum::Json(Self { items, next: page.next.map(|next| next.to_string()) })
    }
}
