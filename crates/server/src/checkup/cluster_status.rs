//! The status of a FoundationDB cluster (`\xff\xff/status/json`), and the faults that it shows.

use super::{CLOCK_MS_MAX, Sign};
use serde_json::Value;
use std::collections::BTreeSet;

/// The release that the client of this program was made for. A cluster talks to clients of its own release.
const RELEASE: &str = "7.3.";

/// A storage server takes no more writes when 5 % of its disk are free.
const FREE_PERCENT_MIN: u64 = 10;
const FREE_PERCENT_LOW: u64 = 20;

/// A clock that no process has set for so long says nothing about clocks: no fleet runs.
const CLOCK_OLD_NS: u64 = 60_000_000_000;

/// Judges the whole description.
pub(super) fn judge(status: &[u8], signs: &mut Vec<Sign>) {
    let Ok(status) = serde_json::from_slice::<Value>(status) else {
        let advice = "compare with `fdbcli --exec 'status json'`";
        return signs.push(Sign::wrong("database", "the cluster's status is not JSON".to_owned(), advice));
    };
    let cluster = &status["cluster"];
    availability(&status, signs);
    releases(cluster, signs);
    redundancy(cluster, signs);
    replication(cluster, signs);
    storage(cluster, signs);
    free_space(cluster, signs);
    messages(cluster, signs);
}

fn availability(status: &Value, signs: &mut Vec<Sign>) {
    let cluster = &status["cluster"];
    let is_available =
        cluster["database_available"].as_bool().or(status["client"]["database_status"]["available"].as_bool());
    let state = cluster["recovery_state"]["name"].as_str().unwrap_or("unknown");
    let locked = cluster["database_lock_state"]["locked"].as_bool().or(cluster["database_locked"].as_bool());
    signs.push(match is_available {
        Some(true) if locked == Some(true) => Sign::wrong(
            "database",
            "FoundationDB, locked".to_owned(),
            "a restore or a switch of clusters holds the lock: end it, or `unlock`",
        ),
        Some(true) => Sign::good("database", format!("FoundationDB, {state}")),
        _ => Sign::wrong(
            "database",
            format!("FoundationDB, not available: {state}"),
            "see `fdbcli --exec 'status details'`",
        ),
    });
    if status["client"]["coordinators"]["quorum_reachable"].as_bool() == Some(false) {
        let found = "this machine reaches no majority of them".to_owned();
        signs.push(Sign::wrong(
            "coordinators",
            found,
            "look at the cluster file and at the network to the coordinators",
        ));
    }
}

fn processes(cluster: &Value) -> impl Iterator<Item = &Value> {
    cluster["processes"].as_object().into_iter().flat_map(|processes| processes.values())
}

fn releases(cluster: &Value, signs: &mut Vec<Sign>) {
    let found: BTreeSet<&str> = processes(cluster).filter_map(|process| process["version"].as_str()).collect();
    let listed = || found.iter().copied().collect::<Vec<_>>().join(", ");
    signs.push(match found.len() {
        0 => Sign::look("release", "the cluster names no processes".to_owned(), "see `fdbcli --exec 'status details'`"),
        1 if found.iter().all(|version| version.starts_with(RELEASE)) => Sign::good("release", listed()),
        1 => Sign::wrong("release", listed(), "this program's client is of release 7.3: run a cluster of that release"),
        _ => Sign::look("release", listed(), "processes of several releases run: end the upgrade"),
    });
}

fn redundancy(cluster: &Value, signs: &mut Vec<Sign>) {
    let configuration = &cluster["configuration"];
    let mode = configuration["redundancy_mode"].as_str().or(configuration["redundancy"]["factor"].as_str());
    signs.push(match mode {
        Some("single") => Sign::wrong(
            "redundancy",
            "single".to_owned(),
            "`configure double` (three machines) or `triple` (five): one lost disk loses acknowledged commits",
        ),
        Some(mode) => Sign::good("redundancy", mode.to_owned()),
        None => Sign::look("redundancy", "not told".to_owned(), "see `fdbcli --exec 'status'`"),
    });
    let failures = cluster["fault_tolerance"]["max_zone_failures_without_losing_availability"].as_i64();
    if let Some(failures) = failures {
        let found = format!("{failures} machines may fail");
        signs.push(match failures {
            1.. => Sign::good("fault tolerance", found),
            _ => Sign::look("fault tolerance", found, "add machines, or bring back those that are gone"),
        });
    }
}

