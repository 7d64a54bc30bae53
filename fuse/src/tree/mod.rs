//! A checkpoint's tree by preorder position.

pub mod attr;
mod hard_links;
pub mod nodes;
pub mod preorder;
#[cfg(test)]
mod tests;
