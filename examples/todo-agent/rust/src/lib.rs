//! A todo agent: asks a service how long a todo takes, replies, tells another world, and reminds it later.

pub mod types;

use mundi_sdk::{
    Cause, Event, Failure, Level, Outgoing, Program, Value, World,
    kinds::{FabricSend, HttpRequest},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use types::{Add, Events, Setup};

const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Todo {
    text: String,
    state: String,
    /// Where the answer to `add` goes.
    call: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    minutes: Option<i64>,
}

/// The answer of the service.
#[derive(Deserialize)]
struct Estimate {
    minutes: i64,
}

pub struct TodoAgent;

impl Program for TodoAgent {
    const OFFER: &'static str = include_str!("../mundi.json");

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        match &event.cause {
            Cause::Event { schema, .. } => match Events::read(schema, event.value()?)? {
                Events::Setup(setup) => {
                    world.put("setup", &setup)?;
                    world.reply(&event.seq, &true)
                }
                Events::Add(todo) => added(world, event, &todo),
                Events::Notice(notice) => {
                    let key = format!("notice/{}/{}", notice.id, notice.what);
                    let count = world.get::<i64>(&key)?.unwrap_or(0) + 1;
                    world.put(&key, &count)
                }
            },
            Cause::Receipt { label, .. } => match label.split_once('/') {
                Some(("minutes", id)) => estimated(world, event, id),
                Some(("notice", what)) => delivered(world, event, what),
                _ => Ok(()),
            },
            Cause::Timer { label, .. } => match label.strip_prefix("remind/") {
                Some(id) => reminded(world, id),
                None => Ok(()),
            },
            Cause::Message { .. } | Cause::Upgraded { .. } => Ok(()),
        }
    }

    fn query(world: &World, name: &str, _: Value) -> Result<Value, Failure> {
        let under = |prefix: &str| -> Result<Value, Failure> {
            let found = world.scan::<Value>(prefix, None, 1_000)?;
            Ok(found.into_iter().map(|(key, value)| (key[prefix.len()..].to_owned(), value)).collect())
        };
        match name {
            "todos" => under("todo/"),
            "notices" => under("notice/"),
            _ => Ok(VERSION.into()),
        }
    }
}

mundi_sdk::export!(TodoAgent);

fn setup(world: &World) -> Result<Setup, Failure> {
    world.get("setup")?.ok_or_else(|| Failure::new("send `setup` first"))
}

fn todo(world: &World, id: &str) -> Result<Todo, Failure> {
    world.get(&format!("todo/{id}"))?.ok_or_else(|| Failure::new(format!("no todo `{id}`")))
}

fn added(world: &mut World, event: &Event, Add { id, text }: &Add) -> Result<(), Failure> {
    let request = HttpRequest::post_json(setup(world)?.service, &json!({ "text": text }))?;
    world.ask(&request, &format!("minutes/{id}"))?;
    let todo = Todo { text: text.clone(), state: "asked".to_owned(), call: event.seq.clone(), minutes: None };
    world.put(&format!("todo/{id}"), &todo)
}

fn estimated(world: &mut World, event: &Event, id: &str) -> Result<(), Failure> {
    let mut todo = todo(world, id)?;
    let minutes = match event.receipt::<HttpRequest>()? {
        Ok(answer) if answer.is_ok() => answer.json::<Estimate>().map(|estimate| estimate.minutes).ok(),
        _ => None,
    };
    todo.minutes = minutes;
    todo.state = if minutes.is_some() { "planned" } else { "failed" }.to_owned();
    world.put(&format!("todo/{id}"), &todo)?;
    world.reply(&todo.call, &json!({ "id": id, "state": todo.state, "minutes": minutes }))?;
    if minutes.is_none() {
        return Ok(());
    }
    world.set_timer_in_ms(&format!("remind/{id}"), setup(world)?.remind_ms.cast_unsigned(), &())?;
    notify(world, id, "planned")
}

fn reminded(world: &mut World, id: &str) -> Result<(), Failure> {
    let mut todo = todo(world, id)?;
    todo.state = "reminded".to_owned();
    world.put(&format!("todo/{id}"), &todo)?;
    notify(world, id, "reminded")
}

/// To a world by its name, or its id.
fn notify(world: &mut World, id: &str, what: &str) -> Result<(), Failure> {
    let notice = Outgoing::event("notice", &json!({ "id": id, "what": what }))?;
    world.send(&setup(world)?.notify, &notice, &format!("notice/{id}/{what}"))
}

fn delivered(world: &mut World, event: &Event, what: &str) -> Result<(), Failure> {
    if let Err(error) = event.receipt::<FabricSend>()? {
        world.log(Level::Warn, &format!("the notice {what} was not delivered: {error}"));
    }
    Ok(())
}
