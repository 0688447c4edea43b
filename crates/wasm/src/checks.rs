//! Long checks against schemas, fair by universe.
//!
//! A check is not interrupted, and takes a tenth of a second at most. Universes take turns by the processor time that their checks have used,
//! divided by their weight; the checks of one universe run in the order in which they come. A universe with more of them than may wait gets
//! the rest back, to be made later: each that waits occupies a thread.
//!
//! A check within a step does not wait here: its step has a slot of the processors, which waits for nothing but the processors.

use crate::{
    program::Blocking,
    scheduler::{Scheduler, Tenant},
};
use mundi_kernel::loader::{Apart, ChecksCrowded};
use mundi_model::WorldId;
use std::sync::Arc;

/// All checks of a universe wait in one line.
const LINE: WorldId = WorldId::from_bytes([0; WorldId::LEN]);

/// The checks of one universe.
pub(crate) struct Checks {
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) tenant: Tenant,
    pub(crate) blocking: Blocking,
}

impl Apart for Checks {
    fn in_turn(&self, check: &mut dyn FnMut()) -> Result<(), ChecksCrowded> {
        let mut done = Err(ChecksCrowded);
        (self.blocking)(&mut || {
            if let Ok(_slot) = self.scheduler.enter(self.tenant, LINE, false) {
                check();
                done = Ok(());
            }
        });
        done
    }

    fn at_once(&self, check: &mut dyn FnMut()) {
        (self.blocking)(check);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::{UniverseId, limits::CHECKS_WAITING_MAX};
    use parking_lot::Mutex;
    use std::{sync::mpsc, thread, time::Duration};

    /// The universes of the checks that ran, in their order.
    type Order = Arc<Mutex<Vec<&'static str>>>;

    fn checks(scheduler: &Arc<Scheduler>, number: u8) -> Arc<Checks> {
        let tenant = Tenant { universe: UniverseId::from_bytes([number; UniverseId::LEN]), weight: 1 };
        Arc::new(Checks { scheduler: scheduler.clone(), tenant, blocking: |work| work() })
    }

    /// Brings as many checks as may wait, and one more. Returns when that one was refused, which says that all others wait.
    fn crowd(name: &'static str, of: &Arc<Checks>, order: &Order) -> Vec<thread::JoinHandle<()>> {
        let (refused, refusals) = mpsc::channel();
        let bring = |_| {
            let (of, order, refused) = (of.clone(), order.clone(), refused.clone());
            thread::spawn(move || {
                if of.in_turn(&mut || order.lock().push(name)).is_err() {
                    refused.send(()).unwrap();
                }
            })
        };
        let threads = (0..=CHECKS_WAITING_MAX).map(bring).collect();
        refusals.recv().unwrap();
        threads
    }

    #[test]
    fn a_universe_with_many_long_checks_goes_behind_one_that_has_used_less() {
        let scheduler = Scheduler::of_whole_work(2, CHECKS_WAITING_MAX);
        let (loud, quiet, order) = (checks(&scheduler, 1), checks(&scheduler, 2), Order::default());
        let ((begun, begins), (end, ends)) = (mpsc::channel(), mpsc::channel());
        let first = loud.clone();
        let mut threads = vec![thread::spawn(move || {
            let mut check = || {
                begun.send(()).unwrap();
                ends.recv().unwrap();
            };
            first.in_turn(&mut check).unwrap();
        })];
        begins.recv().unwrap();
        threads.extend(crowd("loud", &loud, &order));
        threads.extend(crowd("quiet", &quiet, &order));
        assert!(order.lock().is_empty(), "one runs at a time");
        #[expect(clippy::disallowed_methods, reason = "the time that a check used decides who is next")]
        thread::sleep(Duration::from_millis(1));
        end.send(()).unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let order = order.lock();
        assert_eq!(order[0], "quiet", "the other universe came before, and has used more");
        assert_eq!(order.iter().filter(|name| **name == "loud").count(), CHECKS_WAITING_MAX, "none is lost: {order:?}");
    }
}
