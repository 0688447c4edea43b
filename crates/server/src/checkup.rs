//! Whether the database and the object store of a configuration are fit for a fleet: for `mundi doctor --fleet`.

#[cfg(any(test, feature = "foundationdb"))]
mod cluster_status;

pub use crate::signs::{Sign, Verdict};
use crate::{config::Config, node};
use mundi_engine::{
    foundationdb::SCHEME,
    postgres::{Diagnosis, diagnose},
};
use mundi_model::Coded;
use std::time::Duration;

/// A process needs this many connections besides those that read.
const CONNECTIONS_BESIDE: i64 = 3;
/// A fleet corrects clocks; one that is so far off tells of a machine that is not looked after.
const CLOCK_MS_MAX: u64 = 1_000;
/// Our own transactions live for five seconds.
const TRANSACTION_MAX: Duration = Duration::from_secs(300);

/// Looks at what the configuration names.
pub async fn look(config: &Config) -> Vec<Sign> {
    let mut signs = Vec::new();
    match &config.engine.url {
        Some(url) if url.starts_with(SCHEME) => look_at_cluster(config, url, &mut signs).await,
        Some(url) if config.engine.is_shared() => match diagnose(url, &config.engine.schema).await {
            Ok(found) => judge(config, &found, &mut signs),
            Err(error) => {
                let found = format!("{}: {error}", error.code());
                signs.push(Sign::wrong(
                    "database",
                    found,
                    "look at engine.url, and whether the server is up and lets us in",
                ));
            }
        },
        _ => signs.push(Sign::look(
            "database",
            "engine.url names none".to_owned(),
            "a fleet needs one: postgres://… or foundationdb://…",
        )),
    }
    match node::configured_objects(config).await {
        Ok(_) => signs.push(Sign::good("objects", "written and read".to_owned())),
        Err(error) => {
            let found = format!("{}: {error}", error.code());
            signs.push(Sign::wrong("objects", found, "look at objects.url, the credentials and the permissions"));
        }
    }
    signs
}

#[cfg(feature = "foundationdb")]
async fn look_at_cluster(config: &Config, url: &str, signs: &mut Vec<Sign>) {
    use crate::node::SystemClock;
    use mundi_store::Clock;
    match mundi_engine::foundationdb::diagnose(url, &node::cluster_options(config)).await {
        Ok(found) => {
            cluster_status::judge(&found.status, signs);
            cluster_status::judge_version(found.version, found.highest_version, signs);
            cluster_status::judge_clock(found.clock_ns, SystemClock.now_ns(), signs);
        }
        Err(error) => {
            let found = format!("{}: {error}", error.code());
            let advice = "look at engine.url, the cluster file, and whether its coordinators can be reached from here";
            signs.push(Sign::wrong("database", found, advice));
        }
    }
}

#[cfg(not(feature = "foundationdb"))]
async fn look_at_cluster(_config: &Config, url: &str, signs: &mut Vec<Sign>) {
    let found = match mundi_engine::foundationdb::parse(url) {
        Ok(_) => "this build lacks the feature `foundationdb`".to_owned(),
        Err(error) => format!("{}: {error}", error.code()),
    };
    signs.push(Sign::wrong("database", found, "run a build with the feature, or correct engine.url"));
}

fn judge(config: &Config, found: &Diagnosis, signs: &mut Vec<Sign>) {
    signs.push(Sign::good("database", format!("PostgreSQL {}", found.server_version)));
    for (check, is_on) in [("fsync", found.fsync), ("full_page_writes", found.full_page_writes)] {
        signs.push(match is_on {
            true => Sign::good(check, "on".to_owned()),
            false => Sign::wrong(
                check,
                "off".to_owned(),
                "turn it on: acknowledged commits do not survive a crash without it",
            ),
        });
    }
    let needed = i64::try_from(config.engine.connections_max).unwrap_or(i64::MAX).saturating_add(CONNECTIONS_BESIDE);
    let free = found.connections_max - found.connections_used;
    let connections =
        format!("{} of {} used; a process takes up to {needed}", found.connections_used, found.connections_max);
    signs.push(match free >= needed {
        true => Sign::good("connections", connections),
        false => Sign::look("connections", connections, "raise max_connections, or lower engine.connections_max"),
    });
    let clock = format!("the database's is {} ms ahead", found.ahead_ms);
    signs.push(match found.ahead_ms.unsigned_abs() <= CLOCK_MS_MAX {
        true => Sign::good("clock", clock),
        false => Sign::look("clock", clock, "set this machine's clock: the fleet goes by the database's"),
    });
    let schema = if found.schema_exists { "is there" } else { "is made by the first process" };
    signs.push(match found.may_write {
        true => Sign::good("schema", schema.to_owned()),
        false => Sign::wrong(
            "schema",
            format!("{schema}, and this user may not change it"),
            "grant CREATE, or make it the owner",
        ),
    });
    let oldest = format!("the oldest transaction is {} s old", found.oldest_transaction.as_secs());
    signs.push(match found.oldest_transaction <= TRANSACTION_MAX {
        true => Sign::good("cleaning", oldest),
        false => Sign::look("cleaning", oldest, "end it: while it is open, what queues delete takes room"),
    });
}
