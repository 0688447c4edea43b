//! Streamed upload of files.

use super::{
    exit::{Failed, Outcome},
    progress::Progress,
};
use mundi_model::Code;
use reqwest::Body;
use std::{fs::File, io::Read, path::Path};

/// The size of one read of a file.
const PIECE_BYTES: usize = 256 * 1024;

/// A file as the streamed body of a request, with its progress.
pub(super) fn body_of(path: &Path) -> Outcome<(Body, Progress)> {
    let unreadable = |error| Failed::new(Code::FolderInvalid, format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(unreadable)?;
    let read = Progress::of(file.metadata().map_err(unreadable)?.len());
    let progress = read.clone();
    let pieces = futures_util::stream::unfold(file, move |mut file| {
        let progress = progress.clone();
        async move {
            let mut piece = vec![0; PIECE_BYTES];
            match file.read(&mut piece) {
                Ok(0) => None,
                Ok(read) => {
                    piece.truncate(read);
                    progress.add(read as u64);
                    Some((Ok(piece), file))
                }
                Err(error) => Some((Err(error), file)),
            }
        }
    });
    Ok((Body::wrap_stream(pieces), read))
}
