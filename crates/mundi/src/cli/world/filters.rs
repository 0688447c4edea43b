//! Which worlds a list, a count or a bulk command is about; `count`, `label` and `why`.

use super::{
    super::{
        client::{Listing, Server, escape},
        exit::{Failed, Outcome},
        output::Out,
    },
    World,
};
use clap::Args;
use serde_json::{Map, Value, json};

/// Filters: all that are given have to hold.
#[derive(Args, Clone)]
pub(crate) struct Filters {
    /// Only those with this label: `customer=17`, or `customer` for any value. May be given several times.
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Filters")]
    label: Vec<String>,
    /// Only those whose name begins so.
    #[arg(long, value_name = "PREFIX", help_heading = "Filters")]
    name: Option<String>,
    /// Only those whose name contains this, in small or large letters.
    #[arg(long, value_name = "TEXT", help_heading = "Filters")]
    name_contains: Option<String>,
    /// Only those in this state; live ones may be paused or on hold, too.
    #[arg(long, value_parser = ["live", "paused", "on_hold", "archived", "deleting", "deleted"], help_heading = "Filters")]
    state: Option<String>,
    /// Only forks of this world.
    #[arg(long, help_heading = "Filters")]
    parent: Option<String>,
    /// Only those that this worker holds; `anybody` or `nobody`.
    #[arg(long, help_heading = "Filters")]
    held_by: Option<String>,
    /// Only those that are on hold because their turns, or a step, failed.
    #[arg(long, help_heading = "Filters")]
    on_hold: bool,
    /// Only those with failed steps since their last upgrade, resume, retry or skip.
    #[arg(long, help_heading = "Filters")]
    failed: bool,
    /// Only those that run this program: `todo` for all of its versions, `todo@2`, or the hash of a manifest.
    #[arg(long, help_heading = "Filters")]
    program: Option<String>,
    /// Only those created at this time or later: `2026-11-18`, or `2026-11-18T09:00:00Z`.
    #[arg(long, value_name = "TIME", help_heading = "Filters")]
    created_after: Option<String>,
    /// Only those created before this time.
    #[arg(long, value_name = "TIME", help_heading = "Filters")]
    created_before: Option<String>,
    /// Only those that a worker opened or released at this time or later.
    #[arg(long, value_name = "TIME", help_heading = "Filters")]
    active_after: Option<String>,
    /// Only those that no worker opened or released since this time.
    #[arg(long, value_name = "TIME", help_heading = "Filters")]
    active_before: Option<String>,
    /// Only those with dead letters.
    #[arg(long, help_heading = "Filters")]
    dead_letters: bool,
    /// Only those with an effect that has been open for so many seconds.
    #[arg(long, value_name = "SECONDS", help_heading = "Filters")]
    effects_older_than: Option<u64>,
}

impl Filters {
    /// As query parameters.
    pub(super) fn pairs(&self) -> Vec<(&'static str, Option<String>)> {
        let only = |wanted: bool| wanted.then(|| "true".to_owned());
        let labels = self.label.iter().map(|label| ("label", Some(label.clone())));
        let others = [
            ("name", self.name.clone()),
            ("name_contains", self.name_contains.clone()),
            ("state", self.state.clone()),
            ("parent", self.parent.clone()),
            ("held_by", self.held_by.clone()),
            ("on_hold", only(self.on_hold)),
            ("failed", only(self.failed)),
            ("program", self.program.clone()),
            ("created_after", self.created_after.clone()),
            ("created_before", self.created_before.clone()),
            ("active_after", self.active_after.clone()),
            ("active_before", self.active_before.clone()),
            ("dead_letters", only(self.dead_letters)),
            ("effects_older_than_s", self.effects_older_than.map(|age| age.to_string())),
        ];
        labels.chain(others).collect()
    }

    /// As an object of a document.
    pub(super) fn object(&self) -> Map<String, Value> {
        let typed = |(name, value): (&'static str, Option<String>)| {
            let value = value?;
            let value = match name {
                "on_hold" | "failed" | "dead_letters" => Value::Bool(true),
                "effects_older_than_s" => json!(value.parse::<u64>().ok()?),
                _ => Value::String(value),
            };
            Some((name.to_owned(), value))
        };
        let others = self.pairs().into_iter().filter(|(name, _)| *name != "label").filter_map(typed);
        let labels = (!self.label.is_empty()).then(|| ("label".to_owned(), json!(self.label)));
        others.chain(labels).collect()
    }

