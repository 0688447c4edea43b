//! The page of benchmarks, generated from the figures.

mod plot;

use crate::{
    machine::Machine,
    report::short,
    serving::{Measured, QUANTITIES},
    suite::Suite,
};
use plot::{Bar, bars};
use std::{fmt::Write, fs, io, path::Path};

const METHOD: &str = "\
Made by `mundi bench --page docs/reference` (with `--peer bench/peers/restate` for the peer); do not edit by hand.

## Method

- One machine runs everything: server, load and disk. Clients are connections in a closed loop, each with one request at a
  time, to one of 1,000 worlds; the load is one thread, which interrupts nobody when an answer wakes it (`SCHED_BATCH`).
- An event is acknowledged when it is synced to disk, for all who are measured.
- Every figure is the median of several runs on a fresh folder each, with the lowest and the highest. Who is compared runs in
  turns, in the same run.
- Processor time is user and system time of the server's processes per event: the figure that a busy machine spoils least.
  Written bytes are what the kernel counted for them.
- The raw limit appends as many bytes per event to one preallocated file, with one `fdatasync` per group and as many clients.
- The floor is a counter behind a bare HTTP server that syncs each group of calls to such a file before it answers: no worlds,
  no history, no checks.
";

/// Writes `benchmarks.md` and its plots.
pub(crate) fn write_page(suite: &Suite, folder: &Path) -> io::Result<()> {
    let plots = folder.join("benchmarks");
    fs::create_dir_all(&plots)?;
    for Plot { file, title, unit, value } in PLOTS {
        let mut drawn = Vec::new();
        for measured in &suite.workloads {
            drawn.push(Bar { label: measured.title(), of: measured.of.clone(), value: value(measured) });
        }
        if *file == "throughput" {
            let ours = suite.workloads.iter().filter(|measured| measured.of == "mundi");
            drawn.extend(ours.map(|measured| Bar {
                label: measured.title(),
                of: "raw limit".to_owned(),
                value: measured.median.raw_events_per_s,
            }));
        }
        fs::write(plots.join(format!("{file}.svg")), bars(title, unit, &drawn))?;
    }
    fs::write(folder.join("benchmarks.md"), text(suite).unwrap_or_default())
}

struct Plot {
    file: &'static str,
    title: &'static str,
    unit: &'static str,
    value: fn(&Measured) -> f64,
}

const PLOTS: &[Plot] = &[
    Plot { file: "throughput", title: "Events per second", unit: "/s", value: |it| it.median.events_per_s },
    Plot { file: "latency", title: "99 of 100 are answered within", unit: "ms", value: |it| it.median.p99_ms },
    Plot { file: "cpu", title: "Processor time per event", unit: "µs", value: |it| it.median.cpu_us_per_call },
];

fn text(suite: &Suite) -> Result<String, std::fmt::Error> {
    let Machine { cpu, cores, kernel } = Machine::read();
    let mut page = format!("# Benchmarks\n\n{METHOD}- Machine: {cores} cores of {cpu}, Linux {kernel}.\n\n");
    writeln!(page, "## Under the load of clients\n")?;
    for Plot { file, title, .. } in PLOTS {
        writeln!(page, "![{title}](benchmarks/{file}.svg)\n")?;
    }
    let names = QUANTITIES.map(|(name, _)| name.replace('_', " "));
    writeln!(page, "| workload | of | {} |", names.join(" | "))?;
    writeln!(page, "|---|---|{}", "---:|".repeat(names.len()))?;
    for measured in &suite.workloads {
        write!(page, "| {} | {} |", measured.title(), measured.of)?;
        for (_, quantity) in QUANTITIES {
            let [median, low, high] =
                [measured.median, measured.low, measured.high].map(|mut figures| short(*quantity(&mut figures)));
            write!(page, " {median} ({low} … {high}) |")?;
        }
        writeln!(page)?;
    }
    writeln!(page, "\n## All else\n\n| figure | median | low | high | unit | goal |\n|---|---:|---:|---:|---|---|")?;
    for figure in &suite.figures {
        let [median, low, high] = [figure.median, figure.low, figure.high].map(short);
        let goal = figure.goal.as_deref().unwrap_or("");
        writeln!(page, "| {} | {median} | {low} | {high} | {} | {goal} |", figure.name, figure.unit)?;
    }
    Ok(page)
}
