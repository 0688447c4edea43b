//! The present use of this process by one universe or one token.

use super::{
    Quota, QuotaExceeded, Scope,
    bucket::{Bucket, Full},
};
use mundi_store::values::{Quotas, TokenId};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// A request that waits for another one of its own tenant to end has no better time to come again.
const GAUGE_WAIT: Duration = Duration::from_secs(1);

/// Events, calls and streams of one tenant.
#[derive(Default)]
pub(crate) struct Account {
    events: Mutex<Bucket>,
    calls: AtomicU64,
    streams: AtomicU64,
}

impl Account {
    /// So many events come in, if there is room for one.
    pub(crate) fn events(&self, scope: Scope, quotas: &Quotas, now_ns: u64, count: u64) -> Result<(), QuotaExceeded> {
        let Some(limit) = quotas.events_per_second_max else { return Ok(()) };
        self.events.lock().take(now_ns, limit, count).map_err(|Full { used, wait }| QuotaExceeded {
            scope,
            quota: Quota::EventsPerSecond,
            limit,
            current: used,
            retry_after: wait,
        })
    }

    /// Events that came in with one that was let in.
    pub(crate) fn more_events(&self, quotas: &Quotas, now_ns: u64, count: u64) {
        if let Some(limit) = quotas.events_per_second_max {
            self.events.lock().charge(now_ns, limit, count);
        }
    }

    fn gauge(&self, quota: Quota) -> &AtomicU64 {
        if quota == Quota::Streams { &self.streams } else { &self.calls }
    }

    /// One more call or stream, until the returned guard is dropped.
    pub(crate) fn begin(
        self: &Arc<Self>,
        scope: Scope,
        quota: Quota,
        limit: Option<u64>,
    ) -> Result<Begun, QuotaExceeded> {
        let limit = limit.unwrap_or(u64::MAX);
        let raise = |current: u64| (current < limit).then_some(current + 1);
        match self.gauge(quota).fetch_update(Relaxed, Relaxed, raise) {
            Ok(_) => Ok(Begun { account: self.clone(), quota }),
            Err(current) => Err(QuotaExceeded { scope, quota, limit, current, retry_after: GAUGE_WAIT }),
        }
    }

    /// The use that counts against a quota now, if this account knows it.
    pub(super) fn used(&self, quota: Quota, quotas: &Quotas, now_ns: u64) -> Option<u64> {
        match quota {
            Quota::EventsPerSecond => Some(self.events.lock().used(now_ns, quotas.events_per_second_max?)),
            Quota::Calls | Quota::Streams => Some(self.gauge(quota).load(Relaxed)),
            _ => None,
        }
    }

    /// Whether nothing would be lost if it were forgotten.
    fn is_idle(&self, now_ns: u64) -> bool {
        // Of the rate nothing is known here: a second is forgotten after a minute, whatever the rate is.
        self.calls.load(Relaxed) == 0
            && self.streams.load(Relaxed) == 0
            && self.events.lock().wait(now_ns.saturating_sub(60_000_000_000), 1).is_none()
    }
}

/// One call or stream.
pub(crate) struct Begun {
    account: Arc<Account>,
    quota: Quota,
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.account.gauge(self.quota).fetch_sub(1, Relaxed);
    }
}

/// A call or stream, of its universe and of its token.
pub(crate) struct Held {
    _of_universe: Begun,
    _of_token: Option<Begun>,
}

impl Held {
    pub(crate) fn new(of_universe: Begun, of_token: Option<Begun>) -> Self {
        Self { _of_universe: of_universe, _of_token: of_token }
    }
}

/// The accounts of tokens that have quotas.
#[derive(Default)]
pub(crate) struct TokenAccounts(Mutex<BTreeMap<TokenId, Arc<Account>>>);

/// Tokens that are remembered; beyond it those that are idle are forgotten.
const TOKENS_MAX: usize = 65_536;

impl TokenAccounts {
    pub(crate) fn of(&self, token: TokenId, now_ns: u64) -> Arc<Account> {
        let mut accounts = self.0.lock();
        if accounts.len() >= TOKENS_MAX && !accounts.contains_key(&token) {
            accounts.retain(|_, account| Arc::strong_count(account) > 1 || !account.is_idle(now_ns));
        }
        accounts.entry(token).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_counts_what_is_under_way_and_gives_back_what_ended() {
        let account = Arc::<Account>::default();
        let begin = |quota| account.begin(Scope::Token, quota, Some(2));
        let held = [begin(Quota::Calls).unwrap(), begin(Quota::Calls).unwrap()];
        let refused = begin(Quota::Calls).err().unwrap();
        assert_eq!((refused.quota, refused.limit, refused.current), (Quota::Calls, 2, 2));
        assert!(begin(Quota::Streams).is_ok(), "streams are another gauge");
        drop(held);
        assert!(begin(Quota::Calls).is_ok() && account.calls.load(Relaxed) == 0);
        assert!(account.begin(Scope::Token, Quota::Calls, Some(0)).is_err());
    }

    #[test]
    fn a_token_that_does_something_is_not_forgotten() {
        let (accounts, quotas) =
            (TokenAccounts::default(), Quotas { events_per_second_max: Some(1), ..Quotas::default() });
        let now_ns = 3_600_000_000_000;
        let held = accounts.of(1, now_ns).begin(Scope::Token, Quota::Calls, None).unwrap();
        accounts.of(2, now_ns).events(Scope::Token, &quotas, now_ns, 1).unwrap();
        for token in 3..=TOKENS_MAX as u64 {
            accounts.of(token, now_ns);
        }
        accounts.of(0, now_ns);
        let known: Vec<_> = accounts.0.lock().keys().copied().collect();
        assert_eq!(known, [0, 1, 2]);
        drop(held);
    }
}
