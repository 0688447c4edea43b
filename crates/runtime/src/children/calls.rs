//! The calls to the outside that a run makes, as its parent is told of them: also if the run does not come to its own end.

use mundi_model::{Code, IntentHash, Value, child::RunId, limits};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// The newest calls of a run. The kind of the child writes them down while it works; the workflow and the meter read them when they end it.
#[derive(Debug, Clone, Default)]
pub struct CallLog(Arc<Mutex<Calls>>);

#[derive(Debug, Default)]
struct Calls {
    newest: VecDeque<LoggedCall>,
    /// All of them, with those that are not kept.
    count: u64,
}

#[derive(Debug)]
struct LoggedCall {
    n: u64,
    kind: String,
    key: IntentHash,
    /// None while it is under way.
    ended: Option<Result<(), Code>>,
}

impl CallLog {
    /// The next call of the run begins.
    pub fn begin(&self, run: RunId, kind: &str) {
        let mut calls = self.0.lock();
        calls.count += 1;
        let n = calls.count;
        calls.newest.push_back(LoggedCall { n, kind: kind.to_owned(), key: run.call_key(n), ended: None });
        if calls.newest.len() > limits::CHILD_CALLS_MAX {
            calls.newest.pop_front();
        }
    }

    /// The call that began last has ended.
    pub fn end(&self, ended: Result<(), Code>) {
        if let Some(call) = self.0.lock().newest.back_mut() {
            call.ended = Some(ended);
        }
    }

    /// Number, kind, key and code of each, in order. One that was dropped while it was under way has the code `EFFECT_CANCELLED`. None if there is none.
    pub fn value(&self) -> Option<Value> {
        let calls = self.0.lock();
        (calls.count > 0).then(|| Value::Array(calls.newest.iter().map(LoggedCall::value).collect()))
    }
}

impl LoggedCall {
    fn value(&self) -> Value {
        let code = match self.ended {
            Some(Ok(())) => Value::Null,
            Some(Err(code)) => Value::Text(code.to_string()),
            None => Value::Text(Code::EffectCancelled.to_string()),
        };
        let fields = [
            ("n", Value::Integer(self.n.into())),
            ("kind", Value::Text(self.kind.clone())),
            ("key", Value::Text(self.key.to_string())),
            ("code", code),
        ];
        Value::Map(BTreeMap::from(fields.map(|(name, value)| (name.to_owned(), value))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::WorldId;

    #[test]
    fn the_newest_calls_are_kept_under_their_numbers() {
        let (log, run) = (CallLog::default(), RunId::of_dispatch(WorldId::from_bytes([1; 16]), 1));
        assert_eq!(log.value(), None);
        for _ in 0..limits::CHILD_CALLS_MAX + 1 {
            log.begin(run, "llm.chat");
            log.end(Ok(()));
        }
        log.begin(run, "http.request");
        let Some(Value::Array(calls)) = log.value() else { panic!("a list") };
        let field = |call: &Value, name: &str| match call {
            Value::Map(fields) => fields[name].clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(calls.len(), limits::CHILD_CALLS_MAX);
        assert_eq!(field(&calls[0], "n"), Value::Integer(3.into()));
        assert_eq!(field(&calls[0], "key"), Value::Text(run.call_key(3).to_string()));
        assert_eq!(field(&calls[0], "code"), Value::Null);
        assert_eq!(field(calls.last().unwrap(), "code"), Value::Text("EFFECT_CANCELLED".into()), "it is under way");
    }
}
