//! Probes: a URL that answers well while a holder, or what it holds, is there.

use super::{Watcher, rounds::ShardMemory};
use crate::{Plane, RuntimeError};
use futures_util::{
    future::{BoxFuture, Either, select},
    stream::{self, StreamExt},
};
use mundi_model::{WorldId, limits, pool::LeaseId, watch::WatchProbe};
use mundi_store::protocol::WatchedLease;
use serde_json::json;
use std::time::Duration;

/// Makes probes: the runtime has no sockets of its own.
pub trait Probe: Send + Sync {
    /// `Ok` if the answer has a status from 200 to 299.
    fn probe<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), ProbeFailed>>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeFailed {
    /// No answer, or another one.
    NotWell(String),
    /// It may not be made from here, so it says nothing about anybody.
    Denied(String),
}

/// The result of the probes of one lease.
#[derive(Debug)]
pub(super) struct Probed {
    pub(super) lease: LeaseId,
    /// `None` if it was not tried.
    pub(super) is_well: Option<bool>,
    /// The names of its members.
    pub(super) resources: Option<Vec<String>>,
}

impl<P: Plane> Watcher<P> {
    pub(super) async fn probe_all(
        &self,
        rule: &WatchProbe,
        probe: &dyn Probe,
        world: WorldId,
        page: &[WatchedLease],
        memory: &ShardMemory,
    ) -> Vec<Probed> {
        let known = |watched: &WatchedLease| memory.resources(watched.lease).map(<[String]>::to_vec);
        let leases: Vec<_> = page.iter().map(|watched| (*watched, known(watched))).collect();
        let probing = stream::iter(leases).map(|(watched, known)| self.probe_lease(rule, probe, world, watched, known));
        probing.buffer_unordered(limits::WATCH_PROBES_AT_ONCE).collect().await
    }

    /// Well if every member answers well; the members are probed one after another.
    async fn probe_lease(
        &self,
        rule: &WatchProbe,
        probe: &dyn Probe,
        world: WorldId,
        watched: WatchedLease,
        known: Option<Vec<String>>,
    ) -> Probed {
        let lease = watched.lease;
        let names_members = rule.url.contains("{resource}");
        let resources = match (known, names_members) {
            (Some(known), true) => known,
            (_, false) => vec![String::new()],
            (None, true) => match self.members(world, lease).await {
                Ok(members) => members,
                Err(error) => {
                    tracing::debug!(%error, %lease, "the members of a lease could not be read");
                    return Probed { lease, is_well: None, resources: None };
                }
            },
        };
        let mut is_well = Some(true);
        for resource in &resources {
            let url = url_of(&rule.url, &watched, resource);
            let time = self.plane.clock().sleep(Duration::from_millis(rule.timeout_ms));
            let answered = match select(probe.probe(&url), time).await {
                Either::Left((answered, _)) => answered,
                Either::Right(_) => Err(ProbeFailed::NotWell("no answer in time".to_owned())),
            };
            match answered {
                Ok(()) => {}
                Err(ProbeFailed::NotWell(reason)) => {
                    tracing::debug!(%lease, reason, "a probe failed");
                    is_well = Some(false);
                    break;
                }
                Err(ProbeFailed::Denied(reason)) => {
                    tracing::warn!(%lease, reason, "a probe may not be made");
                    is_well = None;
                    break;
                }
            }
        }
        Probed { lease, is_well, resources: names_members.then_some(resources) }
    }

    /// The names of a lease's members: they never change.
    async fn members(&self, world: WorldId, lease: LeaseId) -> Result<Vec<String>, RuntimeError> {
        let answer = self.ops.pool_query(world, ("lease", json!({ "lease_id": lease })), None).await?;
        let names = answer["lease"]["resources"].as_array().into_iter().flatten();
        Ok(names.filter_map(|name| name.as_str().map(str::to_owned)).collect())
    }
}

fn url_of(url: &str, watched: &WatchedLease, resource: &str) -> String {
    let url = url.replace("{lease}", &watched.lease.to_string());
    let url = url.replace("{epoch}", &watched.authority.epoch.to_string());
    let url = url.replace("{holder}", &watched.authority.holder.to_string());
    url.replace("{resource}", &escaped(resource))
}

/// A name in a URL: what is not surely plain is written in hex.
fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::pool::{HolderId, LeaseAuthority};
    use mundi_store::protocol::HolderSeen;

    #[test]
    fn the_url_of_a_probe_names_the_lease_and_escapes_names() {
        let authority = LeaseAuthority { epoch: 3, holder: HolderId::from_bytes([2; 16]) };
        let lease = LeaseId::from_bytes([1; 16]);
        let watched = WatchedLease { lease, authority, holder: HolderSeen::Outside, beats: 0 };
        let url = url_of("http://h/{resource}?l={lease}&e={epoch}&h={holder}", &watched, "a/b c");
        assert_eq!(url, format!("http://h/a%2Fb%20c?l={lease}&e=3&h={}", authority.holder));
    }
}
