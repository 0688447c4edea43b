//! Which worlds a list, a count or a bulk command is about.

use super::{PageParams, Problem, extract::world_of};
use crate::node::Universe;
use mundi_model::{Moment, WorkerId, check_label_key, limits};
use mundi_runtime::Plane;
use mundi_store::{
    protocol::{HeldBy, WorldFilter, WorldOrder, WorldQuery},
    values::ListedState,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, btree_map::Entry};
use utoipa::{IntoParams, ToSchema};

/// The filters of a list of worlds. All that are given have to hold.
#[derive(Debug, Clone, Default, Deserialize, IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct WorldFilters {
    /// `live` (also those that are paused or on hold), `paused`, `on_hold`, `archived`, `deleting` or `deleted`; all but deleted ones if nothing
    /// is said.
    pub(super) state: Option<String>,
    /// Only worlds whose name begins so.
    pub(super) name: Option<String>,
    /// Only worlds whose name contains this, in small or large letters.
    pub(super) name_contains: Option<String>,
    /// Only worlds with this label: `customer=17`, or `customer` for any value. Given several times (in JSON as an array), worlds with all of them.
    #[param(value_type = Option<Vec<String>>)]
    pub(super) label: Option<LabelFilter>,
    /// Only forks of this world.
    pub(super) parent: Option<String>,
    /// Only worlds whose lease is held by this worker; `anybody` or `nobody`.
    pub(super) held_by: Option<String>,
    /// Only worlds that are on hold because their turns or a step failed (`true`), or only those that are not.
    pub(super) on_hold: Option<bool>,
    /// Only worlds of which a step failed since they were last upgraded, resumed, retried or skipped, or only the others.
    pub(super) failed: Option<bool>,
    /// Only worlds that run this program: `todo` for all of its versions, `todo@2`, or the hash of a manifest.
    pub(super) program: Option<String>,
    /// Only worlds that were created at this time or later (RFC 3339, or nanoseconds).
    pub(super) created_after: Option<String>,
    pub(super) created_before: Option<String>,
    /// Only worlds that a worker opened or released at this time or later.
    pub(super) active_after: Option<String>,
    /// Also those that were never opened.
    pub(super) active_before: Option<String>,
    /// Only worlds with dead letters (`true`); the first 10,000 letters are looked at.
    pub(super) dead_letters: Option<bool>,
    /// Only worlds with an effect that has been open for so many seconds; the first 10,000 effects of each stage are looked at.
    pub(super) effects_older_than_s: Option<u64>,
    /// `name` (only worlds that have one), `created`, `newest` (by time of creation, the newest first), `active` (by last activity, the latest first), or `id`, the default; by default a list by the beginning of a name is in
    /// the order of names, and one by a label without a value in the order of values.
    pub(super) sort: Option<String>,
}

/// One label, or several. A value may contain any character but a control character, so nothing separates labels within a text.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(untagged)]
pub(super) enum LabelFilter {
    One(String),
    All(Vec<String>),
}

impl LabelFilter {
    fn texts(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::All(texts) => texts,
        }
    }
}

/// The parameters of an address, of which only `label` may be given several times.
fn parameters(pairs: Vec<(String, String)>) -> Result<(BTreeMap<String, String>, Vec<String>), Problem> {
    let (mut params, mut labels) = (BTreeMap::new(), Vec::new());
    for (name, value) in pairs {
        if name == "label" {
            labels.push(value);
            continue;
        }
        match params.entry(name) {
            Entry::Vacant(free) => {
                free.insert(value);
            }
            Entry::Occupied(given) => {
                let detail = format!("{}: given several times; only `label` may be", given.key());
                return Err(Problem::invalid(detail));
            }
        }
    }
    Ok((params, labels))
}

impl WorldFilters {
    /// Out of the query of an address, with the page that is asked for.
    pub(super) fn of_query(pairs: Vec<(String, String)>) -> Result<(Self, PageParams), Problem> {
        let (mut params, labels) = parameters(pairs)?;
        let after = params.remove("after");
        let limit = params.remove("limit").map(|limit| limit.parse()).transpose();
        let limit = limit.map_err(|_| Problem::invalid("limit: expected a number"))?;
        let typed = params.into_iter().map(|(name, text)| {
            let value = match &*name {
                "on_hold" | "failed" | "dead_letters" => text.parse().map(Value::Bool).unwrap_or(Value::String(text)),
                "effects_older_than_s" => text.parse::<u64>().map(Value::from).unwrap_or(Value::String(text)),
                _ => Value::String(text),
            };
            (name, value)
        });
        let filters = serde_json::from_value(Value::Object(typed.collect()));
        let filters: Self = filters.map_err(|error| Problem::invalid(format!("filters: {error}")))?;
        let label = (!labels.is_empty()).then_some(LabelFilter::All(labels));
        Ok((Self { label, ..filters }, PageParams { after, limit }))
    }

