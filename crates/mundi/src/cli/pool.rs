//! `mundi pool`: resources that are leased, and never handed out early.

use super::{
    client::{Listing, Server, escape},
    exit::{Failed, Outcome},
    output::{Out, time},
};
use clap::{Args, Subcommand};
use mundi_model::Code;
use reqwest::Method;
use serde_json::{Map, Value, json};

#[derive(Subcommand)]
pub(super) enum PoolCommand {
    /// Makes a reserved lease active: from here on its holder has authority.
    Activate {
        #[command(flatten)]
        of: HolderOf,
    },
    /// Leaves the queue of a pool.
    Cancel {
        #[command(flatten)]
        to: Sending,
        /// As `mundi pool enqueue` printed it.
        ticket: String,
        /// The world that holds or will hold the lease, by its id or its name; or any other name of a holder.
        #[arg(long)]
        holder: String,
    },
    /// Creates a pool.
    Create {
        #[command(flatten)]
        server: Server,
        /// The name of the pool.
        name: String,
        /// How many worlds share its resources.
        #[arg(long, default_value_t = 1)]
        shards: u64,
        /// A bound of each shard, such as `slot_ms=1000` or `queue_max=100`; once for each.
        #[arg(long = "set", value_name = "NAME=NUMBER")]
        settings: Vec<String>,
    },
    /// Deletes a pool that has no live lease and for which nobody waits.
    Delete {
        #[command(flatten)]
        server: Server,
        /// The name of the pool.
        pool: String,
    },
    /// A pool: its bounds, and how full it is.
    Describe {
        #[command(flatten)]
        server: Server,
        /// The name of the pool.
        pool: String,
        /// Only this shard.
        #[arg(long)]
        shard: Option<u64>,
        #[command(flatten)]
        waits: AtLeast,
    },
    /// Waits in the queue of a pool for resources of a label.
    Enqueue {
        #[command(flatten)]
        to: Sending,
        #[command(flatten)]
        wish: Wish,
        /// Waits for the lease, and not only for a ticket.
        #[arg(long)]
        wait: bool,
    },
    /// The holder of an active lease says that it is there; one that has lost its authority is refused.
    Heartbeat {
        #[command(flatten)]
        of: HolderOf,
    },
    /// A lease with its epoch, its members and its history.
    Lease {
        #[command(flatten)]
        server: Server,
        /// The name of the pool.
        pool: String,
        /// The lease (`l_…`), as `mundi pool reserve` and `leases` print it.
        lease: String,
        #[command(flatten)]
        waits: AtLeast,
    },
    /// Lists leases of a pool.
    Leases {
        #[command(flatten)]
        listing: Listing,
        /// The name of the pool.
        pool: String,
        #[command(flatten)]
        filter: Filter,
    },
    /// Lists pools.
    List {
        #[command(flatten)]
        server: Server,
    },
    /// Makes the resources of a revoked lease available again.
    Reclaim {
        #[command(flatten)]
        to: Sending,
        /// The lease (`l_…`), as `mundi pool reserve` and `leases` print it.
        lease: String,
    },
    /// Ends a lease; its resources are available at once.
    Release {
        #[command(flatten)]
        of: HolderOf,
    },
    /// Reserves resources by name, or so many of a label.
    Reserve {
        #[command(flatten)]
        to: Sending,
        #[command(flatten)]
        wish: Wish,
        /// Names or ids: all of them, or none.
        resources: Vec<String>,
    },
    /// Withdraws the authority of a lease's holder; its resources stay unavailable until `reclaim`.
    Revoke {
        #[command(flatten)]
        to: Sending,
        /// The lease (`l_…`), as `mundi pool reserve` and `leases` print it.
        lease: String,
        /// A watcher reclaims the lease so many milliseconds after it saw the revoke.
        #[arg(long, value_name = "MS")]
        reclaim_after_ms: Option<u64>,
    },
    /// A place in the queue, and the lease that it was granted.
    Ticket {
        #[command(flatten)]
        server: Server,
        /// The name of the pool.
        pool: String,
        /// As `mundi pool enqueue` printed it.
        ticket: String,
        #[command(flatten)]
        waits: AtLeast,
    },
    /// The policy by which watchers look at a pool; with options, another one in its place.
    Watch {
        #[command(flatten)]
        server: Server,
        /// The name of the pool.
        pool: String,
        #[command(flatten)]
        rules: WatchRules,
        /// Nobody looks at it any more.
        #[arg(long, conflicts_with_all = ["holder_ended", "silent_after_ms", "probe", "reclaim_after_ms"])]
        off: bool,
    },
}

