//! Notifications: what people are told of sessions (`told`), how it is put (`text`), and the channels on which it is sent (`channel`).

pub mod channel;
pub mod text;
pub mod told;

pub use parhelia_host::config::notifications::Priority;
pub use parhelia_wire::notification::Notification;
