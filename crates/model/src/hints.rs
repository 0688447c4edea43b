//! Advice for an error, in one sentence, for its reader: a person, a client library or an assistant.

use crate::error::{Code, Kind};

impl Kind {
    /// Advice for the caller that gets an error of this kind.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::Conflict => "Another request came first: read the current state and decide again.",
            Self::NotFound => "Check the name and the universe; list what exists.",
            Self::Invalid => "Correct the request: the same request fails again.",
            Self::Fenced => "The lease or the claim was lost: stop this work, another worker has it.",
            Self::Full => "A bound was reached: wait and retry, or make room.",
            Self::Unavailable => "Retry later.",
            Self::Corrupt => "Stored data is damaged: verify it and restore it from a copy.",
        }
    }
}

impl Code {
    /// Advice for the caller.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::WorldNotFound => "List the worlds of this universe, or name another universe.",
            Self::UniverseNotFound => "List the universes, or create this one.",
            Self::ProgramUnknown => "List the programs of this universe, or register this one.",
            Self::EffectNotFound => "List the open effects; one that is over is found with the name of its world.",
            Self::CellNotFound => "List the cells of the world; with `at` those of its past.",
            Self::WorldExists => "Choose another name, or use the world that exists.",
            Self::TokenMissing => "Send a token as `Authorization: Bearer …`; `mundi token create` makes one.",
            Self::TokenDenied => "Use a token with the verb and the universe that this request needs.",
            Self::CallTimeout => {
                "Ask for the reply again by the name in `call`, or repeat the call under the same Idempotency-Key."
            }
            Self::EventInvalid => "Send a value that the program's schema of this event allows.",
            Self::QueryInvalid => "Use a query that the program declares, with parameters that its schema allows.",
            Self::HeightOutOfRange => "Use a height between the first of the world's journal and its head.",
            Self::WorldOnHold => "Read the world's `hold`, mend the cause, and retry or skip the input.",
            Self::WorldArchived => "Take the world out of the archive first.",
            Self::UpgradeDiverges => "Rehearse the program to see the difference, or force the upgrade.",
            Self::ManifestNotRegistered => "An admin has to register the program in this universe first.",
            Self::RouteNotFound => "Check method and path against /openapi.json.",
            code => code.kind().hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_says_what_to_do_in_one_sentence() {
        for &code in Code::ALL {
            let hint = code.hint();
            assert!(hint.ends_with('.') && hint.len() <= 120, "{code}: {hint}");
        }
    }
}
