//! The mailboxes of workers.

pub mod mail_attempt;
pub mod mail_dedupe;
pub mod mail_mark;
pub mod mailbox;
