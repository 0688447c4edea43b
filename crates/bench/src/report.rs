//! Figures, gathered and printed: a median of several runs, with its spread.

use crate::{Common, Format, machine::Machine};
use serde::Serialize;
use std::{error::Error, path::Path};

/// One measured quantity.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The goal, where something is promised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goal: Option<String>,
}

/// The figures of one run, each with its name and its unit.
pub(crate) type Once = Vec<(String, &'static str, f64)>;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    machine: Machine,
    figures: Vec<Figure>,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self { machine: Machine::read(), figures: Vec::new() }
    }

    pub(crate) fn of(figures: &[Figure]) -> Self {
        Self { machine: Machine::read(), figures: figures.to_vec() }
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.figures.extend(other.figures);
    }

    pub(crate) fn into_figures(self) -> Vec<Figure> {
        self.figures
    }

    /// Measures as often as is asked for, each time on a new folder, and adds the figures.
    pub(crate) fn repeat(
        &mut self,
        common: &Common,
        what: &str,
        once: impl Fn(&Path) -> Result<Once, Box<dyn Error>>,
    ) -> Result<&mut [Figure], Box<dyn Error>> {
        let (first, mut runs) = (self.figures.len(), Vec::new());
        for run in 1..=common.runs {
            self.progress(&format!("{what}, run {run} of {}", common.runs));
            let folder = tempfile::Builder::new().prefix(".mundi-bench-").tempdir_in(&common.dir)?;
            runs.push(once(folder.path())?);
        }
        for (index, (name, unit, _)) in runs.first().into_iter().flatten().enumerate() {
            self.add(name, unit, runs.iter().filter_map(|run| Some(run.get(index)?.2)).collect());
        }
        Ok(&mut self.figures[first..])
    }

    /// Says what is being measured, on standard error.
    pub(crate) fn progress(&self, what: &str) {
        eprintln!("measuring {what} …");
    }

    pub(crate) fn add(&mut self, name: impl Into<String>, unit: &'static str, mut values: Vec<f64>) -> &mut Figure {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let figure = Figure {
            name: name.into(),
            unit,
            median: at(values.len() / 2),
            low: at(0),
            high: at(values.len().saturating_sub(1)),
            goal: None,
        };
        self.figures.push(figure);
        let last = self.figures.len() - 1;
        &mut self.figures[last]
    }

    #[expect(clippy::print_stdout, reason = "the figures are what the command is for")]
    pub(crate) fn print(&self, format: Format) {
        if format == Format::Json {
            println!("{}", serde_json::to_string_pretty(self).unwrap_or_default());
            return;
        }
        println!("{:?}", self.machine);
        println!("{:<52} {:>12} {:>26}  {:<10} goal", "figure", "median", "(low … high)", "unit");
        for figure in &self.figures {
            let spread = format!("({} … {})", short(figure.low), short(figure.high));
            let goal = figure.goal.as_deref().unwrap_or("");
            println!("{:<52} {:>12} {:>26}  {:<10} {goal}", figure.name, short(figure.median), spread, figure.unit);
        }
    }
}

pub(crate) fn short(value: f64) -> String {
    if value.abs() >= 1_000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}
