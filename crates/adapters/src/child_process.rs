//! Children of kind `process`: a command of the list that `process.run` has, as a run of its own.
//!
//! Parameters are those of `process.run`: `command`, `args` and `stdin`. A command that ends with another status than zero has failed. It
//! runs for as long as the child's budget of `duration_secs` allows; without one, for the time that is configured for commands. It is
//! killed when the child is cancelled or its lease is lost. `MUNDI_CHILD` and `MUNDI_RUN` name the child and its run.

use crate::{
    Params,
    process::{ProcessAdapter, ProcessConfig},
};
use futures_util::future::BoxFuture;
use mundi_model::{
    Code, Value,
    child::{Lane, Spend},
};
use mundi_runtime::children::{ChildKind, ChildReport, ChildRun};
use mundi_store::protocol::ChildFinish;
use std::time::Duration;

/// As much of what a command wrote to its standard error as a reason holds.
const STDERR_BYTES_MAX: usize = 400;

pub struct ProcessChildren {
    processes: ProcessAdapter,
    timeout: Duration,
}

impl ProcessChildren {
    pub fn new(config: ProcessConfig) -> Self {
        Self { timeout: config.timeout, processes: ProcessAdapter::new(config) }
    }

    async fn work(&self, run: &ChildRun) -> ChildReport {
        let asked = run.budget.duration_secs.map_or(self.timeout, Duration::from_secs);
        let timeout = asked.min(self.timeout); // the operator's bound
        let environment = [("MUNDI_CHILD", run.child.to_string()), ("MUNDI_RUN", run.run.to_string())];
        let mut spent = Spend::default();
        let finish = match tokio::time::timeout(timeout, self.processes.run_command(&run.params, &environment)).await {
            Ok(Ok(result)) => judge(result),
            Ok(Err(failure)) => ChildFinish::Failed { code: failure.code, reason: failure.reason },
            Err(_) => {
                // The next second of the budget was begun: more than it allows.
                let beyond = run.budget.duration_secs.filter(|_| asked <= self.timeout);
                spent.set(Lane::DurationSecs, beyond.map(|secs| secs.saturating_add(1)));
                let reason = format!("the command ran for {} ms and was killed", timeout.as_millis());
                ChildFinish::Failed { code: Code::EffectTimeout, reason }
            }
        };
        ChildReport { finish, spent }
    }
}

/// A command passed if its status is zero.
fn judge(result: Value) -> ChildFinish {
    let Value::Map(fields) = &result else { return ChildFinish::Passed(result) };
    match fields.get("status") {
        Some(Value::Integer(status)) if i128::from(*status) == 0 => ChildFinish::Passed(result),
        status => {
            let how = match status {
                Some(Value::Integer(status)) => format!("exit status {}", i128::from(*status)),
                _ => "ended by a signal".to_owned(),
            };
            let stderr = match fields.get("stderr") {
                Some(Value::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
                _ => String::new(),
            };
            let stderr = &stderr[..stderr.floor_char_boundary(STDERR_BYTES_MAX)];
            ChildFinish::Failed { code: Code::UrmChildFailed, reason: format!("{how}: {}", stderr.trim()) }
        }
    }
}

impl ChildKind for ProcessChildren {
    fn kind(&self) -> &str {
        "process"
    }

    fn check(&self, params: &Value) -> Result<(), String> {
        let params = Params::of(params).map_err(|failure| failure.reason)?;
        self.processes.allowed(params).map(drop).map_err(|failure| failure.reason)
    }

    fn run<'a>(&'a self, run: &'a ChildRun) -> BoxFuture<'a, ChildReport> {
        Box::pin(self.work(run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::map;

    #[test]
    fn a_command_passes_with_the_status_zero_only() {
        let of = |status| judge(map([("status", status), ("stderr", Value::Bytes(b"no\n".to_vec()))]));
        assert!(matches!(of(Value::Integer(0.into())), ChildFinish::Passed(_)));
        let failed = of(Value::Integer(3.into()));
        assert_eq!(failed, ChildFinish::Failed { code: Code::UrmChildFailed, reason: "exit status 3: no".into() });
        assert!(matches!(of(Value::Null), ChildFinish::Failed { .. }));
    }
}
