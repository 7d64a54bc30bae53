//! A checkpoint's tree by preorder position.

pub mod attr;
pub mod nodes;
pub mod preorder;
