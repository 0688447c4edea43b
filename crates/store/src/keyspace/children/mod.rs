//! Children: their tokens, the order in which they are dispatched, their events, and what they may spend.

pub mod child_budget;
pub mod child_event;
pub mod child_of;
pub mod child_order;
pub mod child_request;
pub mod child_state;
pub mod child_token;
pub mod child_work;
