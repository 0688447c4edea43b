//! The section `[effects]`: how many effects are carried out at a time, and how they are tried again.

use super::{ConfigError, check::within};
use mundi_kernel::manifest::Retry;
use mundi_model::limits;
use mundi_runtime::effects::{AdapterWorkerConfig, attempts::AttemptBounds, usual_retry};
use mundi_store::{protocol::KindCap, values::RateTerms};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// How many effects are carried out at a time, and how they are tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EffectsSection {
    /// Effects of each kind that this process carries out at a time for one universe.
    pub calls_max: usize,
    /// Effects of all kinds and universes together that this process carries out at a time.
    pub attempts_at_a_time_max: usize,
    /// Attempts that this process begins in a second, of all kinds and universes together.
    pub attempts_per_second_max: u32,
    /// The retry policy of effects whose manifest sets none.
    pub retry: RetrySection,
    /// By kind, such as `[effects.kinds."http.request"]`.
    pub kinds: BTreeMap<String, KindSection>,
}

impl Default for EffectsSection {
    fn default() -> Self {
        let AttemptBounds { at_a_time_max, per_second_max } = AttemptBounds::default();
        Self {
            calls_max: AdapterWorkerConfig::default().calls_max,
            attempts_at_a_time_max: at_a_time_max,
            attempts_per_second_max: per_second_max,
            retry: RetrySection::default(),
            kinds: BTreeMap::new(),
        }
    }
}

impl EffectsSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("effects.attempts_at_a_time_max", self.attempts_at_a_time_max, 1..=1_000_000)?;
        within("effects.attempts_per_second_max", self.attempts_per_second_max, 1..=1_000_000)?;
        if self.calls_max == 0 {
            return Err(ConfigError::new(
                "effects.calls_max",
                "no effect could be carried out: the limit must be above zero",
            ));
        }
        self.retry.check()?;
        for (kind, section) in &self.kinds {
            section.check().map_err(|cause| ConfigError::new(format!("effects.kinds.{kind:?}"), cause))?;
        }
        Ok(())
    }

    pub(super) fn attempts(&self) -> AttemptBounds {
        AttemptBounds { at_a_time_max: self.attempts_at_a_time_max, per_second_max: self.attempts_per_second_max }
    }

    pub(super) fn adapters(&self) -> AdapterWorkerConfig {
        let calls = |(kind, section): (&String, &KindSection)| Some((kind.clone(), section.calls_max?));
        AdapterWorkerConfig {
            calls_max: self.calls_max,
            kind_calls_max: self.kinds.iter().filter_map(calls).collect(),
            universe_caps: self.kinds.iter().map(|(kind, section)| (kind.clone(), section.cap())).collect(),
            ..AdapterWorkerConfig::default()
        }
    }
}

/// How effects are tried again whose manifest does not say it. It holds for effects that are requested from then on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySection {
    /// Attempts of an effect whose manifest sets no `retry`; after the last one its world gets an `error` receipt.
    pub attempts_max: u32,
    /// The wait before its second attempt; it doubles with each further one.
    pub backoff_ms: u64,
    /// The longest wait between two of its attempts.
    pub backoff_ms_max: u64,
}

impl Default for RetrySection {
    fn default() -> Self {
        let Retry { attempts_max, backoff_ms, backoff_ms_max } = usual_retry();
        Self { attempts_max, backoff_ms, backoff_ms_max }
    }
}

impl RetrySection {
    pub(super) fn policy(&self) -> Retry {
        let Self { attempts_max, backoff_ms, backoff_ms_max } = *self;
        Retry { attempts_max, backoff_ms, backoff_ms_max }
    }

    /// As far as a manifest may go.
    fn check(&self) -> Result<(), ConfigError> {
        let waits = limits::EFFECT_BACKOFF_MS_MIN..=limits::EFFECT_BACKOFF_MS_MAX;
        within("effects.retry.attempts_max", u64::from(self.attempts_max), 1..=limits::EFFECT_ATTEMPTS_MAX)?;
        within("effects.retry.backoff_ms", self.backoff_ms, waits.clone())?;
        within("effects.retry.backoff_ms_max", self.backoff_ms_max, waits)
    }
}

/// Limits of one kind of effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KindSection {
    /// Effects of this kind that this process carries out at a time for one universe, in place of `effects.calls_max`.
    pub calls_max: Option<usize>,
    /// Effects of this kind that all workers of a universe carry out at a time; set the same in every process.
    pub universe_calls_max: Option<usize>,
    /// Effects of this kind that begin in a second in the whole universe; set the same in every process.
    pub universe_per_second: Option<u32>,
    /// How many of them may begin at once after an idle time; by default as many as in a second.
    pub universe_burst: Option<u32>,
}

impl KindSection {
    fn cap(&self) -> KindCap {
        let rate = |per_second| RateTerms { per_second, burst: self.universe_burst.unwrap_or(per_second) };
        KindCap { calls_max: self.universe_calls_max, rate: self.universe_per_second.map(rate) }
    }

    /// A limit of zero would keep every effect of the kind waiting.
    fn check(&self) -> Result<(), &'static str> {
        let none = |limit: Option<usize>| limit == Some(0);
        match self {
            Self { calls_max, universe_calls_max, .. } if none(*calls_max) || none(*universe_calls_max) => {
                Err("no effect could be carried out: a limit must be above zero")
            }
            Self { universe_per_second: Some(0), .. } | Self { universe_burst: Some(0), .. } => {
                Err("no effect could be carried out: a rate and its burst must be above zero")
            }
            Self { universe_per_second: None, universe_burst: Some(_), .. } => {
                Err("`universe_burst` needs `universe_per_second`")
            }
            _ => Ok(()),
        }
    }
}
