//! The commands on the page of every example, as they stand there; and what they print is what the page says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../chat-agent/fake_model.rs"]
mod fake_model;

use std::{fs, path::Path, process::Command};

/// Cargo, for programs that were built already. Of a real model's address the path is kept, and the fake one is asked in its place.
/// A script that needs the `mundi` binary only has to be there: the tests of that binary run it.
const COMMANDS: &str = r#"
sh() {
    [ -f "$ROOT/$1" ]
    grep -q "$1" "$ROOT/crates/mundi/tests/cli/examples.rs"
}
cargo() {
    if [ "$1" = xtask ]; then
        grep -q "(\"$2\"," "$ROOT/xtask/src/main.rs"
        return
    fi
    [ "$1 $2 $3 $4" = "run -p mundi-examples --bin" ]
    local program="$BINS/$5"
    shift 5
    [ "$1" != -- ] || shift
    if [ -n "${OPENAI_BASE_URL:-}" ]; then
        OPENAI_BASE_URL="$MODEL_URL/${OPENAI_BASE_URL##*/}" "$program" "$@"
    else
        "$program" "$@"
    fi
}
"#;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// What is to be typed into a shell, on the page of an example.
fn commands(example: &str) -> String {
    let page = root().join("examples").join(example).join("README.md");
    let page = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let blocks = page.split("```sh\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    blocks.collect::<Vec<_>>().join("\n")
}

/// What the commands of a page print.
fn printed(example: &str) -> String {
    let script = format!("set -e\n{COMMANDS}\n{}", commands(example));
    let bins = Path::new(env!("CARGO_BIN_EXE_counter")).parent().unwrap();
    let model = format!("http://{}", fake_model::start().unwrap());
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(script).env("ROOT", root()).env("BINS", bins).env("MODEL_URL", model);
    let output = bash.env_remove("OPENAI_BASE_URL").output().unwrap();
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_example_has_a_page_with_commands() {
    let folders = fs::read_dir(root().join("examples")).unwrap().map(|entry| entry.unwrap());
    let folders = folders.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name());
    let examples = folders.map(|name| name.into_string().unwrap()).filter(|name| !["src", "tests"].contains(&&**name));
    let examples: Vec<String> = examples.collect();
    assert!(examples.len() >= 5, "{examples:?}");
    for example in examples {
        assert!(!commands(&example).trim().is_empty(), "the page of {example} has no command");
    }
}

#[test]
fn the_counter_goes_on_after_a_stop() {
    assert_eq!(printed("counter"), "1\n2\n3\n4\n5\n6\n");
}

#[test]
fn the_agent_uses_its_tool_and_answers_with_the_fake_model_and_with_one_that_is_named() {
    assert_eq!(printed("chat-agent"), "\"It is 21 degrees there.\"\n".repeat(3));
}

#[test]
fn of_three_agents_one_finishes_one_is_cancelled_one_exceeds_and_a_fork_lets_it_finish() {
    let page = fs::read_to_string(root().join("examples/research-agent/README.md")).unwrap();
    let said = page.split_once("```text\n").unwrap().1.split_once("```").unwrap().0;
    assert_eq!(printed("research-agent"), said);
}

#[test]
fn the_saga_ships_or_undoes_what_it_did() {
    let shipped = "good: \"shipped\"\n  good: reserve\n  good: charge\n  good: ship\n";
    let refused = "broken: {\"undone\":\"ship was refused\"}\n  broken: reserve\n  broken: charge\n  broken: refund\n  broken: release\n";
    let late = "forgotten: {\"undone\":\"it was not confirmed in time\"}\n  forgotten: reserve\n  forgotten: charge\n  \
                forgotten: refund\n  forgotten: release\n";
    // By handlers, and by a durable function.
    assert_eq!(printed("payment-saga"), format!("{shipped}{refused}{late}").repeat(2));
}

#[test]
fn the_shop_tells_what_the_till_replied() {
    let said = "tea: 350\nsoup: \"CALL_FAILED\", \"PROGRAM_FAILED\"\ntea: \"WORLD_NOT_FOUND\", null\n";
    assert_eq!(printed("shop-and-till"), said);
}

/// What it runs takes compilers for three languages, and minutes: it is a command of its own.
#[test]
fn the_three_sagas_are_compared_by_a_command_that_is_there() {
    assert_eq!(printed("order-saga"), "");
}
