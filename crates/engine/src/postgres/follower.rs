//! The follower: reads the commits of other processes, and removes entries that no transaction can depend on any more.
//!
//! A notification has only the newest version; the commits themselves are in the table `commits`. Notifications of this process'
//! own commits, and of commits that it has seen already, are ignored. A periodic poll finds commits whose
//! notification was lost: a pooler between us and the server drops them. Between two looks there is a short pause, so that the more others
//! commit, the more one look fetches.

use super::{
    Shared,
    conflict_window::ConflictWindow,
    connect::{Hearing, Purpose},
    error::refused,
    writer::news_of,
};
use crate::EngineError;
use mundi_model::limits;
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time};
use tokio_postgres::{Client, Notification, Statement};

/// The look that is taken without having heard anything.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The pause between two looks: all commits of that time are fetched by one. A notification that comes later waits for nothing. Without it every
/// process would ask the database once for nearly every commit of every other process.
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// How long a footprint is kept: several times the life of a transaction, so that a process that was busy finds all.
const KEEP: Duration = Duration::from_millis(4 * limits::TRANSACTION_AGE_MS_MAX);
const TRIM_EVERY: Duration = Duration::from_secs(2);
/// The number of footprints that are fetched at a time.
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
    let (connector, window) = (shared.connector.clone(), shared.conflict_window.clone());
    let newest = Arc::new(AtomicU64::new(0));
    let told_of = newest.clone();
    let is_news = move |told: &Notification| {
        if connector.is_own(told) {
            return false;
        }
        let version = told.payload().parse().unwrap_or(u64::MAX); // what cannot be read is news
        told_of.fetch_max(version, Ordering::Relaxed);
        version > window.version()
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
        until_news(&shared.conflict_window, &newest, &hearing.heard).await;
    }
}

/// Until there is something that only a look can tell, or it is time for one anyway.
///
/// Each commit group of this process reads what others committed before it. So while this process commits often, a look waits for its next
/// group, and is mostly not needed any more afterwards; a process that commits seldom looks at once.
async fn until_news(window: &ConflictWindow, newest: &AtomicU64, heard: &Notify) {
    let (looked, groups_before) = (time::Instant::now(), window.own_groups());
    while looked.elapsed() < LOOK_EVERY {
        if time::timeout_at(looked + LOOK_EVERY, heard.notified()).await.is_err() {
            return;
        }
        time::sleep_until(looked + LOOK_PAUSE).await;
        let told_of = newest.load(Ordering::Relaxed);
        if told_of <= window.version() {
            continue;
        }
        if commits_often(window.own_groups() - groups_before, looked.elapsed()) {
            time::sleep(LOOK_PAUSE).await;
        }
        if told_of > window.version() {
            return;
        }
    }
}

/// Whether so many groups in this time mean that the next one is due before a look would be.
fn commits_often(groups: u64, time: Duration) -> bool {
    groups >= 2 && time <= LOOK_PAUSE * u32::try_from(groups).unwrap_or(u32::MAX)
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
    fn a_look_waits_for_a_group_of_this_process_only_if_one_is_due() {
        assert!(!commits_often(0, LOOK_PAUSE), "it commits nothing");
        assert!(!commits_often(1, Duration::ZERO), "one commit, such as that of a call whose reply it waits for");
        assert!(commits_often(2, 2 * LOOK_PAUSE));
        assert!(!commits_often(2, 3 * LOOK_PAUSE), "its groups are rarer than looks");
    }

    /// A commit of its own came behind what another process told of: nobody has to look.
    #[tokio::test]
    async fn what_is_known_already_is_not_looked_for() {
        let (window, newest, heard) = (ConflictWindow::new(10), AtomicU64::new(11), Notify::new());
        window.advance([(11, Vec::new()), (12, Vec::new())]);
        heard.notify_one();
        let waiting = until_news(&window, &newest, &heard);
        let mut waiting = std::pin::pin!(waiting);
        let told = async {
            time::sleep(2 * LOOK_PAUSE).await;
            newest.store(13, Ordering::Relaxed);
            heard.notify_one();
        };
        tokio::select! {
            biased;
            () = &mut waiting => panic!("it looks for what it knows"),
            () = told => {}
        }
        waiting.await; // for version 13
    }

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
