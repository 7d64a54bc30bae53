//! Whole-system tests live beside this file; the library holds what they share.
