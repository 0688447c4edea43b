//! The findings of `mundi doctor`.

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Good,
    Look,
    Wrong,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sign {
    pub check: &'static str,
    pub verdict: Verdict,
    pub found: String,
    /// The advice.
    pub advice: &'static str,
}

impl Sign {
    pub(crate) fn good(check: &'static str, found: String) -> Self {
        Self { check, verdict: Verdict::Good, found, advice: "" }
    }

    pub(crate) fn look(check: &'static str, found: String, advice: &'static str) -> Self {
        Self { check, verdict: Verdict::Look, found, advice }
    }

    pub(crate) fn wrong(check: &'static str, found: String, advice: &'static str) -> Self {
        Self { check, verdict: Verdict::Wrong, found, advice }
    }
}