    /// A filter that holds for every world is refused: a bulk command with an empty text would be one about all of them.
    fn check(&self) -> Result<(), Problem> {
        for (of, text) in [("name", &self.name), ("name_contains", &self.name_contains)] {
            if text.as_deref() == Some("") {
                return Err(Problem::invalid(format!("{of}: expected a text that is not empty")));
            }
        }
        match self.dead_letters {
            Some(false) => Err(Problem::invalid("dead_letters: only `true` is a filter")),
            _ => Ok(()),
        }
    }

    /// Whether they ask for anything.
    pub(super) fn is_empty(&self) -> bool {
        let Self { state, name, name_contains, parent, held_by, program, .. } = self;
        let texts = [state, name, name_contains, parent, held_by, program];
        let times = [&self.created_after, &self.created_before, &self.active_after, &self.active_before];
        texts.iter().chain(&times).all(|text| text.is_none())
            && [self.on_hold, self.failed, self.dead_letters].iter().all(Option::is_none)
            && self.effects_older_than_s.is_none()
            && self.label.is_none()
    }

    pub(super) async fn query(&self, universe: &Universe) -> Result<WorldQuery, Problem> {
        self.check()?;
        let parent = match self.parent.as_deref() {
            Some(name) => Some(world_of(universe, name).await?),
            None => None,
        };
        let manifests = match self.program.as_deref() {
            Some(program) => Some(universe.manifests_called(program).await?.into_iter().collect()),
            None => None,
        };
        let age_ns = self.effects_older_than_s.map(|age_s| age_s.saturating_mul(1_000_000_000));
        Ok(WorldQuery {
            world: None,
            filter: WorldFilter { state: None, parent, held: self.held()?, on_hold: self.on_hold, failed: self.failed },
            state: self.state.as_deref().map(state).transpose()?,
            name_prefix: self.name.clone(),
            name_from: None,
            name_before: None,
            name_contains: self.name_contains.clone(),
            labels: self.labels()?,
            manifests,
            created_from_ns: time("created_after", self.created_after.as_deref())?,
            created_before_ns: time("created_before", self.created_before.as_deref())?,
            active_from_ns: time("active_after", self.active_after.as_deref())?,
            active_before_ns: time("active_before", self.active_before.as_deref())?,
            has_dead_letters: self.dead_letters == Some(true),
            effects_before_ns: age_ns.map(|age_ns| universe.plane().now_ns().saturating_sub(age_ns)),
            order: self.order()?,
        })
    }

    fn held(&self) -> Result<Option<HeldBy>, Problem> {
        Ok(match self.held_by.as_deref() {
            None => None,
            Some("nobody") => Some(HeldBy::Nobody),
            Some("anybody") => Some(HeldBy::Anybody),
            Some(worker) => Some(HeldBy::Worker(worker.parse::<WorkerId>()?)),
        })
    }

    fn order(&self) -> Result<WorldOrder, Problem> {
        match self.sort.as_deref() {
            None | Some("id") => Ok(WorldOrder::Id),
            Some("name") => Ok(WorldOrder::Name),
            Some("created") => Ok(WorldOrder::Created),
            Some("newest") => Ok(WorldOrder::Newest),
            Some("active") => Ok(WorldOrder::Active),
            Some(other) => {
                Err(Problem::invalid(format!("sort: `{other}` is none of id, name, created, newest, active")))
            }
        }
    }

    fn labels(&self) -> Result<Vec<(String, Option<String>)>, Problem> {
        let Some(given) = &self.label else { return Ok(Vec::new()) };
        // An empty list would hold for every world.
        if given.texts().is_empty() {
            return Err(Problem::invalid("label: expected at least one label"));
        }
        let pairs = given.texts().iter().map(|pair| {
            let (key, value) = match pair.split_once('=') {
                Some((key, value)) => (key, Some(value.to_owned())),
                None => (&**pair, None),
            };
            check_label_key(key).map_err(|error| Problem::invalid(format!("label: {error}")))?;
            Ok((key.to_owned(), value))
        });
        let pairs = pairs.collect::<Result<Vec<_>, Problem>>()?;
        if pairs.len() > limits::WORLD_LABELS_MAX {
            return Err(Problem::invalid("label: more labels than a world can have"));
        }
        Ok(pairs)
    }
}

fn state(name: &str) -> Result<ListedState, Problem> {
    ListedState::from_name(name).ok_or_else(|| {
        let detail = format!("`{name}` is no state of a world: live, paused, on_hold, archived, deleting or deleted");
        Problem::invalid(detail)
    })
}

fn time(of: &str, text: Option<&str>) -> Result<Option<u64>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let at_ns = text.parse::<u64>().ok().or_else(|| text.parse::<Moment>().ok().map(|moment| moment.0));
    let invalid =
        || Problem::invalid(format!("{of}: `{text}` is no time: expected 2026-11-18T09:00:00Z or nanoseconds"));
    at_ns.map(Some).ok_or_else(invalid)
}
