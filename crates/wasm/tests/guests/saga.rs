//! One program in three languages: the same journal leads to the same cells, intents, timers and replies, byte for byte,
//! also when the world is taken apart and restored at every height.

use crate::{builder, components, languages, repository, rig::Rig, tell};
use mundi_kernel::{World, intents::OpenIntent, turn::TurnOutput};
use mundi_model::{
    Value, cbor,
    record::{Input, Payload, Receipt, ReceiptStatus, Reply, ReplyOutcome},
};
use mundi_wasm::{Components, build::Language};
use serde_json::json;
use std::sync::Arc;

const STEPS: u64 = 300;
/// Few enough that orders meet again, and enough that some are still in progress at the end.
const ORDERS: u64 = 60;

/// A world of the saga in one language.
pub(crate) struct Guest {
    pub(crate) language: Language,
    pub(crate) rig: Rig,
    /// The same world, which is restored from a snapshot before each step.
    restored: Rig,
}

impl Guest {
    /// The example is a folder with one folder for each language.
    pub(crate) fn build(components: &Arc<Components>, example: &str, language: Language) -> Self {
        let folder = match language {
            Language::Rust => "rust",
            Language::TypeScript => "typescript",
            Language::Python => "python",
        };
        tell(&format!("{example} in {language}"));
        let built = builder().build(&repository().join("examples").join(example).join(folder));
        let built = built.unwrap_or_else(|error| panic!("{language}: {error}"));
        tell(&format!("{language}: {} bytes, {}", built.component.len(), built.hash));
        let rig = || Rig::with(components, &built.component, |_| {}).unwrap();
        Self { language, rig: rig(), restored: rig() }
    }

    pub(crate) fn take(&mut self, input: &Input) -> TurnOutput {
        let snapshot = self.restored.world.snapshot(&self.restored.objects).unwrap();
        self.restored.objects.extend(snapshot.objects.iter().cloned());
        self.restored.objects.put(snapshot.bytes.clone());
        self.restored.world =
            World::restore(&self.restored.objects, self.restored.registry.clone(), &snapshot.note).unwrap();
        let output = self.rig.take(input.clone()).unwrap();
        let again = self.restored.take(input.clone()).unwrap();
        assert_eq!(output.records, again.records, "{}: a restored world goes another way", self.language);
        output
    }

    pub(crate) fn cells(&self) -> Vec<(String, Vec<u8>)> {
        self.rig.world.cells().scan(&self.rig.objects, "", None, 1_000).unwrap()
    }

    fn ask(&self, query: &str, params: serde_json::Value) -> Vec<u8> {
        self.rig.world.query(&self.rig.objects, query, &cbor::encode(&Value::from(params))).unwrap()
    }
}

/// All that followed from an input. Sentences for people are not compared: each language has its own.
pub(crate) fn followed(output: &TurnOutput) -> impl PartialEq + std::fmt::Debug + use<> {
    let replies = output.replies.iter().map(|Reply { to, outcome }| match outcome {
        ReplyOutcome::Ok(payload) => (*to, Ok(payload.clone())),
        ReplyOutcome::Failed(code, ..) => (*to, Err(code.clone())),
    });
    let intents: Vec<_> = output.publish.iter().map(|publish| publish.intent.clone()).collect();
    (replies.collect::<Vec<_>>(), intents, output.timers.clone(), output.cancels.clone())
}

/// Draws what happens next, from numbers that are the same in each run.
pub(crate) struct Director(pub(crate) u64);

