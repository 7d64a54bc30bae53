//! Environments.

use parhelia_agent::environment::diff;

use crate::show::mirror;

mirror! {
    /// A difference of two environments.
    pub struct EnvironmentChange of diff::EnvironmentChange {
        /// Part: claude_code, agent, plugins, mcp_servers, python, packages, variables.
        #[schemars(extend("enum" = ["claude_code", "agent", "plugins", "mcp_servers", "python", "packages", "variables"]))]
        pub section: String,
        /// A plugin, a server, a package, a variable; null if the part is one thing.
        pub name: Option<String>,
        /// Field that differs; null if the whole entry is new or gone, or has a single field.
        pub field: Option<String>,
        /// Value in the older environment; null where there was none.
        pub before: Option<String>,
        /// Value in the newer environment; null where there is none.
        pub after: Option<String>,
    }
}
