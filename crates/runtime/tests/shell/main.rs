//! The worker shell: boot, mailbox, retries, dead letters, timers, rest and stop.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod boot_and_drain;
mod failures;
mod mailbox;
mod reports;

use mundi_engine::{Engine, RangeRead, Transaction};
use mundi_model::{Code, WorkerId, cbor, limits};
use mundi_runtime::{
    Plane,
    shell::{Failed, Frame, Handler, Policy, Report, Shell, ShellConfig},
    testing::{Rig, TestPlane},
};
use mundi_store::{
    Clock,
    keyspace::{dead_letter, queue::Queue},
    protocol::{FinishMail, NewMail, SendMail},
};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

fn id(n: u64) -> WorkerId {
    WorkerId::new(n).unwrap()
}

/// Does what the payload says, and remembers it.
#[derive(Clone)]
struct Obedient {
    plane: TestPlane,
    done: Arc<Mutex<Vec<String>>>,
}

impl Handler for Obedient {
    async fn handle(&self, frame: &Frame, _acknowledge: &FinishMail) -> Result<(), Failed> {
        let text = String::from_utf8_lossy(&frame.payload).into_owned();
        self.done.lock().push(text.clone());
        let fail = |code: Code| Err(Failed { code, reason: text.clone() });
        match text.as_str() {
            "busy" => fail(Code::EngineBusy),
            "conflict" => fail(Code::TransactionConflict),
            "wrong" => fail(Code::CommandInvalid),
            "refused" => {
                if self.done.lock().len() == 1 {
                    self.plane.engine.refuse(3);
                }
                Ok(())
            }
            "slow" => {
                self.plane.clock.sleep(SECOND * 3).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn send(rig: &Rig, messages: &[(u64, &str)]) {
    let frame = |(due_ns, text): &(u64, &str)| {
        let frame = Frame::command(id(1), text.as_bytes().to_vec(), text.as_bytes().to_vec());
        frame.to_mail(*due_ns).unwrap()
    };
    send_mail(rig, messages.iter().map(frame).collect());
}

/// Says how many were sent.
fn send_mail(rig: &Rig, mail: Vec<NewMail>) -> usize {
    let (plane, universe) = (rig.plane.clone(), rig.universe);
    let (now_ns, dedupe_window_ns) = (rig.executor.now_ns(), limits::DEDUPE_WINDOW_NS);
    let send = SendMail { universe, worker: id(1), mail, now_ns, dedupe_window_ns };
    rig.executor.block_on(async move { plane.run(&send).await.unwrap().output })
}

fn config(rig: &Rig) -> ShellConfig {
    ShellConfig { bootstrap: true, ..ShellConfig::new(rig.universe, id(1)) }
}

fn start(rig: &Rig, report: Report) -> (mundi_runtime::shell::Stop, Arc<Mutex<Vec<String>>>, Arc<Report>) {
    start_with(rig, report, Policy::default())
}

fn start_with(
    rig: &Rig,
    report: Report,
    policy: Policy,
) -> (mundi_runtime::shell::Stop, Arc<Mutex<Vec<String>>>, Arc<Report>) {
    let handler = Obedient { plane: rig.plane.clone(), done: Arc::default() };
    let (done, report) = (handler.done.clone(), Arc::new(report));
    let config = ShellConfig { policy, ..config(rig) };
    let (plane, reporting) = (rig.plane.clone(), report.clone());
    let booted = rig.executor.block_on(async move { Shell::boot(plane, config, handler, reporting).await });
    (booted.unwrap().0.start(), done, report)
}

fn dead_letters(rig: &Rig) -> Vec<dead_letter::DeadLetter> {
    let looking = rig.clone();
    rig.executor.block_on(async move {
        let mut tx = looking.plane.engine.begin().await.unwrap();
        let read = RangeRead::prefix(dead_letter::prefix(looking.universe, Queue::Mailboxes).as_bytes(), 100);
        let page = tx.range(read).await.unwrap();
        page.items.iter().map(|(_, bytes)| cbor::decode(bytes).unwrap()).collect()
    })
}
