//! `mundi world step`: what one record of the past changed, and what was open after it.

use super::{
    super::{client::escape, exit::Outcome, output::Out},
    World,
    journal::{COLUMNS, brief, row},
};
use clap::Args;
use serde_json::{Value, json};

#[derive(Args)]
pub(crate) struct Step {
    #[command(flatten)]
    of: World,
    /// The height of the record.
    height: u64,
    /// Also prints this many cells as they were after it.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    cells: usize,
    /// Only cells whose key has this prefix.
    #[arg(long, requires = "cells")]
    prefix: Option<String>,
    /// The most changes, open effects and timers to list, of each.
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

impl Step {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { of, height, cells, prefix, limit } = self;
        let prefix = escape(&prefix.unwrap_or_default());
        let step = of.get(&format!("/steps/{height}?limit={limit}&cells={cells}&prefix={prefix}")).await?;
        if out.is_json() {
            return out.object(&step);
        }
        out.rows(&COLUMNS, &[row(&step["record"])], &Value::Null)?;
        let table = |title: &str, columns: &[_], rows: Vec<Value>| match rows.is_empty() {
            true => Ok(()),
            false => {
                eprintln!("{}", out.dim(title));
                out.rows(columns, &rows, &Value::Null)
            }
        };
        let all = |name: &str| step[name].as_array().cloned().unwrap_or_default();
        table("changed:", &[("KEY", "key"), ("BEFORE", "left"), ("AFTER", "right")], all("changes"))?;
        let open = |open: Value| json!({ "intent": open["intent"], "kind": open["kind"], "since": open["height"], "what": brief(&open["params"]) });
        let columns = [("INTENT", "intent"), ("KIND", "kind"), ("SINCE", "since"), ("PARAMS", "what")];
        table("open effects:", &columns, all("open_intents").into_iter().map(open).collect())?;
        table("timers:", &columns, all("timers").into_iter().map(open).collect())?;
        table("cells after it:", &[("KEY", "key"), ("VALUE", "value")], all("cells"))?;
        let more = |name: &str, total: &str| step[total].as_u64().is_some_and(|total| total > all(name).len() as u64);
        if step["more_changes"] == true || more("open_intents", "open_intents_total") || more("timers", "timers_total")
        {
            eprintln!("{}", out.dim("more: a larger --limit"));
        }
        Ok(())
    }
}
