//! The cost of awaits in three languages: fuel and processor time of a durable function beside the same work in a handler, within the default
//! limits. `MUNDI_AWAITS=10,100` measures other counts.

use crate::{
    builder, components, languages, repository,
    rig::{Rig, failure},
    tell,
};
use mundi_kernel::loader::{CodeSource, Loader, UniverseShare};
use mundi_model::{
    UniverseId, Value, cbor,
    record::{Input, Payload, Receipt, ReceiptStatus, ReplyOutcome},
};
use mundi_wasm::build::Language;
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

fn counts() -> Vec<u64> {
    let named = std::env::var("MUNDI_AWAITS").unwrap_or_else(|_| "10,100,1000".to_owned());
    named.split(',').map(|count| count.parse().unwrap()).collect()
}

fn inline(value: serde_json::Value) -> Payload {
    Payload::Inline(cbor::encode(&Value::from(value)))
}

/// Nanoseconds that this thread has run.
fn processor_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The cost of a whole chain.
struct Cost {
    fuel: u64,
    /// Of its most expensive step.
    fuel_step_max: u64,
    processor_ns: u64,
}

/// Runs a chain of so many effects to its end, and checks its answer.
fn run(rig: &mut Rig, fuel: &AtomicU64, event: &str, n: u64) -> Cost {
    let mut cost = Cost { fuel: 0, fuel_step_max: 0, processor_ns: 0 };
    let mut input = Input::Event { schema: event.to_owned(), value: inline(json!({ "n": n })), key: None };
    let mut worth = 0;
    loop {
        let (before, began) = (fuel.load(Ordering::Relaxed), processor_ns());
        let output = rig.take(input).unwrap();
        cost.processor_ns += processor_ns() - began;
        let spent = fuel.load(Ordering::Relaxed) - before;
        cost.fuel += spent;
        cost.fuel_step_max = cost.fuel_step_max.max(spent);
        assert_eq!(failure(&output), None, "{event} with {n} awaits, after {worth}");
        if let Some(reply) = output.replies.first() {
            assert_eq!(worth, n, "it ends before it has asked for all");
            assert_eq!(reply.outcome, ReplyOutcome::Ok(inline(json!(n * (n + 1) / 2))));
            return cost;
        }
        let intent = rig.world.open_intents().next().unwrap().clone();
        worth += 1;
        input = Input::Receipt(Receipt {
            intent: intent.hash,
            kind: intent.kind,
            status: ReceiptStatus::Ok,
            payload: inline(json!({ "worth": worth, "by": "a worker" })),
            adapter: "test".to_owned(),
            signature: None,
            operator: None,
        });
    }
}

#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn a_function_of_a_thousand_awaits_runs_within_the_default_limits() {
    let components = components();
    let mut lines = Vec::new();
    for language in languages() {
        let folder = match language {
            Language::Rust => "rust",
            Language::TypeScript => "typescript",
            Language::Python => "python",
        };
        tell(&format!("awaits in {language}"));
        let built = builder()
            .build(&repository().join("sdk/awaits").join(folder))
            .unwrap_or_else(|error| panic!("{language}: {error}"));
        let fuel = Arc::new(AtomicU64::new(0));
        let source: CodeSource = Arc::new(|_| None);
        let share = UniverseShare { universe: UniverseId::from_bytes([1; 16]), weight: 1, source, fuel: fuel.clone() };
        let loader = components.for_universe(share).unwrap();
        for n in counts() {
            let mut line = format!("{language:<10} {n:>5} awaits");
            for event in ["hand", "chain"] {
                let mut rig = Rig::served(&components, loader.clone(), &built.component, |_| {}).unwrap();
                let cost = run(&mut rig, &fuel, event, n);
                let [fuel, most, us] = [cost.fuel / 1_000_000, cost.fuel_step_max / 10_000, cost.processor_ns / 1_000];
                line += &format!(
                    "   {event} {:>5}.{} ms {fuel:>6} M fuel, {:>3}.{:02} M in one step",
                    us / 1_000,
                    us % 1_000 / 100,
                    most / 100,
                    most % 100
                );
            }
            tell(&line);
            lines.push(line);
        }
    }
    println!("{}", lines.join("\n"));
}
