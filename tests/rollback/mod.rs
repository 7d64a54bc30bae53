//! Rollback and undo, with and without git, and killed on the way.

mod beside;
mod done;
mod interrupted;
mod killed;
mod left;
mod places;
mod said;
mod shown;
mod work;
