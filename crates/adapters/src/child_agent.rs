//! Children of kind `agent`: a model that is asked again until it wants no tool any more.
//!
//! Parameters: `prompt` and perhaps `system`, or `messages`; perhaps `model` and `options`, as `llm.chat` has them; `tools`; and `rounds_max`, how
//! often the model is asked at most. A tool has a `name`, the `effect` that it stands for, perhaps a `description`, `parameters` (a JSON Schema for
//! the model) and `params`, which are those of the effect that the model cannot change.
//!
//! Each call, of the model and of a tool, is one that the parent's manifest allows and carries the key of (run, n). After each answer of the model the
//! child is debited: one of `solver_calls`, and the `tokens` that the endpoint reports. A child that used more than it may is stopped there.
//! The result says `content`, `finish_reason`, `rounds` and `calls`, each with its number, kind, key and code: the newest of them. They are told with
//! every other end, too.

mod tools;

use crate::{Params, params::map};
use futures_util::future::{BoxFuture, Either, select};
use mundi_model::{
    Code, Value,
    child::{Lane, Spend},
    limits,
};
use mundi_runtime::{
    Plane,
    children::{ChildKind, ChildReport, ChildRun, OutsideCalls, RunCalls},
    effects::{invalid, too_large},
};
use mundi_store::protocol::{ChildFinish, Failure, Repeat};
use serde_json::{Map, Value as Json, json};
use std::time::Duration;
use tools::{Tool, said};

const CHAT: &str = "llm.chat";
const ROUNDS_DEFAULT: u64 = 16;

pub struct AgentChildren<P> {
    outside: OutsideCalls<P>,
}

impl<P: Plane> AgentChildren<P> {
    /// With the adapter of `llm.chat` and those that tools may stand for.
    pub fn new(outside: OutsideCalls<P>) -> Self {
        Self { outside }
    }

    fn read(&self, params: &Value) -> Result<Task, Failure> {
        let task = Task::read(Params::of(params)?)?;
        match task.tools.iter().find(|tool| !self.outside.serves(&tool.effect)) {
            Some(tool) => Err(invalid(format!("`{}` is no effect that a tool stands for", tool.effect))),
            None => Ok(task),
        }
    }

    /// Works until the model is content, or the time of the budget is over.
    async fn work(&self, run: &ChildRun) -> ChildReport {
        let (mut spent, mut spent_secs) = (Spend::default(), None);
        let finish = {
            let working = std::pin::pin!(self.converse(run, &mut spent));
            let time = run.budget.duration_secs.map_or(Duration::MAX, Duration::from_secs);
            let over = self.outside.plane().clock().sleep(time.min(YEAR));
            match select(working, over).await {
                Either::Left((Ok(result), _)) => ChildFinish::Passed(result),
                Either::Left((Err(failure), _)) => ChildFinish::Failed { code: failure.code, reason: failure.reason },
                Either::Right(_) => {
                    // The next second was begun: more than the budget allows.
                    let beyond = run.budget.duration_secs.map(|secs| secs.saturating_add(1));
                    spent_secs = beyond;
                    let reason = format!("the agent ran for {} s and was stopped", time.as_secs());
                    ChildFinish::Failed { code: Code::EffectTimeout, reason }
                }
            }
        };
        spent.set(Lane::DurationSecs, spent_secs);
        ChildReport { finish, spent }
    }

    async fn converse(&self, run: &ChildRun, spent: &mut Spend) -> Result<Value, Failure> {
        let mut task = self.read(&run.params)?;
        let mut calls = self.outside.of_run(run).await?;
        for round in 1..=task.rounds_max {
            let answer = logged_call(run, &mut calls, CHAT, task.question()?).await?;
            let answer = answer.to_json().map_err(|error| invalid(error.to_string()))?;
            *spent = spent.plus(Spend::default().with(Lane::SolverCalls, 1).with(Lane::Tokens, tokens(&answer)));
            match run.meter.debit(*spent).await {
                // A report that the store did not take is made again with the next answer, and at the latest with the end.
                Ok(true) | Err(_) => {}
                Ok(false) => return Err(failed("the child has ended")),
            }
            let wanted = answer["tool_calls"].as_array().cloned().unwrap_or_default();
            if wanted.is_empty() {
                return Ok(result(&answer, round, run.calls.value()));
            }
            if wanted.len() > limits::AGENT_TOOLS_MAX {
                return Err(failed(format!("the model asked for {} tools at a time", wanted.len())));
            }
            task.heard(&answer, &wanted);
            for call in &wanted {
                let told = use_tool(run, &task, call, &mut calls).await;
                task.messages.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": told }));
            }
        }
        Err(failed(format!("the model wanted tools in all of {} rounds", task.rounds_max)))
    }
}

