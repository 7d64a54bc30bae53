//! Values of the libraries as other programs see them.

use parhelia_store::name::NameExt as _;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use parhelia_store::{
    id::{BlobId, ObjectId, OpId, PackId, TreeId, Ulid},
    name,
};
use serde_json::{Map, Value, value::RawValue};

/// Bytes of a path as text.
pub fn shown(path: &[u8]) -> String {
    name::display(path)
}

/// A value that other programs see as a `T`.
pub(crate) trait Show<T> {
    /// The value for other programs.
    fn show(&self) -> T;
}

macro_rules! as_it_is {
    ($($type:ty),*) => {$(
        impl Show<$type> for $type {
            fn show(&self) -> $type {
                self.clone()
            }
        }
    )*};
}

macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl Show<String> for $type {
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

macro_rules! by_name {
    ($($type:ty),*) => {$(
        impl Show<String> for $type {
            fn show(&self) -> String {
                self.name().to_owned()
            }
        }
    )*};
}

/// Names that serde knows.
macro_rules! by_serde {
    ($($type:ty),*) => {$(
        impl Show<String> for $type {
            fn show(&self) -> String {
                match serde_json::to_value(self) {
                    Ok(Value::String(name)) => name,
                    _ => String::new(),
                }
            }
        }
    )*};
}

as_it_is!(bool, u8, u32, u64, i32, f64, String, Value, Map<String, Value>);
as_text!(str, &'static str, Ulid, PackId, OpId, ObjectId, TreeId, BlobId, Timestamp);
by_name!(
    parhelia_life::overview::attention::State,
    parhelia_life::overview::observed::AgentState,
    parhelia_ledger::ApprovalStatus,
    parhelia_ledger::Goal,
    parhelia_ledger::Status,
    parhelia_store::record::Trigger
);
by_serde!(
    parhelia_agent::transcript::messages::Role,
    parhelia_agent::trouble::Trouble,
    parhelia_life::retention::KeepReason,
    parhelia_life::retention::RemovalReason,
    parhelia_knowledge::summary::GeneratedBy,
    parhelia_store::check::FindingKind,
    parhelia_ledger::VerifyLevel,
    parhelia_ledger::By,
    parhelia_ledger::EndKind,
    parhelia_store::restore::RestoreChange
);

impl Show<Value> for Box<RawValue> {
    fn show(&self) -> Value {
        serde_json::from_str(self.get()).unwrap_or_default()
    }
}

impl Show<String> for Vec<u8> {
    fn show(&self) -> String {
        shown(self)
    }
}

impl Show<String> for Path {
    fn show(&self) -> String {
        self.shown()
    }
}

impl Show<String> for PathBuf {
    fn show(&self) -> String {
        self.as_path().show()
    }
}

impl Show<u64> for usize {
    fn show(&self) -> u64 {
        *self as u64
    }
}

impl<T: Show<U>, U> Show<Option<U>> for Option<T> {
    fn show(&self) -> Option<U> {
        self.as_ref().map(Show::show)
    }
}

impl<T: Show<U>, U> Show<Vec<U>> for [T] {
    fn show(&self) -> Vec<U> {
        self.iter().map(Show::show).collect()
    }
}

impl<T: Show<U>, U> Show<Vec<U>> for Vec<T> {
    fn show(&self) -> Vec<U> {
        self.as_slice().show()
    }
}

impl<T: Show<U>, U> Show<Vec<U>> for BTreeSet<T> {
    fn show(&self) -> Vec<U> {
        self.iter().map(Show::show).collect()
    }
}

impl<T: Show<U>, U> Show<BTreeMap<String, U>> for BTreeMap<String, T> {
    fn show(&self) -> BTreeMap<String, U> {
        self.iter().map(|(name, value)| (name.clone(), value.show())).collect()
    }
}

/// Declares a struct whose fields are those of a library's struct, by the same names, as other programs see them.
macro_rules! mirror {
    ($($(#[$about:meta])* pub struct $name:ident of $source:ty { $($(#[$field_about:meta])* pub $field:ident: $type:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize, ::schemars::JsonSchema)]
        pub struct $name {
            $($(#[$field_about])* pub $field: $type,)*
        }

        impl From<&$source> for $name {
            fn from(source: &$source) -> Self {
                $name { $($field: $crate::show::Show::show(&source.$field),)* }
            }
        }

        impl $crate::show::Show<$name> for $source {
            fn show(&self) -> $name {
                self.into()
            }
        }
    )*};
}

pub(crate) use mirror;
