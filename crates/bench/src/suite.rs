//! Everything in one run: what Mundi is for, measured, beside the raw limit and a peer.

use crate::{
    Again, Common, Format,
    page::write_page,
    report::{Figure, Report},
    runtime,
    serving::{self, Measured},
};
use serde::Serialize;
use std::{error::Error, path::PathBuf};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SuiteSettings {
    #[command(flatten)]
    common: Common,
    /// The folder of a peer, such as `bench/peers/restate`: it gets the same load, in turns.
    #[arg(long)]
    peer: Option<PathBuf>,
    /// Writes the page `benchmarks.md` and its plots into this folder.
    #[arg(long)]
    page: Option<PathBuf>,
    /// Smaller states and fewer worlds: a few minutes less.
    #[arg(long)]
    quick: bool,
}

/// The results of one run of everything.
#[derive(Debug, Serialize)]
pub(crate) struct Suite {
    /// Under the load of clients.
    pub(crate) workloads: Vec<Measured>,
    pub(crate) figures: Vec<Figure>,
}

impl SuiteSettings {
    pub(crate) fn run(&self, again: Again<'_>) -> Result<(), Box<dyn Error>> {
        let Self { common, peer, page, quick } = self;
        let scale = |full: usize| if *quick { full / 10 } else { full };
        let workloads = serving::measure_all(common, peer.as_deref(), again)?;
        let mut report = Report::new();
        serving::cold(&mut report, common, 1_000, peer.as_deref(), again)?;
        runtime::embedded(&mut report, common)?;
        serving::timers(&mut report, common, scale(100_000), again)?;
        runtime::forks(&mut report, common, &[1, scale(1_000) as u64])?;
        serving::replay(&mut report, common, scale(100_000), again)?;
        serving::idle(&mut report, common, scale(100_000), again)?;
        serving::kill(&mut report, common, 10_000, again)?;
        serving::targets(&mut report, common, again)?;
        serving::tenants(&mut report, common, again)?;
        serving::loops(&mut report, common, again)?;
        runtime::renewals(&mut report, common)?;
        let suite = Suite { workloads, figures: report.into_figures() };
        if let Some(folder) = page {
            write_page(&suite, folder)?;
        }
        suite.print(common.format)
    }
}

impl Suite {
    #[expect(clippy::print_stdout, reason = "the figures are what the command is for")]
    fn print(&self, format: Format) -> Result<(), Box<dyn Error>> {
        if format == Format::Json {
            println!("{}", serde_json::to_string_pretty(self)?);
            return Ok(());
        }
        self.workloads.iter().for_each(|measured| println!("{measured}"));
        Report::of(&self.figures).print(format);
        Ok(())
    }
}
