//! Every example is run, and says what its page says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

fn printed(program: &str) -> String {
    let output = Command::new(program).env_remove("OPENAI_BASE_URL").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_counter_goes_on_after_a_stop() {
    assert_eq!(printed(env!("CARGO_BIN_EXE_counter")), "1\n2\n3\n4\n5\n6\n");
}

#[test]
fn the_agent_uses_its_tool_and_answers() {
    assert_eq!(printed(env!("CARGO_BIN_EXE_chat-agent")), "\"It is 21 degrees there.\"\n");
}

#[test]
fn the_saga_ships_or_undoes_what_it_did() {
    let shipped = "good: \"shipped\"\n  good: reserve\n  good: charge\n  good: ship\n";
    let refused = "broken: {\"undone\":\"ship was refused\"}\n  broken: reserve\n  broken: charge\n  broken: refund\n  broken: release\n";
    let late = "forgotten: {\"undone\":\"it was not confirmed in time\"}\n  forgotten: reserve\n  forgotten: charge\n  \
                forgotten: refund\n  forgotten: release\n";
    assert_eq!(printed(env!("CARGO_BIN_EXE_payment-saga")), format!("{shipped}{refused}{late}"));
}
