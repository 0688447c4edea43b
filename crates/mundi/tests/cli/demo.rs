//! `mundi demo`.

use crate::program::run;
use std::time::Instant;

#[test]
#[expect(clippy::disallowed_methods, reason = "how long it took is told, and nothing depends on it")]
fn the_demo_kills_its_worker_and_every_step_happens_once() {
    let began = Instant::now();
    let shown = run(&["demo", "--kills", "3"]).ok();
    eprintln!("the demo took {:?}", began.elapsed());
    assert_eq!(shown.matches("in the ledger 1×").count(), 10, "{shown}");
    assert_eq!(shown.matches("the worker died").count(), 3, "{shown}");
    for words in ["step/05    ship: approved         ship: refused", "✓  demo", "✓  what-if"] {
        assert!(shown.contains(words), "{words} is not in:\n{shown}");
    }
}