fn replication(cluster: &Value, signs: &mut Vec<Sign>) {
    let state = &cluster["data"]["state"];
    let name = state["name"].as_str().unwrap_or("unknown");
    signs.push(match state["healthy"].as_bool() {
        Some(true) => Sign::good("replication", name.to_owned()),
        Some(false) => Sign::wrong(
            "replication",
            name.to_owned(),
            "copies are missing: bring machines back, and wait until it is healthy",
        ),
        None => Sign::look("replication", "not told".to_owned(), "see `fdbcli --exec 'status details'`"),
    });
}

fn storage(cluster: &Value, signs: &mut Vec<Sign>) {
    signs.push(match cluster["configuration"]["storage_engine"].as_str() {
        Some(engine) if engine.starts_with("ssd") => Sign::good("storage engine", engine.to_owned()),
        Some(engine) if engine.starts_with("memory") => {
            Sign::look("storage engine", engine.to_owned(), "all data must fit in memory: `configure ssd`")
        }
        engine => {
            let found = engine.unwrap_or("not told").to_owned();
            Sign::look("storage engine", found, "Mundi is meant for `ssd`")
        }
    });
}

fn free_space(cluster: &Value, signs: &mut Vec<Sign>) {
    let percent = |process: &Value| {
        let disk = &process["disk"];
        let (free, total) = (disk["free_bytes"].as_u64()?, disk["total_bytes"].as_u64()?);
        free.saturating_mul(100).checked_div(total)
    };
    let Some(least) = processes(cluster).filter_map(percent).min() else { return };
    let found = format!("{least} % of the fullest disk");
    signs.push(match least {
        FREE_PERCENT_LOW.. => Sign::good("free space", found),
        FREE_PERCENT_MIN.. => Sign::look("free space", found, "add storage servers before it is full"),
        _ => Sign::wrong("free space", found, "add storage servers: below 5 % the cluster takes no more writes"),
    });
}

/// The cluster's own complaints.
fn messages(cluster: &Value, signs: &mut Vec<Sign>) {
    for message in cluster["messages"].as_array().into_iter().flatten() {
        let name = message["name"].as_str().unwrap_or("message");
        let found = format!("{name}: {}", message["description"].as_str().unwrap_or("no description"));
        signs.push(Sign::look("cluster message", found, "see `fdbcli --exec 'status details'`"));
    }
}

pub(super) fn judge_version(version: u64, highest: Option<u64>, signs: &mut Vec<Sign>) {
    signs.push(match highest {
        None => Sign::good("version", format!("{version}; no process has run here yet")),
        Some(highest) if version >= highest => {
            Sign::good("version", format!("{version}, above {highest} which was seen"))
        }
        Some(highest) => Sign::wrong(
            "version",
            format!("{version}, below {highest} which was seen"),
            "the cluster is younger than its data: see DATABASE_VERSION_BEHIND",
        ),
    });
}

pub(super) fn judge_clock(clock_ns: Option<u64>, own_ns: u64, signs: &mut Vec<Sign>) {
    let Some(clock_ns) = clock_ns else { return };
    if own_ns.saturating_sub(clock_ns) > CLOCK_OLD_NS {
        return signs.push(Sign::good("clock", "no process has published its time lately".to_owned()));
    }
    let ahead_ms = clock_ns.saturating_sub(own_ns) / 1_000_000;
    let found = format!("the fleet's is {ahead_ms} ms ahead");
    signs.push(match ahead_ms <= CLOCK_MS_MAX {
        true => Sign::good("clock", found),
        false => Sign::look("clock", found, "set the clocks of all machines: the fleet goes by the fastest"),
    });
}

#[cfg(test)]
mod tests {
    use super::{super::Verdict, *};
    use serde_json::json;

    /// The parts of the description that are read, as release 7.3 gives them.
    fn healthy() -> Value {
        let process = |free: u64| json!({ "version": "7.3.63", "disk": { "free_bytes": free, "total_bytes": 1_000 } });
        json!({
            "client": { "coordinators": { "quorum_reachable": true }, "database_status": { "available": true, "healthy": true } },
            "cluster": {
                "configuration": { "redundancy_mode": "double", "storage_engine": "ssd-2" },
                "data": { "state": { "healthy": true, "name": "healthy" } },
                "database_available": true,
                "database_lock_state": { "locked": false },
                "fault_tolerance": { "max_zone_failures_without_losing_availability": 1 },
                "messages": [],
                "processes": { "a": process(900), "b": process(500), "c": process(800) },
                "recovery_state": { "name": "fully_recovered" },
            },
        })
    }