/// When leases are revoked, and how long after that they are reclaimed.
#[derive(Args)]
pub(super) struct WatchRules {
    /// Revoke leases whose holder is a world that was deleted or archived.
    #[arg(long)]
    holder_ended: bool,
    /// Revoke leases whose holder is no world and sent no heartbeat for so long.
    #[arg(long, value_name = "MS")]
    silent_after_ms: Option<u64>,
    /// Revoke leases for which this URL fails; `{lease}`, `{epoch}`, `{holder}` and `{resource}` are filled in.
    #[arg(long, value_name = "URL")]
    probe: Option<String>,
    /// So many failures of the probe in a row.
    #[arg(long, value_name = "COUNT", requires = "probe")]
    probe_failures: Option<u32>,
    /// How long the probe may take.
    #[arg(long, value_name = "MS", requires = "probe")]
    probe_timeout_ms: Option<u64>,
    /// Reclaim so long after a revoke; without it, someone else reclaims.
    #[arg(long, value_name = "MS")]
    reclaim_after_ms: Option<u64>,
}

impl WatchRules {
    /// `None` if nothing is said.
    fn form(self) -> Option<Value> {
        let Self { holder_ended, silent_after_ms, probe, probe_failures, probe_timeout_ms, reclaim_after_ms } = self;
        if !holder_ended && silent_after_ms.is_none() && probe.is_none() && reclaim_after_ms.is_none() {
            return None;
        }
        let probe =
            probe.map(|url| json!({ "url": url, "failures_max": probe_failures, "timeout_ms": probe_timeout_ms }));
        Some(json!({
            "holder_ended": holder_ended,
            "silent_after_ms": silent_after_ms,
            "probe": probe,
            "reclaim_after_ms": reclaim_after_ms,
        }))
    }
}

/// A command to a pool.
#[derive(Args)]
pub(super) struct Sending {
    #[command(flatten)]
    server: Server,
    /// The name of the pool.
    pool: String,
    /// The same for each attempt of one command.
    #[arg(long)]
    operation_id: Option<String>,
    /// Tells clients apart that share a token.
    #[arg(long)]
    client: Option<String>,
}

#[derive(Args)]
pub(super) struct HolderOf {
    #[command(flatten)]
    to: Sending,
    /// The lease (`l_…`), as `mundi pool reserve` and `leases` print it.
    lease: String,
    /// The lease's epoch, as its holder knows it.
    #[arg(long)]
    epoch: u64,
    /// The world that holds or will hold the lease, by its id or its name; or any other name of a holder.
    #[arg(long)]
    holder: String,
}

#[derive(Args)]
pub(super) struct Wish {
    /// Resources that have this label; any if it is left out.
    #[arg(long)]
    label: Option<String>,
    /// How many of them.
    #[arg(long)]
    count: Option<u32>,
    /// The world that holds or will hold the lease, by its id or its name; or any other name of a holder.
    #[arg(long)]
    holder: String,
    /// After so many slots the reservation expires, unless it is activated.
    #[arg(long = "ttl", value_name = "SLOTS")]
    ttl_slots: u64,
}

/// The command that a read must have seen.
#[derive(Args)]
pub(super) struct AtLeast {
    /// Waits until the command at this LSN was applied.
    #[arg(long)]
    at_least: Option<u64>,
}

impl AtLeast {
    /// The query of an address.
    pub(super) fn query(&self, shard: Option<u64>) -> String {
        let given = [("at_least", self.at_least), ("shard", shard)];
        let given = given.into_iter().filter_map(|(name, number)| Some(format!("{name}={}", number?)));
        given.enumerate().map(|(at, field)| format!("{}{field}", if at == 0 { '?' } else { '&' })).collect()
    }
}

/// The filter of a list.
#[derive(Args)]
pub(super) struct Filter {
    /// Only those in this state.
    #[arg(long)]
    state: Option<String>,
    /// Only those that this holder has.
    #[arg(long)]
    holder: Option<String>,
    /// Only this shard.
    #[arg(long)]
    shard: Option<u64>,
    #[command(flatten)]
    waits: AtLeast,
}

