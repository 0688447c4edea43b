//! The follower: reads the commits of other processes, and removes entries that no transaction can depend on any more.
//!
//! A notification has only the newest version; the commits themselves are in the table `commits`. Notifications of this process'
//! own commits, and of commits that it has seen already, are ignored. A periodic poll finds commits whose
//! notification was lost: a pooler between us and the server drops them.

use super::{
    Shared,
    connect::{Hearing, Purpose},
    error::refused,
    writer::news_of,
};
use crate::EngineError;
use mundi_model::limits;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{sync::Notify, time};
use tokio_postgres::{Client, Notification, Statement};

/// The look that is taken without having heard anything.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a footprint is kept: several times the life of a transaction, so that a process that was busy finds all.
const KEEP: Duration = Duration::from_millis(4 * limits::TRANSACTION_AGE_MS_MAX);
const TRIM_EVERY: Duration = Duration::from_secs(2);
/// What is fetched at a time.
const NEWS_MAX: i64 = 1_000;

pub(super) async fn follow(shared: Arc<Shared>) {
    let mut marks = Marks::default();
    loop {
        if let Err(error) = listen(&shared, &mut marks).await {
            tracing::debug!(%error, "commits of other processes cannot be followed at the moment");
            time::sleep(LOOK_EVERY).await;
        }
    }
}

async fn listen(shared: &Arc<Shared>, marks: &mut Marks) -> Result<(), EngineError> {
    let failed = |error| refused("listening", error);
    let (connector, history) = (shared.connector.clone(), shared.conflict_window.clone());
    let is_news = move |told: &Notification| {
        let is_known = || told.payload().parse::<u64>().is_ok_and(|version| version <= history.version());
        !connector.is_own(told) && !is_known()
    };
    let hearing = Arc::new(Hearing { heard: Notify::new(), is_news: Box::new(is_news) });
    let client = shared.connector.connect_hearing(Purpose::Other, Some(hearing.clone())).await?;
    client.batch_execute(&format!("LISTEN \"{}\"", shared.connector.channel())).await.map_err(failed)?;
    let news = "SELECT version, footprint FROM commits WHERE version > $1 ORDER BY version LIMIT $2";
    let news = client.prepare(news).await.map_err(failed)?;
    let trim = client.prepare("DELETE FROM commits WHERE version < $1").await.map_err(failed)?;
    loop {
        while look(shared, &client, &news).await? {}
        if let Some(version) = marks.pass(shared.conflict_window.version(), time::Instant::now()) {
            let version = i64::try_from(version).unwrap_or(i64::MAX);
            client.execute(&trim, &[&version]).await.map_err(failed)?;
        }
        let _heard_or_not = time::timeout(LOOK_EVERY, hearing.heard.notified()).await;
    }
}

/// Takes in what is new, and says whether there may be more.
async fn look(shared: &Shared, client: &Client, news: &Statement) -> Result<bool, EngineError> {
    let known = i64::try_from(shared.conflict_window.version()).unwrap_or(i64::MAX);
    let rows = client.query(news, &[&known, &NEWS_MAX]).await.map_err(|error| refused("looking for commits", error))?;
    let news = rows.iter().map(news_of).collect::<Result<Vec<_>, _>>()?;
    let count = i64::try_from(news.len()).unwrap_or(i64::MAX);
    shared.conflict_window.advance(news);
    Ok(count == NEWS_MAX)
}

/// Which version was the newest when: what lies below an old mark is not asked for any more.
#[derive(Default)]
struct Marks {
    marks: VecDeque<(time::Instant, u64)>,
}

impl Marks {
    /// Sets a mark if it is time, and gives the version below which all can go.
    fn pass(&mut self, version: u64, now: time::Instant) -> Option<u64> {
        if self.marks.back().is_some_and(|(last, _)| now.duration_since(*last) < TRIM_EVERY) {
            return None;
        }
        self.marks.push_back((now, version));
        let mut old = None;
        while let Some((_, version)) = self.marks.pop_front_if(|(set, _)| now.duration_since(*set) >= KEEP) {
            old = Some(version);
        }
        old
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footprint_stays_as_long_as_anyone_may_ask_for_it() {
        let (mut marks, start) = (Marks::default(), time::Instant::now());
        assert_eq!(marks.pass(10, start), None);
        assert_eq!(marks.pass(20, start + TRIM_EVERY / 2), None, "not yet time for a mark");
        assert_eq!(marks.pass(30, start + TRIM_EVERY), None);
        assert_eq!(marks.pass(40, start + KEEP), Some(10));
        assert_eq!(marks.pass(50, start + KEEP + TRIM_EVERY), Some(30));
    }
}
