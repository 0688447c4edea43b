//! Children that are agents: what a model wants is carried out under the parent's manifest, and the budget ends it.

use crate::{child_worlds::House, rig::Outside};
use futures_util::future::BoxFuture;
use mundi_model::{
    Code, IntentHash, Value,
    child::{Lane, Phase, RunId},
};
use mundi_runtime::effects::{Adapter, Call, failed, invalid};
use mundi_store::protocol::Failure;
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use std::{sync::Arc, time::Duration};

const MINUTE: Duration = Duration::from_secs(60);

/// A model that does as its prompt says, for 30 tokens an answer.
#[derive(Clone, Default)]
struct Model(Arc<Mutex<Vec<(IntentHash, u32)>>>);

impl Model {
    fn reply(call: &Call) -> Result<Json, Failure> {
        let params = call.params.to_json().unwrap();
        let messages = params["messages"].as_array().unwrap();
        let wants = json!([{ "id": "call-1", "name": "look", "arguments": "{}" }]);
        let told = messages.iter().rev().find(|message| message["role"] == "tool");
        match (messages[0]["content"].as_str().unwrap(), told) {
            ("broken", Some(_)) => Err(invalid("it understands nothing")),
            ("flaky", _) if call.attempt == 1 => Err(failed("busy")),
            ("tool" | "broken", None) | ("loop", _) => Ok(json!({ "content": "", "tool_calls": wants })),
            ("tool", Some(told)) => Ok(json!({ "content": told["content"], "tool_calls": [] })),
            (other, _) => Ok(json!({ "content": format!("{other}!"), "tool_calls": [] })),
        }
    }
}

impl Adapter for Model {
    fn name(&self) -> &str {
        "model"
    }

    fn kinds(&self) -> &[&str] {
        &["llm.chat"]
    }

    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async {
            self.0.lock().push((call.intent, call.attempt));
            let mut reply = Self::reply(call)?;
            reply["usage"] = json!({ "total_tokens": 30 });
            if call.params.to_json().unwrap()["messages"][0]["content"] == "hang" {
                std::future::pending::<()>().await;
            }
            Ok(Value::from(reply))
        })
    }
}

fn house() -> (House, Model, Outside) {
    let (model, outside) = (Model::default(), Outside::default());
    let mut house = House::new();
    house.adapters = vec![Arc::new(model.clone()), Arc::new(outside.clone())];
    (house, model, outside)
}

#[test]
fn an_agent_uses_its_tools_each_call_has_the_key_of_its_run_and_number_and_none_is_a_record_of_the_parent() {
    let (house, model, outside) = house();
    let boss = house.create(1, house.manifests[0]);
    let process = house.start(1);
    house.tell(boss, "tell", "agent a tool http\nagent b flaky http");
    house.run(MINUTE);
    let told = house.cell(&process, boss, "child/a");
    assert!(told.starts_with(";Started  ;Passed") && told.contains("\"content\": Text(\"null\")"), "{told}");
    assert!(house.cell(&process, boss, "child/b").contains("Text(\"flaky!\")"));
    let run = RunId::of_dispatch(boss, 1);
    assert_eq!(outside.calls(), [(run.call_key(2), 1)].into(), "the tool is the second call of the run");
    let (calls, other) = (model.0.lock().clone(), RunId::of_dispatch(boss, 2));
    let of = |key| calls.iter().filter(|(intent, _)| *intent == key).map(|(_, attempt)| *attempt).collect::<Vec<_>>();
    assert_eq!((of(run.call_key(1)), of(run.call_key(3))), (vec![1], vec![1]));
    assert_eq!(of(other.call_key(1)), [1, 2], "every attempt has the same key");
    let reading = house.rig.clone();
    let journal = house.rig.executor.block_on(async move { reading.journal(boss).await.unwrap() });
    let kinds = journal.iter().filter(|record| String::from_utf8_lossy(record).contains("llm.chat")).count();
    assert_eq!(kinds, 2, "only in the results of its two children, and in no record of its own");
    let spent = house.children(&process, boss)[0].spent;
    assert_eq!((spent.tokens, spent.solver_calls), (Some(60), Some(2)));
}

