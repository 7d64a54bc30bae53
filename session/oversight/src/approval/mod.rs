//! Approval by policies: a [policy](parhelia_host::policy) says which checkpoints count as good at once and which wait for a person, and one that was just made is
//! judged by what is known of it. What a person rejected concerns other checkpoints, too. Persons decide in a review.

pub mod automatic;
pub mod rejections;
