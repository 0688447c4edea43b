//! `mundi evidence`: the events of children as lines of canonical JSON, written to a file and verified there.

use super::{
    client::Paging,
    exit::{Failed, Outcome},
    output::Out,
    world::World,
};
use clap::{Args, Subcommand};
use mundi_model::{
    Code,
    child::evidence::{verify, whole_bytes},
};
use serde_json::{Value, json};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

#[derive(Subcommand)]
pub(super) enum EvidenceCommand {
    /// Appends the events of a world's children to a file; a torn last line is cut first.
    Export(Export),
    /// Verifies a file of events; only reads.
    Verify {
        /// As `mundi evidence export` wrote it.
        file: PathBuf,
    },
}

#[derive(Args)]
pub(super) struct Export {
    #[command(flatten)]
    of: World,
    /// Where to: it is made if it is not there.
    #[arg(long)]
    file: PathBuf,
}

impl EvidenceCommand {
    pub(super) async fn run(self, out: Out) -> Outcome {
        match self {
            Self::Export(export) => export.run(out).await,
            Self::Verify { file } => {
                let bytes = read(&file)?;
                let found = verify(&bytes).map_err(|invalid| Failed::coded(&invalid))?;
                let streams = found.streams.len();
                out.object(&json!({
                    "events": found.events, "children": streams, "ended": found.ended, "torn_bytes": found.torn_bytes,
                }))
            }
        }
    }
}

impl Export {
    async fn run(self, out: Out) -> Outcome {
        let before = match read(&self.file) {
            Ok(bytes) => bytes,
            Err(_) if !self.file.exists() => Vec::new(),
            Err(failed) => return Err(failed),
        };
        let known = verify(&before).map_err(|invalid| Failed::coded(&invalid))?;
        let (children, _) = self.of.pages("/children", &Paging::all()).await?;
        let mut lines = String::new();
        for child in children.iter().filter_map(|child| child["child_id"].as_str()) {
            let from = known.streams.get(&format!("child:{child}")).copied().unwrap_or(0);
            let rest = format!("/children/{child}/events?from={from}");
            lines += &self.of.text(&rest, "application/x-ndjson").await?;
        }
        let kept = whole_bytes(&before);
        write(&self.file, kept, &lines)
            .map_err(|error| Failed::new(Code::of_folder(error.kind()), error.to_string()))?;
        let cut = before.len() - kept;
        if cut > 0 {
            eprintln!("cut {cut} bytes of a torn last line");
        }
        let events = lines.lines().count();
        out.object(&json!({ "file": self.file, "appended": events, "cut_bytes": cut, "children": Value::from(children.len()) }))
    }
}

fn read(file: &Path) -> Outcome<Vec<u8>> {
    fs::read(file).map_err(|error| Failed::new(Code::of_folder(error.kind()), format!("{}: {error}", file.display())))
}

/// Cuts what is torn, appends, and syncs.
fn write(path: &Path, kept: usize, lines: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).write(true).truncate(false).open(path)?;
    file.set_len(kept as u64)?;
    io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
    file.write_all(lines.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_last_line_is_cut_before_lines_are_appended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("evidence.ndjson");
        write(&path, 0, "one\ntwo\n").unwrap();
        fs::write(&path, [&fs::read(&path).unwrap()[..], b"thr"].concat()).unwrap();
        let torn = fs::read(&path).unwrap();
        write(&path, whole_bytes(&torn), "three\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n");
    }
}
