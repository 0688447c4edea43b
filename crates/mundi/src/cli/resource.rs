//! `mundi resource`: what a pool leases.

use super::{
    client::{Listing, Server, escape},
    exit::Outcome,
    output::Out,
    pool::{AtLeast, Filter, of_pool},
};
use clap::Subcommand;
use serde_json::{Value, json};

#[derive(Subcommand)]
pub(super) enum ResourceCommand {
    /// Creates resources of a pool: all of them, or none.
    Create {
        #[command(flatten)]
        server: Server,
        /// The name of the pool.
        pool: String,
        /// Names, from which their ids follow; or ids (`r_…`).
        #[arg(required = true)]
        resources: Vec<String>,
        /// Labels of all of them, such as `gpu`; once for each.
        #[arg(long = "label")]
        labels: Vec<String>,
    },
    /// A resource: who has it, and how often it changed hands.
    Describe {
        #[command(flatten)]
        server: Server,
        /// The name of the pool.
        pool: String,
        /// The name of the resource, or its id (`r_…`).
        resource: String,
        #[command(flatten)]
        waits: AtLeast,
    },
    /// Lists resources of a pool.
    List {
        #[command(flatten)]
        listing: Listing,
        /// The name of the pool.
        pool: String,
        /// Only those with this label.
        #[arg(long)]
        label: Option<String>,
        #[command(flatten)]
        filter: Filter,
    },
}

impl ResourceCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Create { server, pool, resources, labels } => {
                let one = |name: &String| json!({ "resource": name, "labels": labels });
                let form = json!({ "resources": resources.iter().map(one).collect::<Vec<_>>() });
                let results = server.post(&server.of(&of_pool(&pool, "/resources")), &form).await?;
                let columns = [("SHARD", "shard"), ("RESULT", "result"), ("LSN", "lsn")];
                out.rows(&columns, results.as_array().map_or(&[][..], Vec::as_slice), &Value::Null)
            }
            Self::Describe { server, pool, resource, waits } => {
                let path = of_pool(&pool, &format!("/resources/{}{}", escape(&resource), waits.query(None)));
                out.object(&server.get(&server.of(&path)).await?)
            }
            Self::List { listing, pool, label, filter } => {
                let columns = [
                    ("RESOURCE", "name"),
                    ("ID", "resource_id"),
                    ("STATE", "current_state"),
                    ("LEASE", "current_lease_id"),
                    ("VERSION", "version"),
                    ("LABELS", "labels"),
                ];
                let [state, holder, shard, at_least] = filter.params();
                let filters = [state, holder, shard, at_least, ("label", label)];
                listing.show(out, &of_pool(&pool, "/resources"), &filters, &columns).await
            }
        }
    }
}
