//! `cells`, `diff`, `describe` and `lineage`.

use super::{
    super::{
        client::{Paging, escape},
        exit::{Failed, Outcome},
        output::Out,
    },
    World,
};
use clap::Args;
use serde_json::{Value, json};

#[derive(Args)]
pub(crate) struct Cells {
    #[command(flatten)]
    of: World,
    #[command(flatten)]
    paging: Paging,
    /// Only keys with this prefix.
    #[arg(long)]
    prefix: Option<String>,
    /// The state when this was the next height.
    #[arg(long)]
    at: Option<u64>,
}

impl Cells {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, paging, prefix, at } = self;
        let filters = [("prefix", prefix), ("at", at.map(|at| at.to_string()))];
        of.server.list(out, &of.path("/cells"), &filters, &paging, &[("KEY", "key"), ("VALUE", "value")]).await
    }
}

#[derive(Args)]
pub(crate) struct Snapshots {
    #[command(flatten)]
    of: World,
    #[command(flatten)]
    paging: Paging,
}

impl Snapshots {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let columns = [("HEIGHT", "height"), ("LOGICAL TIME", "logical_time_ns"), ("SNAPSHOT", "snapshot")];
        self.of.server.list(out, &self.of.path("/snapshots"), &[], &self.paging, &columns).await
    }
}

#[derive(Args)]
pub(crate) struct Diff {
    #[command(flatten)]
    of: World,
    /// The other world; the same one by default.
    with: Option<String>,
    /// The height of the first.
    #[arg(long)]
    at: Option<u64>,
    /// The height of the other.
    #[arg(long)]
    with_at: Option<u64>,
    /// Has no effect: exit code 9 is always returned for a difference.
    #[arg(long, hide = true)]
    exit_code: bool,
}

/// Cells that the server compares at a time.
const PAGE_CELLS: usize = 1_000;

impl Diff {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, with, at, with_at, exit_code: _ } = self;
        let given = [
            ("with", with.map(|with| escape(&with))),
            ("at", at.map(|at| at.to_string())),
            ("with_at", with_at.map(|at| at.to_string())),
        ];
        let given = given.into_iter().filter_map(|(name, value)| Some(format!("&{name}={}", value?)));
        let (given, mut found, mut after) = (given.collect::<String>(), Vec::new(), String::new());
        loop {
            let page = of.get(&format!("/diff?limit={PAGE_CELLS}{given}{after}")).await?;
            let page = page.as_array().cloned().unwrap_or_default();
            let is_last = page.len() < PAGE_CELLS;
            found.extend(page);
            let Some(last) = found.last().and_then(|last| last["key"].as_str()).filter(|_| !is_last) else { break };
            after = format!("&after={}", escape(last));
        }
        out.rows(&[("KEY", "key"), ("LEFT", "left"), ("RIGHT", "right")], &found, &Value::Null)?;
        if !found.is_empty() {
            return Err(Failed::differs(format!("cells that differ: {}", found.len())));
        }
        Ok(())
    }
}

/// The ancestors of a world and its forks: the nearest first.
pub(super) async fn lineage(of: &World, out: Out) -> Outcome {
    let family = of.get("/lineage").await?;
    if out.is_json() {
        return out.object(&family);
    }
    let related = |members: &Value, first: &str, others: &str| -> Vec<Value> {
        let members = members.as_array().into_iter().flatten().enumerate();
        let row = |(at, member): (usize, &Value)| {
            let relation = if at == 0 { first } else { others };
            json!({
                "relation": relation, "name": member["world_name"], "world": member["world"],
                "forked_at": member["forked_at"],
            })
        };
        members.map(row).collect()
    };
    let rows = [related(&family["ancestors"], "parent", "ancestor"), related(&family["forks"], "fork", "fork")];
    let columns = [("RELATION", "relation"), ("NAME", "name"), ("WORLD", "world"), ("FORKED AT", "forked_at")];
    out.rows(&columns, &rows.concat(), &Value::Null)?;
    if family["more_forks"] == true {
        eprintln!("{}", out.dim(&format!("more: mundi world list --parent {}", of.world)));
    }
    Ok(())
}
