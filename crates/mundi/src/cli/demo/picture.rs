//! The output of the demo.

use super::super::output::{Out, print};
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) struct Picture {
    out: Out,
}

impl Picture {
    pub(super) fn new(out: Out) -> Self {
        Self { out }
    }

    fn line(&self, text: &str) {
        // The picture is for eyes; a reader that is gone ends the program elsewhere.
        drop(print(text));
    }

    pub(super) fn title(&self, text: &str) {
        self.line("");
        self.line(&self.out.bold(text));
        self.line("");
    }

    pub(super) fn say(&self, text: &str) {
        self.line("");
        self.line(&format!("  {}", self.out.green(text)));
    }

    pub(super) fn killed(&self, times: u32, at: &str) {
        self.line(&format!("  {}  the worker died (kill -9, no. {times}) {at}", self.out.red("✗")));
    }

    pub(super) fn steps(&self, steps: u64, counts: &BTreeMap<u64, u64>) {
        self.line("");
        for step in 1..=steps {
            let count = counts.get(&step).copied().unwrap_or(0);
            let mark = if count == 1 { self.out.green("■") } else { self.out.red("□") };
            self.line(&format!("  step {step:>2}  {mark}  in the ledger {count}×"));
        }
    }

    pub(super) fn diff(&self, cells: &[Value]) {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.line(&format!("  {:<10} {:<22} {}", "cell", "as it happened", "what if"));
        for cell in cells {
            let (key, left, right) = (text(&cell["key"]), text(&cell["left"]), text(&cell["right"]));
            self.line(&format!("  {key:<10} {} {}", self.out.dim(&format!("{left:<22}")), right));
        }
    }

    pub(super) fn proof(&self, world: &str, proof: &Value) {
        let (records, receipts) = (&proof["records"], &proof["receipts"]);
        self.line(&format!(
            "  {}  {world:<8} {records} records, {receipts} receipts, one per effect",
            self.out.green("✓")
        ));
    }
}
