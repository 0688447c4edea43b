//! The examples, each by the one command of its page, as it stands there.

use crate::{
    kinds::languages,
    readme::{commands, page, typed, typed_within},
};
use serde_json::{Value, json};
use std::process::Command;

/// Compiling an interpreter takes minutes on a machine that has other work.
const SECONDS_MAX: u32 = 1_800;

fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok();
    if !found {
        eprintln!("python3 is not installed: the example was not run");
    }
    found
}

/// The output of a script of an example, run by the command on its page; for a language, if it takes one.
fn printed(example: &str, script: &str, language: Option<&str>) -> Vec<String> {
    let page = page(&format!("examples/{example}/README.md"));
    let command = format!("sh {script}");
    let line =
        page.lines().find(|line| line.starts_with(&command)).unwrap_or_else(|| panic!("{command} is not on its page"));
    let line = match language {
        Some(language) => line.replacen(" rust", &format!(" {language}"), 1),
        None => line.to_owned(),
    };
    let done = typed_within(SECONDS_MAX, &line);
    assert_eq!(done.code, 0, "{line}: {}{}", done.out, done.err);
    done.out.lines().map(str::to_owned).collect()
}

fn values(lines: &[String]) -> Vec<Value> {
    lines.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn the_counter_goes_on_after_it_was_killed() {
    assert_eq!(printed("counter", "examples/counter/run.sh", None), ["1", "2", "3", "4", "5", "6"]);
}

#[test]
fn every_command_of_the_external_adapter_works_as_it_stands() {
    if !has_python() {
        return;
    }
    assert_eq!(printed("external-adapter", "examples/external-adapter/run.sh", None), [r#"{"doubled":42}"#]);
    let done = typed(&commands(page("examples/external-adapter/README.md").split_once("Step by step").unwrap().1));
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    assert!(done.out.lines().any(|line| line == r#"{"doubled":42}"#), "{}{}", done.out, done.err);
}

#[test]
fn no_browser_of_the_pool_has_two_drivers_whoever_hangs_or_lies() {
    if !has_python() {
        return;
    }
    let told = values(&printed("browser-pool", "examples/browser-pool/run.sh", None));
    let expected = json!({
        "agents": 30,
        "enough_drives": true,
        "hung_refused_by_browser": true,
        "lie": "stale_epoch",
        "stale": "stale_epoch",
    });
    assert_eq!(told, [expected]);
}

#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn the_order_saga_runs_by_one_command_in_every_language() {
    assert!(has_python(), "its worker is written in Python");
    for (_, language) in languages() {
        let mut replies = values(&printed("order-saga", "examples/order-saga/run.sh", Some(language)));
        for reply in &mut replies[..3] {
            let reference = reply.as_object_mut().unwrap().remove("reference");
            assert!(reference.is_some_and(|it| it.as_str().is_some_and(|it| !it.is_empty())), "{language}");
        }
        let expected = json!([
            { "order": "good", "state": "placed" },
            { "order": "refunded", "state": "refunded", "why": "out of stock" },
            { "order": "refused", "state": "failed", "why": "the payment was refused" },
            { "placed": 1, "cents": 800 },
        ]);
        assert_eq!(Value::Array(replies), expected, "{language}");
    }
}

#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn the_todo_agent_runs_by_one_command_in_every_language() {
    assert!(has_python(), "its service is written in Python");
    for (_, language) in languages() {
        let replies = values(&printed("todo-agent", "examples/todo-agent/run.sh", Some(language)));
        let planned = json!({ "id": "tea", "state": "planned", "minutes": 5 });
        assert_eq!(replies, [planned, json!({ "tea/planned": 1, "tea/reminded": 1 })], "{language}");
    }
}
