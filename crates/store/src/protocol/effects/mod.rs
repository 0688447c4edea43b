//! Effects that are queued, claimed, tried and answered.

pub(in crate::protocol) mod answer_effect;
pub(in crate::protocol) mod claim_effects;
pub(in crate::protocol) mod complete_effect;
pub(in crate::protocol) mod extend_claims;
pub(in crate::protocol) mod fail_effect;
pub(in crate::protocol) mod find_claims;
pub(in crate::protocol) mod find_effect;
pub(in crate::protocol) mod intervene_effect;
pub(in crate::protocol) mod list_effects;
pub(in crate::protocol) mod reap_effects;
pub(in crate::protocol) mod settle_effect;

pub use answer_effect::{AnswerEffect, AnsweredByHand, answer_effect};
pub use claim_effects::{ClaimEffects, ClaimedEffect, Claims, EffectClaim, KindCap, claim_effects};
pub use complete_effect::{Answer, CompleteEffect, Completed, complete_effect};
pub use extend_claims::{ExtendClaims, Extended};
pub use fail_effect::{FailEffect, Failed, Failure, Repeat, describe as describe_failure, next_attempt_ms};
pub use find_claims::FindClaims;
pub use find_effect::{FindEffect, FoundPlace};
pub use intervene_effect::{CancelEffect, RetryEffect};
pub use list_effects::{ListEffects, QueuedEffect, ReadEffect};
pub use reap_effects::{ReapEffects, Reaped, ShardsToReap};
pub use settle_effect::receipt_of;
