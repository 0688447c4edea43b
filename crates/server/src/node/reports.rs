//! Reports of a node's worker shells: counters for `/metrics`, events for the log, records for the replay log.

use super::{NodeConfig, NodeError, replay_log::ReplayLog};
use mundi_runtime::{
    metrics::Metrics,
    shell::{Counters, Report},
};
use mundi_store::Clock;
use std::sync::Arc;

/// One report for each kind of shell, over all universes.
pub(super) struct Reports {
    /// Commands to world workers.
    pub(super) commands: Arc<Report>,
    /// Events that were sent with a delay.
    pub(super) delayed: Arc<Report>,
    pub(super) adapters: Arc<Report>,
    pub(super) timers: Arc<Report>,
    replay_log: Option<Arc<ReplayLog>>,
}

impl Reports {
    pub(super) fn new(config: &NodeConfig, clock: &Arc<dyn Clock>, metrics: &Arc<Metrics>) -> Result<Self, NodeError> {
        let open = |path| {
            let opened = ReplayLog::open(path, config.replay_log_bytes_max, metrics.clone());
            opened.map(Arc::new).map_err(|error| NodeError::folder(path, &error))
        };
        let replay_log = config.replay_log.as_deref().map(open).transpose()?;
        let report = || {
            let report = Report::new().with_metrics(metrics.clone());
            Arc::new(match replay_log.clone() {
                Some(log) => {
                    let clock = clock.clone();
                    report.with_replay_hook(move |event| log.record(clock.now_ns(), &event))
                }
                None => report,
            })
        };
        let (commands, delayed, adapters, timers) = (report(), report(), report(), report());
        Ok(Self { commands, delayed, adapters, timers, replay_log })
    }

    /// The counters, by what `/metrics` calls the shell.
    pub(super) fn counters(&self) -> [(&'static str, Counters); 4] {
        let Self { commands, delayed, adapters, timers, .. } = self;
        let each = [("commands", commands), ("delayed", delayed), ("effects", adapters), ("timers", timers)];
        each.map(|(shell, report)| (shell, report.snapshot()))
    }

    /// Completes when the replay log is written.
    pub(super) fn close(&self) {
        if let Some(log) = &self.replay_log {
            log.close();
        }
    }
}