#[test]
fn the_budget_ends_an_agent_at_the_answer_that_goes_beyond_it() {
    let (house, model, outside) = house();
    let boss = house.create(1, house.manifests[0]);
    let process = house.start(1);
    house.tell(boss, "tell", "agent a loop http");
    house.run(MINUTE);
    let exceeded = ";Started  ;Failed URM_CHILD_BUDGET_EXCEEDED budget_exceeded:tokens";
    assert_eq!(house.cell(&process, boss, "child/a"), exceeded);
    assert_eq!((model.0.lock().len(), outside.calls().len()), (4, 3), "nothing is called after that answer");
    let budget = house.ask(&process, move |ops| async move { ops.budget(boss).await }).unwrap();
    assert_eq!(budget.iter().find(|(lane, _)| *lane == Lane::Tokens).unwrap().1.total, 90);
}

/// A lane that has no room ends the agent: the calls of its model, and its time.
#[test]
fn every_lane_bounds_an_agent() {
    let (house, model, _) = house();
    let boss = house.create(1, house.manifests[0]);
    let process = house.start(1);
    house.tell(boss, "tell", "agent a loop http solver_calls 2\nagent b hang http duration_secs 3");
    house.run(MINUTE);
    let exceeded = |lane: &str| format!(";Started  ;Failed URM_CHILD_BUDGET_EXCEEDED budget_exceeded:{lane}");
    assert_eq!(house.cell(&process, boss, "child/a"), exceeded("solver_calls"));
    assert_eq!(house.cell(&process, boss, "child/b"), exceeded("duration_secs"));
    assert_eq!(model.0.lock().len(), 4, "three calls of the first one, and one of the other");
    let spent = house.children(&process, boss)[0].spent;
    assert_eq!((spent.solver_calls, spent.tokens), (Some(2), Some(60)), "the refused debit is none");
}

/// They are evidence, and the parent has them of every end that the executor lives to report.
#[test]
fn the_calls_of_an_agent_are_told_however_it_ends() {
    let (house, ..) = house();
    let boss = house.create(1, house.manifests[0]);
    let process = house.start(1);
    house.tell(boss, "tell", "agent failed broken http\nagent exceeded loop http");
    house.run(MINUTE);
    house.tell(boss, "tell", "agent cancelled hang http");
    house.run(MINUTE);
    house.tell(boss, "tell", "cancel cancelled");
    house.run(MINUTE);
    let calls = |label: &str| house.cell(&process, boss, &format!("calls/{label}"));
    assert!(house.cell(&process, boss, "child/failed").contains(";Failed EFFECT_PARAMS_INVALID"));
    assert_eq!(calls("failed"), "llm.chat Null;http Null;llm.chat EFFECT_PARAMS_INVALID");
    assert_eq!(calls("exceeded"), ["llm.chat Null;http Null"; 3].join(";") + ";llm.chat Null");
    assert!(house.cell(&process, boss, "child/cancelled").contains(";Cancelled"));
    assert_eq!(calls("cancelled"), "llm.chat EFFECT_CANCELLED", "it was under way");
}

#[test]
fn a_tool_that_the_parents_manifest_does_not_allow_is_not_used_and_a_cancel_stops_an_agent() {
    let (house, _, outside) = house();
    let (boss, worker) = (house.create(1, house.manifests[0]), house.manifests[1]);
    let process = house.start(1);
    house.tell(boss, "tell", "agent a tool fabric.send\nagent b hang http");
    house.run(MINUTE);
    assert!(house.cell(&process, boss, "child/a").starts_with(";Failed URM_CHILD_KIND_INVALID"));
    assert_eq!(house.children(&process, boss)[1].phase, Phase::Started);
    house.tell(boss, "tell", "cancel b");
    house.run(MINUTE);
    assert!(house.cell(&process, boss, "child/b").ends_with(";Cancelled URM_CHILD_CANCELLED cancelled"));
    assert!(outside.calls().is_empty());
    // The manifest of the other program declares neither children nor models.
    let lone = house.create(2, worker);
    let refused = house.ask(&process, move |ops| async move {
        let params = mundi_model::child::spec_params("agent", &Value::Null, &mundi_model::child::Spend::default());
        let request = mundi_runtime::control::ClientRequest {
            client_request_id: "r".into(),
            payload: mundi_model::Hash::of(b""),
        };
        let operator = mundi_model::record::Operator { token: None, name: "ada".into() };
        ops.child_spawn(lone, params, &request, (operator, MINUTE)).await
    });
    assert_eq!(mundi_model::Coded::code(&refused.unwrap_err()), Code::OutputRefused);
}
