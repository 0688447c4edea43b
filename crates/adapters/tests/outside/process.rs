use crate::{call, field, params};
use mundi_adapters::process::{AllowedCommand, ProcessAdapter, ProcessConfig};
use mundi_model::{Code, Height, IntentHash, Value, WorldId, pool::LeaseId};
use mundi_runtime::effects::{Adapter, Call};
use mundi_store::{
    keyspace::effect_pending::EffectLease,
    protocol::{Failure, Repeat},
};
use serde_json::json;
use std::{collections::BTreeMap, time::Duration};

fn adapter() -> ProcessAdapter {
    let shell = |script: &str, takes_args| AllowedCommand {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into(), "sh".into()],
        takes_args,
        folder: "/".into(),
        environment: BTreeMap::from([("GREETING".to_owned(), "hello".to_owned())]),
    };
    let commands = [
        ("greet", shell("read name; echo \"$GREETING $name $1 $HOME $MUNDI_INTENT\"; echo oops >&2; exit 3", true)),
        ("leased", shell("echo $MUNDI_LEASE $MUNDI_LEASE_EPOCH", false)),
        ("fixed", shell("echo fixed", false)),
        ("flood", shell("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", false)),
        ("sleep", shell("sleep 60", false)),
        ("relative", AllowedCommand { program: "sh".into(), ..shell("", false) }),
    ];
    ProcessAdapter::new(ProcessConfig {
        commands: commands.into_iter().map(|(name, command)| (name.to_owned(), command)).collect(),
        timeout: Duration::from_millis(500),
        output_bytes_max: 1_000,
    })
}

async fn run(request: serde_json::Value) -> Result<Value, Failure> {
    adapter().call(&call("process.run", params(request))).await
}

#[tokio::test]
async fn a_command_runs_with_what_it_was_given_and_nothing_else() {
    let request = json!({ "command": "greet", "args": ["$(id)"], "stdin": "world\n" });
    let answer = run(request).await.unwrap();
    let expected = format!("hello world $(id)  {}\n", IntentHash::of(b"intent"));
    assert_eq!(*field(&answer, "stdout"), Value::Bytes(expected.into_bytes()));
    assert_eq!(*field(&answer, "stderr"), Value::Bytes(b"oops\n".to_vec()));
    assert_eq!(*field(&answer, "status"), Value::Integer(3u8.into()));
}

#[tokio::test]
async fn a_command_under_a_lease_hears_which() {
    let lease_id = LeaseId::new(0, Height::new(7));
    let lease = EffectLease { pool: "gpus".into(), world: WorldId::from_bytes([9; 16]), lease_id, lease_epoch: 3 };
    let call = Call { lease: Some(lease), ..call("process.run", params(json!({ "command": "leased" }))) };
    let answer = adapter().call(&call).await.unwrap();
    assert_eq!(*field(&answer, "stdout"), Value::Bytes(format!("gpus/{lease_id} 3\n").into_bytes()));
}

#[tokio::test]
async fn what_is_not_on_the_list_does_not_run() {
    for request in [
        json!({ "command": "/bin/sh" }),
        json!({ "command": "fixed", "args": ["x"] }),
        json!({ "command": "relative" }),
    ] {
        let failure = run(request.clone()).await.unwrap_err();
        assert_eq!((failure.code, failure.repeat), (Code::EffectDenied, Repeat::Never), "{request}");
        assert!(failure.reason.contains("`process.commands."), "it names the setting: {}", failure.reason);
    }
}

#[tokio::test]
async fn a_flood_and_a_sleeper_are_ended() {
    assert_eq!(run(json!({ "command": "flood" })).await.unwrap_err().code, Code::EffectAnswerTooLarge);
    assert_eq!(run(json!({ "command": "sleep" })).await.unwrap_err().code, Code::EffectTimeout);
}