    fn signs_of(status: &Value) -> Vec<Sign> {
        let mut signs = Vec::new();
        judge(status.to_string().as_bytes(), &mut signs);
        signs
    }

    /// The checks that are not good, of the healthy description with one part changed.
    fn complaints(pointer: &str, value: Value) -> Vec<(&'static str, Verdict)> {
        let mut status = healthy();
        *status.pointer_mut(pointer).unwrap() = value;
        let signs = signs_of(&status).into_iter().filter(|sign| sign.verdict != Verdict::Good);
        signs.map(|sign| (sign.check, sign.verdict)).collect()
    }

    #[test]
    fn a_healthy_cluster_is_good_in_everything() {
        let signs = signs_of(&healthy());
        assert!(signs.iter().all(|sign| sign.verdict == Verdict::Good), "{signs:?}");
        let found = |check: &str| signs.iter().find(|sign| sign.check == check).unwrap().found.clone();
        assert_eq!(found("redundancy"), "double");
        assert_eq!(found("storage engine"), "ssd-2");
        assert_eq!(found("release"), "7.3.63");
        assert_eq!(found("free space"), "50 % of the fullest disk");
    }

    #[test]
    fn what_is_wrong_is_said_and_nothing_else() {
        use Verdict::{Look, Wrong};
        let cases = [
            ("/cluster/database_available", json!(false), ("database", Wrong)),
            ("/cluster/database_lock_state/locked", json!(true), ("database", Wrong)),
            ("/client/coordinators/quorum_reachable", json!(false), ("coordinators", Wrong)),
            ("/cluster/configuration/redundancy_mode", json!("single"), ("redundancy", Wrong)),
            ("/cluster/configuration/storage_engine", json!("memory-2"), ("storage engine", Look)),
            ("/cluster/data/state", json!({ "healthy": false, "name": "healing" }), ("replication", Wrong)),
            (
                "/cluster/fault_tolerance/max_zone_failures_without_losing_availability",
                json!(0),
                ("fault tolerance", Look),
            ),
            ("/cluster/processes/b/disk/free_bytes", json!(150), ("free space", Look)),
            ("/cluster/processes/b/disk/free_bytes", json!(50), ("free space", Wrong)),
            ("/cluster/processes/a/version", json!("7.3.27"), ("release", Look)),
            ("/cluster/messages", json!([{ "name": "x", "description": "y" }]), ("cluster message", Look)),
        ];
        for (pointer, value, expected) in cases {
            assert_eq!(complaints(pointer, value.clone()), [expected], "{pointer} = {value}");
        }
        let other = complaints("/cluster/processes", json!({ "a": { "version": "7.1.61" } }));
        assert_eq!(other, [("release", Wrong)]);
    }

    #[test]
    fn a_cluster_that_tells_nothing_is_not_called_good() {
        for status in [json!({}), json!({ "cluster": [] }), json!(7)] {
            let signs = signs_of(&status);
            assert!(signs.iter().all(|sign| sign.verdict != Verdict::Good), "{signs:?}");
        }
        let mut signs = Vec::new();
        judge(b"no json", &mut signs);
        assert_eq!(signs[0].verdict, Verdict::Wrong);
    }

    #[test]
    fn versions_that_went_back_and_clocks_that_differ_are_found() {
        let verdict = |judge: &dyn Fn(&mut Vec<Sign>)| {
            let mut signs = Vec::new();
            judge(&mut signs);
            signs.first().map(|sign| sign.verdict)
        };
        assert_eq!(verdict(&|signs| judge_version(5, None, signs)), Some(Verdict::Good));
        assert_eq!(verdict(&|signs| judge_version(5, Some(5), signs)), Some(Verdict::Good));
        assert_eq!(verdict(&|signs| judge_version(4, Some(5), signs)), Some(Verdict::Wrong));
        let now = 1_790_000_000_000_000_000;
        assert_eq!(verdict(&|signs| judge_clock(None, now, signs)), None);
        assert_eq!(verdict(&|signs| judge_clock(Some(now + 5_000_000), now, signs)), Some(Verdict::Good));
        assert_eq!(verdict(&|signs| judge_clock(Some(now + 5_000_000_000), now, signs)), Some(Verdict::Look));
        assert_eq!(verdict(&|signs| judge_clock(Some(now - CLOCK_OLD_NS - 1), now, signs)), Some(Verdict::Good));
    }
}
