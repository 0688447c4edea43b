//! A fake external service: slow, failing or silent by seed; it records repeated calls.

use crate::{faults::Fault, notes::Notes, protocol::Protocol, run_state::RunState};
use futures_util::future::BoxFuture;
use mundi_model::Value;
use mundi_runtime::effects::{Adapter, Call, denied, failed};
use mundi_store::protocol::Failure;

/// The kind of effect that it serves.
pub(crate) const CALL: &str = "sim.call";

/// Does what it is asked for once per intent, and answers a repetition with the same number.
pub(crate) struct FakeService {
    pub(crate) run_state: RunState,
    pub(crate) notes: Notes,
}

impl FakeService {
    async fn serve(&self, call: &Call) -> Result<Value, Failure> {
        let run_state = &self.run_state;
        run_state.count(|tally| tally.calls += 1);
        self.notes.write(|pages| pages.outside.entry(call.intent).or_default().calls += 1);
        let strikes = |fault, in_thousand| {
            let struck = run_state.strikes(fault, in_thousand);
            if struck {
                run_state.met(fault, Protocol::EffectCall);
                run_state.note(format_args!("outside {} attempt {} {fault}", short(call), call.attempt));
            }
            struck
        };
        run_state.sleep_ms(run_state.below(20)).await;
        if strikes(Fault::FailingAdapters, 200) {
            return Err(if run_state.below(4) == 0 { denied("it is against the rules") } else { failed("not today") });
        }
        if strikes(Fault::SlowAdapters, 300) {
            run_state.sleep_ms(run_state.below(1_500)).await;
        }
        let answer = self.act(call);
        if strikes(Fault::HangingAdapters, 100) {
            std::future::pending::<()>().await;
        }
        if strikes(Fault::FailingAdapters, 100) {
            return Err(failed("done, and the answer was lost"));
        }
        Ok(Value::Integer(answer.into()))
    }

    /// The deed itself: it happens once.
    fn act(&self, call: &Call) -> u64 {
        let next = self.run_state.tick();
        let answer = self.notes.write(|pages| {
            let deed = pages.outside.entry(call.intent).or_default();
            *deed.answer.get_or_insert(next)
        });
        self.run_state.note(format_args!("outside {} attempt {} does {answer}", short(call), call.attempt));
        answer
    }
}

fn short(call: &Call) -> String {
    call.intent.to_hex()[..8].to_owned()
}

impl Adapter for FakeService {
    fn name(&self) -> &str {
        "outside"
    }

    fn kinds(&self) -> &[&str] {
        &[CALL]
    }

    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(self.serve(call))
    }
}