impl Filter {
    pub(super) fn params(self) -> [(&'static str, Option<String>); 4] {
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        [
            ("state", self.state),
            ("holder", self.holder),
            ("shard", number(self.shard)),
            ("at_least", number(self.waits.at_least)),
        ]
    }
}

/// The address of something of a pool.
pub(super) fn of_pool(pool: &str, rest: &str) -> String {
    format!("pools/{}{rest}", escape(pool))
}

impl Sending {
    /// Sends a command; what is not said is left out.
    async fn run(&self, out: Out, verb: &str, fields: &[(&str, Value)]) -> Outcome {
        let common = [("operation_id", json!(self.operation_id)), ("client", json!(self.client))];
        let said = fields.iter().chain(&common).filter(|(_, value)| !value.is_null());
        let form: Map<String, Value> = said.map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let path = self.server.of(&of_pool(&self.pool, &format!("/{verb}")));
        out.object(&self.server.post(&path, &Value::Object(form)).await?)
    }
}

impl HolderOf {
    async fn run(&self, out: Out, verb: &str) -> Outcome {
        let fields =
            [("lease_id", json!(self.lease)), ("lease_epoch", json!(self.epoch)), ("holder", json!(self.holder))];
        self.to.run(out, verb, &fields).await
    }
}

/// When a lease expires, as a time; null if it does not.
fn deadline(lease: &Value, slot_ms: u64) -> Value {
    let slot = lease["deadline_slot"].as_u64().filter(|slot| *slot > 0);
    let ns = slot.and_then(|slot| slot.checked_mul(slot_ms)?.checked_mul(1_000_000));
    ns.map_or(Value::Null, |ns| time(ns).into())
}

fn settings(settings: &[String]) -> Outcome<Value> {
    let setting = |text: &String| {
        let (name, number) = text.split_once('=')?;
        Some((name.to_owned(), Value::from(number.parse::<u64>().ok()?)))
    };
    let read = settings.iter().map(|text| {
        setting(text).ok_or_else(|| Failed::new(Code::RequestInvalid, format!("`{text}`: expected NAME=NUMBER")))
    });
    Ok(Value::Object(read.collect::<Outcome<Map<_, _>>>()?))
}

impl PoolCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Activate { of } => of.run(out, "activate").await,
            Self::Release { of } => of.run(out, "release").await,
            Self::Cancel { to, ticket, holder } => {
                to.run(out, "cancel", &[("ticket", json!(ticket)), ("holder", json!(holder))]).await
            }
            Self::Create { server, name, shards, settings: given } => {
                let form = json!({ "name": name, "shards": shards, "config": settings(&given)? });
                out.made(&server.post(&server.of("pools"), &form).await?, "pool")
            }
            Self::Delete { server, pool } => {
                server.json(Method::DELETE, &server.of(&of_pool(&pool, "")), None).await.map(drop)
            }
            Self::Describe { server, pool, shard, waits } => {
                out.object(&server.get(&server.of(&of_pool(&pool, &waits.query(shard)))).await?)
            }
            Self::Enqueue { to, wish: Wish { label, count, holder, ttl_slots }, wait } => {
                let fields = [
                    ("label", json!(label)),
                    ("count", json!(count)),
                    ("holder", json!(holder)),
                    ("ttl_slots", json!(ttl_slots)),
                    ("wait", json!(wait)),
                ];
                to.run(out, "enqueue", &fields).await
            }
            Self::Heartbeat { of } => of.run(out, "heartbeat").await,
            Self::Lease { server, pool, lease, waits } => {
                let path = of_pool(&pool, &format!("/leases/{}{}", escape(&lease), waits.query(None)));
                out.object(&server.get(&server.of(&path)).await?)
            }
            Self::Leases { listing, pool, filter } => {
                let columns = [
                    ("LEASE", "lease_id"),
                    ("STATE", "state"),
                    ("EPOCH", "lease_epoch"),
                    ("HOLDER", "holder_id"),
                    ("MEMBERS", "member_count"),
                    ("DEADLINE", "deadline"),
                ];
                let (mut leases, next) = listing.pages(&of_pool(&pool, "/leases"), &filter.params()).await?;
                if !out.is_json() && !leases.is_empty() {
                    let found = listing.server().get(&listing.server().of(&of_pool(&pool, ""))).await?;
                    let slot_ms = found["config"]["slot_ms"].as_u64().unwrap_or(0);
                    leases.iter_mut().for_each(|lease| lease["deadline"] = deadline(lease, slot_ms));
                }
                out.rows(&columns, &leases, &next)
            }
            Self::List { server } => {
                let columns = [("POOL", "pool"), ("SHARDS", "shards"), ("SINCE", "created_at_ns")];
                server.list_all(out, &server.of("pools"), &columns).await
            }
            Self::Reclaim { to, lease } => to.run(out, "reclaim", &[("lease_id", json!(lease))]).await,
            Self::Revoke { to, lease, reclaim_after_ms } => {
                let fields = [("lease_id", json!(lease)), ("reclaim_after_ms", json!(reclaim_after_ms))];
                to.run(out, "revoke", &fields).await
            }
            Self::Reserve { to, wish: Wish { label, count, holder, ttl_slots }, resources } => {
                let named = (!resources.is_empty()).then_some(resources);
                let fields = [
                    ("resources", json!(named)),
                    ("label", json!(label)),
                    ("count", json!(count)),
                    ("holder", json!(holder)),
                    ("ttl_slots", json!(ttl_slots)),
                ];
                to.run(out, "reserve", &fields).await
            }
            Self::Ticket { server, pool, ticket, waits } => {
                let path = of_pool(&pool, &format!("/tickets/{}{}", escape(&ticket), waits.query(None)));
                out.object(&server.get(&server.of(&path)).await?)
            }
            Self::Watch { server, pool, rules, off } => {
                let path = server.of(&of_pool(&pool, "/watch"));
                match rules.form() {
                    _ if off => server.json(Method::DELETE, &path, None).await.map(drop),
                    Some(form) => out.object(&server.json(Method::PUT, &path, Some(&form)).await?),
                    None => out.object(&server.get(&path).await?),
                }
            }
        }
    }
}