/// Passes the answer of a tool to the model. A failure is passed, too: the model may know the next step.
async fn use_tool<P: Plane>(run: &ChildRun, task: &Task, call: &Json, calls: &mut RunCalls<'_, P>) -> String {
    let name = call["name"].as_str().unwrap_or_default();
    let Some(tool) = task.tools.iter().find(|tool| tool.name == name) else {
        return format!("there is no tool `{name}`");
    };
    let params = match tool.params(call["arguments"].as_str().unwrap_or_default()) {
        Ok(params) => params,
        Err(reason) => return reason,
    };
    match logged_call(run, calls, &tool.effect, params).await {
        Ok(answer) => said(&answer),
        Err(failure) => format!("{}: {}", failure.code, failure.reason),
    }
}

/// Makes a call, and writes it down before it begins: it is on record also if the run is dropped in the middle of it.
async fn logged_call<P: Plane>(
    run: &ChildRun,
    calls: &mut RunCalls<'_, P>,
    kind: &str,
    params: Value,
) -> Result<Value, Failure> {
    run.calls.begin(run.run, kind);
    let answer = calls.call(kind, params).await;
    run.calls.end(answer.as_ref().map(drop).map_err(|failure| failure.code));
    answer
}

/// Longer than any lease of a process lives.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

fn failed(reason: impl Into<String>) -> Failure {
    Failure { code: Code::UrmChildFailed, reason: reason.into(), repeat: Repeat::Never }
}

/// As the endpoint reports them.
fn tokens(answer: &Json) -> u64 {
    let usage = &answer["usage"];
    let sum = || Some(usage["prompt_tokens"].as_u64()? + usage["completion_tokens"].as_u64()?);
    usage["total_tokens"].as_u64().or_else(sum).unwrap_or(0)
}

fn result(answer: &Json, rounds: u64, calls: Option<Value>) -> Value {
    map([
        ("content", Value::from(answer["content"].clone())),
        ("finish_reason", Value::from(answer["finish_reason"].clone())),
        ("rounds", Value::Integer(rounds.into())),
        ("calls", calls.unwrap_or(Value::Array(Vec::new()))),
    ])
}

/// The task of an agent.
struct Task {
    messages: Vec<Json>,
    model: Option<String>,
    options: Map<String, Json>,
    tools: Vec<Tool>,
    rounds_max: u64,
}

impl Task {
    fn read(params: Params<'_>) -> Result<Self, Failure> {
        let json = |name: &str| match params.get(name) {
            None => Ok(Json::Null),
            Some(value) => value.to_json().map_err(|error| invalid(format!("`{name}`: {error}"))),
        };
        let messages = match (json("messages")?, params.text_or_none("prompt")?) {
            (Json::Array(messages), None) if !messages.is_empty() => messages,
            (Json::Null, Some(prompt)) => {
                let system = params.text_or_none("system")?.map(|text| json!({ "role": "system", "content": text }));
                system.into_iter().chain([json!({ "role": "user", "content": prompt })]).collect()
            }
            _ => return Err(invalid("an agent has either a `prompt` or `messages`")),
        };
        let options = match json("options")? {
            Json::Null => Map::new(),
            Json::Object(options) => options,
            _ => return Err(invalid("`options` is not a map")),
        };
        let rounds_max = params.unsigned_or_none("rounds_max")?.unwrap_or(ROUNDS_DEFAULT);
        if !(1..=limits::AGENT_ROUNDS_MAX).contains(&rounds_max) {
            return Err(invalid(format!("`rounds_max` is not from 1 to {}", limits::AGENT_ROUNDS_MAX)));
        }
        let model = params.text_or_none("model")?.map(str::to_owned);
        let task = Self { messages, model, options, tools: tools::read(params.get("tools"))?, rounds_max };
        task.question().map(|_| task)
    }

    /// The params of `llm.chat`.
    fn question(&self) -> Result<Value, Failure> {
        let mut options = self.options.clone();
        if !self.tools.is_empty() {
            options.insert("tools".to_owned(), self.tools.iter().map(Tool::declared).collect());
        }
        let mut question = json!({ "messages": self.messages, "options": options });
        if let Some(model) = &self.model {
            question["model"] = json!(model);
        }
        if question.to_string().len() > limits::AGENT_CONVERSATION_BYTES_MAX {
            return Err(too_large(limits::AGENT_CONVERSATION_BYTES_MAX));
        }
        Ok(Value::from(question))
    }

    /// Keeps what the model said before it is told what its tools answer.
    fn heard(&mut self, answer: &Json, wanted: &[Json]) {
        let function = |call: &Json| json!({ "name": call["name"], "arguments": call["arguments"] });
        let call = |call: &Json| json!({ "id": call["id"], "type": "function", "function": function(call) });
        let calls: Vec<Json> = wanted.iter().map(call).collect();
        self.messages.push(json!({ "role": "assistant", "content": answer["content"], "tool_calls": calls }));
    }
}

impl<P: Plane> ChildKind for AgentChildren<P> {
    fn kind(&self) -> &str {
        "agent"
    }

    fn check(&self, params: &Value) -> Result<(), String> {
        self.read(params).map(drop).map_err(|failure| failure.reason)
    }

    fn run<'a>(&'a self, run: &'a ChildRun) -> BoxFuture<'a, ChildReport> {
        Box::pin(self.work(run))
    }
}
