//! Two tenants with the same quota, under full load: what each of them gets of its share, whatever the other one does.
//!
//! The share is a quarter of what one tenant gets alone: clients and refusals take the same processors as what they measure. Clients of
//! the loud tenant come again at once when they are refused, whatever `Retry-After` says.

use super::{
    load::{Connection, drive},
    target::{Server, Subject},
};
use crate::{
    Again, Common,
    report::{Once, Report},
};
use std::{cell::Cell, error::Error, net::SocketAddr, path::Path, rc::Rc, time::Duration};

const TENANTS: [&str; 2] = ["quiet", "loud"];
const WORLDS: usize = 64;
const CLIENTS: usize = 16;
/// The loud one comes with as many clients, and with many more.
const LOUD_CLIENTS: [usize; 2] = [CLIENTS, 8 * CLIENTS];

pub(crate) fn tenants(report: &mut Report, common: &Common, again: Again<'_>) -> Result<(), Box<dyn Error>> {
    let time = Duration::from_secs(common.seconds);
    let figures = report.repeat(common, "two tenants under full load", |folder| once(folder, time, again))?;
    for figure in figures.iter_mut().filter(|figure| figure.unit == "% of share") {
        figure.goal = Some("80 to 120".to_owned());
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn once(folder: &Path, time: Duration, again: Again<'_>) -> Result<Once, Box<dyn Error>> {
    let server = Server::start(&Subject::Mundi(again), folder)?;
    prepare(server.address)?;
    let [alone, _] = calls(server.address, [CLIENTS, 0], time)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of events")]
    let share = ((alone / 4.0) as u64).max(1);
    limit(server.address, share)?;
    let mut figures = vec![
        ("one tenant alone, without a quota".to_owned(), "calls/s", alone),
        ("the share of each".to_owned(), "calls/s", share as f64),
    ];
    for clients in LOUD_CLIENTS {
        let [quiet, loud] = calls(server.address, [CLIENTS, clients], time)?.map(|rate| rate / share as f64 * 100.0);
        figures.push((format!("quiet tenant beside {clients} clients of the loud one"), "% of share", quiet));
        figures.push((format!("loud tenant with {clients} clients"), "% of share", loud));
    }
    Ok(figures)
}

/// Both universes, with their worlds.
fn prepare(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    with_connection(address, async |connection| {
        for tenant in TENANTS {
            connection.post(format_args!("/v1/universes"), format!(r#"{{"name":"{tenant}"}}"#).as_bytes()).await?;
            for world in 0..WORLDS {
                let form = format!(r#"{{"world":"bench-{world}","program":"counter"}}"#);
                connection.post(format_args!("/v1/u/{tenant}/worlds"), form.as_bytes()).await?;
            }
        }
        Ok(())
    })
}

fn limit(address: SocketAddr, share: u64) -> Result<(), Box<dyn Error>> {
    with_connection(address, async |connection| {
        let quotas = format!(r#"{{"events_per_second_max":{share}}}"#);
        for tenant in TENANTS {
            let (status, answer) =
                connection.ask("PUT", format_args!("/v1/universes/{tenant}/quotas"), quotas.as_bytes()).await?;
            if status != 204 {
                return Err(format!("{status}: {}", String::from_utf8_lossy(answer)).into());
            }
        }
        Ok(())
    })
}

fn with_connection(
    address: SocketAddr,
    work: impl AsyncFnOnce(&mut Connection) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { work(&mut Connection::open(address).await?).await })
}

/// Calls a second that each tenant got, with so many clients.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn calls(address: SocketAddr, clients: [usize; 2], time: Duration) -> Result<[f64; 2], Box<dyn Error>> {
    let (answered, [quiet, loud]) = (Rc::new([const { Cell::new(0_u64) }; 2]), clients);
    let counts = answered.clone();
    let note = || counts.each_ref().map(Cell::get);
    let all = (quiet + loud) as u64;
    let driven = drive(address, quiet + loud, time, note, async move |connection, turn| {
        let tenant = usize::from(turn % all >= quiet as u64);
        let world = turn.wrapping_mul(7_919) % WORLDS as u64;
        let path = format_args!("/v1/u/{}/worlds/bench-{world}/call/add", TENANTS[tenant]);
        let (status, answer) = connection.ask("POST", path, b"1").await?;
        match status {
            200 => answered[tenant].set(answered[tenant].get() + 1),
            429 if tenant == 0 => tokio::time::sleep(Duration::from_millis(5)).await, // the quiet one does not insist
            429 => {}
            _ => return Err(format!("{status}: {}", String::from_utf8_lossy(answer)).into()),
        }
        Ok(u64::from(status == 200))
    })?;
    let [before, after] = driven.noted;
    Ok([0, 1].map(|tenant| (after[tenant] - before[tenant]) as f64 / driven.seconds))
}
