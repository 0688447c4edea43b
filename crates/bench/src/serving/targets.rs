//! The latency targets (R-OPS-4), measured by the server's own histograms while worlds request effects.

use super::{
    target::{Server, Subject},
    workload::{Prepared, Workload},
};
use crate::{
    Again, Common,
    report::{Once, Report},
};
use mundi_runtime::metrics::Timing;
use std::{
    error::Error,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    time::Duration,
};

/// A nominal load: far from what the server can do, and never idle.
const CLIENTS: usize = 8;
const WORLDS: usize = 1_000;
/// A worker renews its leases every five seconds: some of that is in each run.
const TIME_MIN: Duration = Duration::from_secs(11);

pub(crate) fn targets(report: &mut Report, common: &Common, again: Again<'_>) -> Result<(), Box<dyn Error>> {
    let time = Duration::from_secs(common.seconds).max(TIME_MIN);
    let figures = report.repeat(common, "the targets of a nominal load", |folder| once(folder, time, again))?;
    for (figure, timing) in figures.iter_mut().zip(Timing::ALL) {
        figure.goal = Some(format!("< {}", timing.target_us() / 1_000));
    }
    Ok(())
}

fn once(folder: &Path, time: Duration, again: Again<'_>) -> Result<Once, Box<dyn Error>> {
    let server = Server::start(&Subject::Mundi(again), folder)?;
    let prepared = Prepared::new(Workload::Effect, &server, WORLDS)?;
    prepared.drive(server.address, CLIENTS, time, || ())?;
    let text = metrics(server.address)?;
    let name = |timing| match timing {
        Timing::LeaseRenewal => "lease renewal, 8 clients, p95",
        Timing::InboxToJournal => "inbox to journal, 8 clients, p95",
        Timing::DispatchToReceipt => "dispatch to receipt without the call, 8 clients, p95",
    };
    let figures = Timing::ALL.map(|timing| {
        let buckets = buckets(&text, timing.name());
        Ok((name(timing).to_owned(), "ms", quantile(&buckets, 0.95).ok_or("nothing was measured")? * 1e3))
    });
    figures.into_iter().collect()
}

/// The text of `/metrics`.
fn metrics(address: SocketAddr) -> Result<String, Box<dyn Error>> {
    let mut connection = TcpStream::connect(address)?;
    write!(connection, "GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    connection.read_to_string(&mut text)?;
    Ok(text)
}

/// The upper bounds of a histogram without labels, in seconds, and how many are at or below each.
fn buckets(text: &str, name: &str) -> Vec<(f64, f64)> {
    let prefix = format!("{name}_bucket{{le=\"");
    let parse = |line: &str| {
        let (bound, count) = line.strip_prefix(&prefix)?.split_once("\"} ")?;
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
        Some((bound, count.trim().parse().ok()?))
    };
    text.lines().filter_map(parse).collect()
}

/// As Prometheus reckons it: evenly spread within a bucket. `None` if there is nothing.
fn quantile(buckets: &[(f64, f64)], share: f64) -> Option<f64> {
    let all = buckets.last().filter(|(_, all)| *all > 0.0)?.1;
    let wanted = all * share;
    let at = buckets.iter().position(|(_, count)| *count >= wanted)?;
    let (lower, below) = if at == 0 { (0.0, 0.0) } else { buckets[at - 1] };
    let (upper, count) = buckets[at];
    Some(if upper.is_infinite() { lower } else { lower + (upper - lower) * (wanted - below) / (count - below) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_found_within_its_bucket() {
        let text =
            "it_bucket{le=\"0.1\"} 10\nother_bucket{le=\"9\"} 7\nit_bucket{le=\"0.2\"} 20\nit_bucket{le=\"+Inf\"} 20\n";
        let buckets = buckets(text, "it");
        assert_eq!(buckets.len(), 3);
        let near = |share: f64, expected: f64| (quantile(&buckets, share).unwrap() - expected).abs() < 1e-9;
        assert!(near(0.5, 0.1) && near(0.75, 0.15) && near(1.0, 0.2));
        assert_eq!(quantile(&[(0.1, 0.0), (f64::INFINITY, 0.0)], 0.95), None);
        assert_eq!(quantile(&[(0.1, 0.0), (f64::INFINITY, 4.0)], 0.95), Some(0.1), "no more can be said");
    }
}