impl Director {
    pub(crate) fn draw(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn next(&mut self, world: &World) -> Input {
        let intents: Vec<_> = world.open_intents().cloned().collect();
        let timers: Vec<_> = world.timers().cloned().collect();
        match self.draw(10) {
            0..5 if !intents.is_empty() => self.receipt(&intents),
            5..7 if !timers.is_empty() => {
                // Mostly what a retry waits for: an order that expires is never tried a third time.
                let retries: Vec<_> =
                    timers.iter().filter(|timer| timer.label.starts_with("retry/")).cloned().collect();
                let due = if retries.is_empty() || self.draw(4) == 0 { timers } else { retries };
                let timer = &due[self.index(due.len())];
                Input::TimerFired { timer: timer.hash, payload: Payload::Inline(Vec::new()) }
            }
            // Also an order that is there already, and one that was never placed.
            7 => self.event("cancel", |order| json!({ "order": order })),
            _ => {
                let (quantity, cents) = (1 + self.draw(1_000), self.draw(10_000_000_000));
                let sku = ["tea", "käse", "日本茶"][self.index(3)];
                self.event("place", |order| json!({ "order": order, "sku": sku, "quantity": quantity, "cents": cents }))
            }
        }
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.draw(len as u64)).unwrap()
    }

    fn event(&mut self, schema: &str, value: impl FnOnce(String) -> serde_json::Value) -> Input {
        let order = format!("o{}", self.draw(ORDERS));
        let value = Payload::Inline(cbor::encode(&Value::from(value(order))));
        Input::Event { schema: schema.to_owned(), value, key: None }
    }

    pub(crate) fn receipt(&mut self, intents: &[OpenIntent]) -> Input {
        let intent = &intents[self.index(intents.len())];
        let status = match self.draw(5) {
            0 | 1 => ReceiptStatus::Error,
            2 => ReceiptStatus::Timeout,
            _ => ReceiptStatus::Ok,
        };
        let payload = match (status, &*intent.kind) {
            // A receipt that does not satisfy the schema arrives as an error.
            (ReceiptStatus::Ok, "payment.charge") if self.draw(8) > 0 => {
                json!({ "charge": format!("c-{}", self.draw(1_000)) })
            }
            _ => json!(null),
        };
        Input::Receipt(Receipt {
            intent: intent.hash,
            kind: intent.kind.clone(),
            status,
            payload: Payload::Inline(cbor::encode(&Value::from(payload))),
            adapter: "test".to_owned(),
            signature: None,
            operator: None,
        })
    }
}

#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn the_order_saga_is_the_same_in_every_language() {
    let components = components();
    let mut guests: Vec<_> =
        languages().into_iter().map(|language| Guest::build(&components, "order-saga", language)).collect();
    let mut director = Director(0x0dd0_51de);
    let (mut states, mut failures) = (std::collections::BTreeSet::new(), 0);
    for step in 0..STEPS {
        if step % 50 == 0 {
            tell(&format!("step {step} of {STEPS}"));
        }
        let input = director.next(&guests[0].rig.world);
        let outputs: Vec<_> = guests.iter_mut().map(|guest| guest.take(&input)).collect();
        failures += usize::from(crate::rig::failure(&outputs[0]).is_some());
        let (first, others) = guests.split_first().unwrap();
        for (other, output) in others.iter().zip(&outputs[1..]) {
            let which = format!("{} and {} at step {step}, after {input:?}", first.language, other.language);
            assert_eq!(followed(&outputs[0]), followed(output), "{which}");
            assert_eq!(first.cells(), other.cells(), "{which}");
            // The running hash is over all outcomes since the beginning.
            assert_eq!(first.rig.world.digest(), other.rig.world.digest(), "{which}");
            let after = json!({ "after": format!("o{}", step % ORDERS) });
            for (query, params) in
                [("totals", json!(null)), ("orders", after), ("orders", json!({})), ("order", json!({ "order": "o1" }))]
            {
                assert_eq!(first.ask(query, params.clone()), other.ask(query, params), "{query}: {which}");
            }
        }
        for (key, bytes) in first.cells() {
            let Value::Map(cell) = cbor::decode(&bytes).unwrap() else { panic!("{key}") };
            states.extend(cell.get("state").cloned().map(|state| format!("{state:?}")));
        }
    }
    // The test has seen what the saga is about, or it proves nothing.
    println!("{states:?}, {failures} failures");
    for state in ["placed", "failed", "stuck", "refunded", "expired", "cancelled", "waiting", "refunding"] {
        assert!(states.contains(&format!("Text({state:?})")), "no order was ever {state}");
    }
    assert!(failures > 0);
}