    /// How many worlds they name, and by state: the parts that the server counts at a time, added up.
    pub(super) async fn count(&self, server: &Server, after: Option<&str>) -> Outcome<(u64, Map<String, Value>)> {
        let given = self.pairs().into_iter();
        let given: String = given.filter_map(|(name, value)| Some(format!("&{name}={}", escape(&value?)))).collect();
        let (mut count, mut states, mut after) = (0, Map::new(), after.map(str::to_owned));
        loop {
            let from = after.map(|after| format!("after={}", escape(&after))).unwrap_or_default();
            let part = server.get(&server.of(&format!("world-count?{from}{given}"))).await?;
            count += part["count"].as_u64().unwrap_or(0);
            for (state, more) in part["states"].as_object().into_iter().flatten() {
                let before = states.get(state).and_then(Value::as_u64).unwrap_or(0);
                states.insert(state.clone(), json!(before + more.as_u64().unwrap_or(0)));
            }
            after = part["next"].as_str().map(str::to_owned);
            if after.is_none() {
                return Ok((count, states));
            }
        }
    }
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    listing: Listing,
    #[command(flatten)]
    filters: Filters,
    /// The order: `name` lists only worlds that have one; `newest` and `active` (by last activity) begin with the latest.
    #[arg(long, value_parser = ["id", "name", "created", "newest", "active"])]
    sort: Option<String>,
}

impl List {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let Self { listing, filters, sort } = self;
        let mut filters = filters.pairs();
        filters.push(("sort", sort));
        let columns = [
            ("NAME", "name"),
            ("WORLD", "world"),
            ("PROGRAM", "program"),
            ("STATE", "state"),
            ("HEAD", "head"),
            ("ACTIVE", "active_at_ns"),
            ("WAITS FOR", "waits"),
            ("FAILED", "failures"),
        ];
        listing.show(out, "worlds", &filters, &columns).await
    }
}

#[derive(Args)]
pub(crate) struct Count {
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    filters: Filters,
}

impl Count {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let (count, states) = self.filters.count(&self.server, None).await?;
        out.object(&json!({ "count": count, "states": states }))
    }
}

#[derive(Args)]
pub(crate) struct Label {
    #[command(flatten)]
    of: World,
    /// `customer=17` sets a label, `customer-` removes one.
    #[arg(required = true, value_name = "KEY=VALUE")]
    labels: Vec<String>,
}

impl Label {
    pub(super) async fn run(self, out: Out) -> Outcome {
        let (mut set, mut remove) = (Map::new(), Vec::new());
        for label in &self.labels {
            match (label.split_once('='), label.strip_suffix('-')) {
                (Some((key, value)), _) => drop(set.insert(key.to_owned(), json!(value))),
                (None, Some(key)) => remove.push(key.to_owned()),
                (None, None) => {
                    return Err(Failed::usage(format!("`{label}`: KEY=VALUE sets a label, KEY- removes one")));
                }
            }
        }
        out.object(&self.of.post("/labels", &json!({ "set": set, "remove": remove })).await?)
    }
}

/// Labels of a new world, from `KEY=VALUE`.
pub(super) fn labels_of(pairs: &[String]) -> Outcome<Value> {
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), json!(value))),
        None => Err(Failed::usage(format!("`{text}` is no label: expected KEY=VALUE"))),
    };
    let labels: Map<String, Value> = pairs.iter().map(pair).collect::<Outcome<_>>()?;
    Ok(if labels.is_empty() { Value::Null } else { Value::Object(labels) })
}

/// Why a world is not moving: one line per cause, and what to do about it.
pub(super) async fn why(of: &World, out: Out) -> Outcome {
    let why = of.get("/why").await?;
    if out.is_json() {
        return out.object(&why);
    }
    let causes = why["causes"].as_array().map_or(&[][..], Vec::as_slice);
    out.rows(&[("CAUSE", "cause"), ("WHY", "detail"), ("WHAT TO DO", "advice")], causes, &Value::Null)
}
