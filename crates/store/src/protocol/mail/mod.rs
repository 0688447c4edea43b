//! The mailboxes of workers.

pub(in crate::protocol) mod claim_mail;
pub(in crate::protocol) mod deliver_mail;
pub(in crate::protocol) mod finish_mail;
pub(in crate::protocol) mod send_mail;

pub use claim_mail::{ClaimMail, ClaimedMail, MailClaimed};
pub use deliver_mail::deliver_mail;
pub use finish_mail::{Finish, FinishMail, MailFinished, MailName};
pub use send_mail::{NewMail, SendMail};
