//! A command to one world, or to all worlds that filters name.

use super::{
    super::{
        client::Server,
        exit::{Failed, Outcome},
        output::Out,
        progress::Progress,
    },
    World,
    filters::Filters,
    life::confirm,
};
use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};
use std::pin::pin;

#[derive(Args)]
pub(crate) struct Bulk {
    #[command(flatten)]
    server: Server,
    /// The id or the name of a world; or filters, for all worlds that they name.
    world: Option<String>,
    #[command(flatten)]
    filters: Filters,
    /// Only shows which worlds it would be.
    #[arg(long)]
    dry_run: bool,
    /// Goes on where an interrupted command ended: its `next`.
    #[arg(long, value_name = "NEXT")]
    after: Option<String>,
    /// Deletes without asking for confirmation.
    #[arg(long, short)]
    yes: bool,
}

impl Bulk {
    pub(super) async fn run(self, out: Out, verb: &'static str) -> Outcome {
        let has_filters = !self.filters.object().is_empty();
        match (self.world.clone(), has_filters) {
            (Some(_), true) => Err(Failed::usage("give a world or filters, not both")),
            (None, false) => Err(Failed::usage("which worlds? give one, or filters such as --label KEY=VALUE")),
            (Some(_), false) if self.dry_run => Err(Failed::usage("--dry-run is for filters")),
            (Some(world), false) => self.one(World { server: self.server.clone(), world }, verb).await,
            (None, true) => self.many(out, verb).await,
        }
    }

    async fn one(&self, of: World, verb: &str) -> Outcome {
        if verb != "delete" {
            return of.post(&format!("/{verb}"), &Value::Null).await.map(drop);
        }
        if !self.yes {
            let found = of.get("").await?;
            let records = found["head"].as_u64().unwrap_or(0);
            confirm(&format!("delete `{}` ({records} records) for good?", of.world))?;
        }
        let deleted = of.server.ask(Method::DELETE, &of.path(""), None).await;
        deleted.map(drop).map_err(|failed| of.told(failed))
    }

    async fn many(&self, out: Out, verb: &str) -> Outcome {
        let (total, _) = self.filters.count(&self.server, self.after.as_deref()).await?;
        if verb == "delete" && !self.yes && !self.dry_run {
            confirm(&format!("delete {total} worlds for good?"))?;
        }
        let progress = Progress::of(total);
        let show = |done: u64| format!("{done} worlds");
        let (results, next, failed) = progress.during(out, verb, show, self.pages(verb, &progress)).await;
        let columns = [("NAME", "name"), ("WORLD", "world"), ("RESULT", "result"), ("CODE", "code")];
        out.rows(&columns, &results, &next)?;
        if let Some(failed) = failed {
            return Err(failed);
        }
        let refused = results.iter().filter(|result| result["result"] == "refused").count();
        match refused {
            0 => Ok(()),
            refused => Err(Failed::plain(format!("worlds that refused: {refused}"))),
        }
    }

    /// All pages; up to the first that fails or is interrupted, and then where to go on.
    async fn pages(&self, verb: &str, progress: &Progress) -> (Vec<Value>, Value, Option<Failed>) {
        let (mut results, mut after) = (Vec::new(), self.after.clone().map_or(Value::Null, Value::String));
        let mut interrupt = pin!(interrupt());
        loop {
            let filters = Value::Object(self.filters.object());
            let command = json!({ "verb": verb, "filters": filters, "dry_run": self.dry_run, "after": after });
            let path = self.server.of("bulk");
            let answered = tokio::select! {
                answered = self.server.post(&path, &command) => answered,
                () = &mut interrupt => Err(interrupted(&after)),
            };
            let page = match answered {
                Ok(page) => page,
                Err(failed) => return (results, after, Some(failed)),
            };
            let items = page["items"].as_array().cloned().unwrap_or_default();
            progress.add(items.len() as u64);
            results.extend(items);
            match &page["next"] {
                Value::Null => return (results, Value::Null, None),
                next => after = next.clone(),
            }
        }
    }
}

/// Returns when the command is interrupted (Ctrl-C).
async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await; // it cannot be heard: the process ends as any other
    }
}

/// The page that was asked for may have been carried out: it is given again.
fn interrupted(after: &Value) -> Failed {
    let on = match after.as_str() {
        Some(after) => format!("the same command with --after {after} goes on"),
        None => "give the same command again".to_owned(),
    };
    Failed::plain(format!("interrupted: {on}; a world that was done already stays as it is"))
}
