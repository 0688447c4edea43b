//! A model of fleets that are larger than could be measured: arithmetic on measured costs. `docs/internals/scale.md` has its table, its reasons, and the
//! measurements that would prove it wrong.

use crate::Format;
use serde::Serialize;

/// The costs of one event, as `fleet` measures them, and the machines that are assumed.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Settings {
    /// Numbers of machines, with one process on each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 1_000])]
    machines: Vec<u32>,
    /// Cores of each machine.
    #[arg(long, default_value_t = 8)]
    cores: u32,
    /// Our processor time per event in the process that holds its world, in µs.
    #[arg(long, default_value_t = 46.0)]
    own_us: f64,
    /// Our processor time that forwarding adds to an event, in µs; 0 if clients ask the process that holds the world.
    #[arg(long, default_value_t = 0.0)]
    forwarding_us: f64,
    /// The database's processor time per event, in µs.
    #[arg(long, default_value_t = 24.0)]
    database_us: f64,
    /// Events in progress at a time in each process.
    #[arg(long, default_value_t = 256)]
    clients: u32,
    /// A round trip to the database, in µs.
    #[arg(long, default_value_t = 250.0)]
    round_trip_us: f64,
    /// A sync of the database's disk, in µs.
    #[arg(long, default_value_t = 500.0)]
    sync_us: f64,
    /// Connections of each process to the database.
    #[arg(long, default_value_t = 19)]
    connections: u32,
    /// Connections that the database takes.
    #[arg(long, default_value_t = 5_000)]
    connections_max: u32,
    /// How to print the table.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

/// The bounds of one fleet, in events per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Bounds {
    machines: u32,
    our_processors: f64,
    /// One group commits at a time: all groups together have one core of the database.
    order_processor: f64,
    /// A group holds the lock for a round trip and a sync, and carries at most the events that its process has in progress.
    order_latency: f64,
    connections: u32,
    first_bound: &'static str,
}

impl Settings {
    fn bounds(&self, machines: u32) -> Bounds {
        let count = f64::from(machines);
        let own_us = self.own_us + self.forwarding_us * (count - 1.0) / count;
        let our_processors = count * f64::from(self.cores) * 1e6 / own_us;
        let order_processor = 1e6 / self.database_us;
        let order_latency = f64::from(self.clients) * 1e6 / (self.round_trip_us + self.sync_us);
        let connections = machines.saturating_mul(self.connections);
        let by_events = [
            ("our processors", our_processors),
            ("order of commits, processor", order_processor),
            ("order of commits, latency", order_latency),
        ];
        let first = by_events.into_iter().min_by(|one, other| one.1.total_cmp(&other.1));
        let first_bound = match first {
            Some((name, _)) if connections <= self.connections_max => name,
            _ => "connections",
        };
        Bounds { machines, our_processors, order_processor, order_latency, connections, first_bound }
    }

    fn all(&self) -> Vec<Bounds> {
        self.machines.iter().map(|machines| self.bounds((*machines).max(1))).collect()
    }
}

/// A number with its thousands set apart.
fn apart(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The table, in Markdown.
fn table(all: &[Bounds]) -> String {
    let head = "| machines | our processors | order of commits, processor | order of commits, latency | connections | first bound |";
    let mut lines = vec![head.to_owned(), "|---|---|---|---|---|---|".to_owned()];
    for bounds in all {
        let per_second = |bound: f64| format!("{}/s", apart((bound / 1e3).floor() * 1e3));
        lines.push(format!(
            "| {} | {} | {} | {} | {} | {} |",
            apart(bounds.machines.into()),
            per_second(bounds.our_processors),
            per_second(bounds.order_processor),
            per_second(bounds.order_latency),
            apart(bounds.connections.into()),
            bounds.first_bound
        ));
    }
    lines.join("\n")
}

/// Prints the bounds of fleets of the given sizes.
#[expect(clippy::print_stdout, reason = "the table is what the command is for")]
pub(crate) fn run(settings: &Settings) {
    let all = settings.all();
    match settings.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&all).unwrap_or_default()),
        Format::Table => println!("{}", table(&all)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        settings: Settings,
    }

    fn settings(more: &[&str]) -> Settings {
        Arguments::parse_from(["scale"].iter().chain(more)).settings
    }

    #[test]
    fn the_page_has_the_table_of_the_model() {
        let page = include_str!("../../../docs/internals/scale.md");
        assert!(
            page.contains(&table(&settings(&[]).all())),
            "docs/internals/scale.md: paste this\n{}",
            table(&settings(&[]).all())
        );
    }

    #[test]
    fn forwarding_costs_the_events_that_meet_another_process() {
        let bounds = settings(&["--forwarding-us", "46", "--machines", "1,2"]).all();
        assert_eq!(bounds[0].our_processors, 8e6 / 46.0);
        assert_eq!(bounds[1].our_processors, 16e6 / 69.0);
    }

    #[test]
    fn a_cheap_database_leaves_the_latency_of_commits_and_one_of_few_connections_neither() {
        let first = |more: &[&str]| settings(more).bounds(10).first_bound;
        assert_eq!(first(&["--database-us", "1"]), "order of commits, latency");
        assert_eq!(first(&["--database-us", "0.1", "--clients", "10000"]), "our processors");
        assert_eq!(first(&["--connections-max", "189"]), "connections");
    }
}
