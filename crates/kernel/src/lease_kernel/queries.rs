//! Reads. Each names the LSN up to which commands were applied to what it saw.

use super::{
    config::Home,
    core::{is_authority, read, shard_of},
    records::{Counts, Labelled, Lease, LeaseMember, LeaseState, Resource, ResourceState, Ticket, Watched, cell},
    result::ResultCode,
};
use crate::program::{Failure, Stop, View};
use mundi_model::{
    Value, cbor, limits,
    pool::{HolderId, LeaseId, ResourceId},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value as Json, json};

pub(super) const NAMES: &[&str] = &["pool", "lease", "leases", "resource", "resources", "ticket"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneLease {
    lease_id: LeaseId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneTicket {
    ticket: LeaseId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneResource {
    resource_id: ResourceId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Listing<S, I> {
    state: Option<S>,
    holder_id: Option<HolderId>,
    label: Option<String>,
    after: Option<I>,
    limit: usize,
}

impl<S, I> Default for Listing<S, I> {
    fn default() -> Self {
        Self { state: None, holder_id: None, label: None, after: None, limit: 100 }
    }
}

fn params<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    let invalid = |why: String| Failure::new(format!("the parameters of the query: {why}"));
    let value: Value = cbor::decode(bytes).map_err(|error| invalid(error.to_string()))?;
    let json = match value.to_json().map_err(|error| invalid(error.to_string()))? {
        Json::Null => json!({}),
        json => json,
    };
    serde_json::from_value(json).map_err(|error| invalid(error.to_string()))
}

pub(super) fn answer(view: &mut dyn View, name: &str, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let Some(home) = read::<Home>(view, cell::HOME)? else {
        return Err(Failure::new("this world is not configured as a pool"));
    };
    let mut answer = match name {
        "pool" => pool(view, &home)?,
        "lease" => {
            let OneLease { lease_id } = params(bytes)?;
            lease(view, &home, lease_id)?
        }
        "leases" => leases(view, &home, &params(bytes)?)?,
        "resource" => {
            let OneResource { resource_id } = params(bytes)?;
            match read::<Resource>(view, &cell::resource(resource_id))? {
                Some(found) => json!({ "result": ResultCode::Ok, "resource": resource(view, &found)? }),
                None => json!({ "result": ResultCode::ResourceNotFound }),
            }
        }
        "resources" => resources(view, &params(bytes)?)?,
        "ticket" => {
            let OneTicket { ticket } = params(bytes)?;
            match read::<Ticket>(view, &cell::ticket(ticket))? {
                Some(found) => json!({ "result": ResultCode::Ok, "ticket": found }),
                None => json!({ "result": ResultCode::TicketNotFound }),
            }
        }
        other => return Err(Failure::new(format!("a pool answers no query `{other}`"))),
    };
    answer["applied_lsn"] = view.height().get().saturating_sub(1).into();
    answer["slot"] = home.config.slot(view.logical_now_ns()).into();
    Ok(cbor::encode(&Value::from(answer)))
}

fn pool(view: &mut dyn View, home: &Home) -> Result<Json, Stop> {
    let counts: Counts = read(view, cell::COUNTS)?.unwrap_or_default();
    Ok(json!({
        "result": ResultCode::Ok,
        "config": home.config,
        "counts": counts,
        "shard": shard_of(home, view),
        "is_authority": is_authority(home, view),
    }))
}

/// A lease whose time is over does not answer, whether or not it was removed yet.
fn lease(view: &mut dyn View, home: &Home, id: LeaseId) -> Result<Json, Stop> {
    let slot = home.config.slot(view.logical_now_ns());
    match read::<Lease>(view, &cell::lease(id))? {
        Some(lease) if answers(&lease, slot) => {
            let watched: Watched = read(view, &cell::watched(id))?.unwrap_or_default();
            let mut json = with_members(view, &lease)?;
            json["resources"] = names(view, &json["resource_ids"])?;
            (json["evidence"], json["reclaim_after_ms"]) =
                (as_json(&watched.evidence), as_json(&watched.reclaim_after_ms));
            Ok(json!({ "result": ResultCode::Ok, "lease": json }))
        }
        Some(_) => Ok(json!({ "result": ResultCode::LeaseRetired })),
        None => {
            let counts: Counts = read(view, cell::COUNTS)?.unwrap_or_default();
            let is_ours = [home.shard, shard_of(home, view)].contains(&id.shard()) && id.lsn().get() > 0;
            let is_retired = is_ours && id.lsn().get() <= counts.retired_lsn;
            let result = if is_retired { ResultCode::LeaseRetired } else { ResultCode::LeaseNotFound };
            Ok(json!({ "result": result }))
        }
    }
}

fn answers(lease: &Lease, slot: u64) -> bool {
    lease.retire_after_slot == 0 || lease.retire_after_slot > slot
}

fn with_members(view: &mut dyn View, lease: &Lease) -> Result<Json, Stop> {
    let mut members = Vec::new();
    for index in 0..lease.member_count {
        members.extend(read::<LeaseMember>(view, &cell::member(lease.lease_id, index))?.map(|it| it.resource_id));
    }
    let mut json = as_json(lease);
    json["resource_ids"] = as_json(&members);
    Ok(json)
}

/// The names of these resources; the id of one that has no name.
fn names(view: &mut dyn View, ids: &Json) -> Result<Json, Stop> {
    let mut names = Vec::new();
    for id in ids.as_array().into_iter().flatten().filter_map(Json::as_str) {
        let labelled: Option<Labelled> = match id.parse() {
            Ok(resource) => read(view, &cell::labelled(resource))?,
            Err(_) => None,
        };
        names.push(labelled.and_then(|labelled| labelled.name).unwrap_or_else(|| id.to_owned()));
    }
    Ok(as_json(&names))
}

fn as_json(value: &impl Serialize) -> Json {
    serde_json::to_value(value).unwrap_or(Json::Null)
}

fn resource(view: &mut dyn View, resource: &Resource) -> Result<Json, Stop> {
    let labelled: Option<Labelled> = read(view, &cell::labelled(resource.resource_id))?;
    let (name, labels) = labelled.map_or((None, Vec::new()), |labelled| (labelled.name, labelled.labels));
    let mut json = as_json(resource);
    (json["name"], json["labels"]) = (as_json(&name), as_json(&labels));
    Ok(json)
}

/// A page: what was found among so many records, and where the next page begins.
fn page(items: &[Json], next: Option<&str>) -> Json {
    json!({ "result": ResultCode::Ok, "items": items, "next": next })
}

fn leases(view: &mut dyn View, home: &Home, listing: &Listing<LeaseState, LeaseId>) -> Result<Json, Stop> {
    let slot = home.config.slot(view.logical_now_ns());
    let fits = |lease: &Lease| {
        answers(lease, slot)
            && listing.state.is_none_or(|state| state == lease.state)
            && listing.holder_id.is_none_or(|holder| holder == lease.holder_id)
    };
    let mut last = None;
    let mut items = Vec::new();
    let found: Vec<Lease> = scan(view, cell::LEASES, listing.after.map(cell::lease).as_deref())?;
    let scanned = found.len();
    for lease in &found {
        if items.len() >= listing.limit.clamp(1, limits::SCAN_ITEMS_MAX) {
            return Ok(page(&items, last.as_deref()));
        }
        last = Some(lease.lease_id.to_string());
        if fits(lease) {
            items.push(with_members(view, lease)?);
        }
    }
    Ok(page(&items, last.as_deref().filter(|_| scanned == limits::SCAN_ITEMS_MAX)))
}

fn resources(view: &mut dyn View, listing: &Listing<ResourceState, ResourceId>) -> Result<Json, Stop> {
    let mut last = None;
    let mut items = Vec::new();
    let found: Vec<Resource> = scan(view, cell::RESOURCES, listing.after.map(cell::resource).as_deref())?;
    let scanned = found.len();
    for found in &found {
        if items.len() >= listing.limit.clamp(1, limits::SCAN_ITEMS_MAX) {
            return Ok(page(&items, last.as_deref()));
        }
        last = Some(found.resource_id.to_string());
        if listing.state.is_some_and(|state| state != found.current_state) {
            continue;
        }
        let json = resource(view, found)?;
        let has = |label: &String| json["labels"].as_array().is_some_and(|all| all.iter().any(|it| it == label));
        if listing.label.as_ref().is_none_or(has) && is_held_by(view, found, listing.holder_id)? {
            items.push(json);
        }
    }
    Ok(page(&items, last.as_deref().filter(|_| scanned == limits::SCAN_ITEMS_MAX)))
}

fn is_held_by(view: &mut dyn View, resource: &Resource, holder: Option<HolderId>) -> Result<bool, Stop> {
    let Some(holder) = holder else { return Ok(true) };
    let Some(lease) = resource.current_lease_id else { return Ok(false) };
    Ok(read::<Lease>(view, &cell::lease(lease))?.is_some_and(|lease| lease.holder_id == holder))
}

fn scan<T: for<'b> minicbor::Decode<'b, ()> + minicbor::Encode<()>>(
    view: &mut dyn View,
    prefix: &str,
    after: Option<&str>,
) -> Result<Vec<T>, Stop> {
    let found = view.scan(prefix, after, limits::SCAN_ITEMS_MAX)?;
    let decode =
        |(key, bytes): &(String, Vec<u8>)| cbor::decode(bytes).map_err(|error| format!("the cell `{key}`: {error}"));
    found.iter().map(decode).collect::<Result<_, _>>().map_err(|why| view.refuse(&why))
}
