//! Reading archives: ours, and hostile ones.
