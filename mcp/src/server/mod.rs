//! The server for the agent itself: tools to make checkpoints of its session and to look at them, and manifests as resources. Nothing here
//! removes or overwrites anything.

mod asked;
mod reach;
mod shown;
mod work;

use std::sync::Arc;

use parhelia_host::Host;
use rmcp::{
    ErrorData, Json, RoleServer, ServerHandler, ServiceExt,
    handler::server::{router::tool::ToolRouter, wrapper::Parameters},
    model::{
        Implementation, ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams, ReadResourceRequestParams,
        ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
    tool, tool_handler, tool_router,
    transport::stdio,
};

use serde_json::Value;

use asked::{Create, Diff, List, Read, Recall, Save, Search, Show};
use shown::{CreateResult, Differences, ListResult, RecallResult, SaveResult, SearchResult};
pub use work::Opener;
use work::Work;

/// The beginning of the addresses of manifests; behind it stand the id and `/manifest`.
const CHECKPOINTS: &str = "parhelia://checkpoints/";
const MANIFEST: &str = "/manifest";
/// So many checkpoints are listed as resources, the newest ones.
const RESOURCES_MAX: usize = 50;

/// The words for the agent about all of it.
const INSTRUCTIONS: &str = "Checkpoints of this session: its files, conversation and surroundings as they were. Make one before a risky change. \
     A checkpoint is named by its id, a part of it, `latest`, `latest~1`, or `tag:NAME`. Restoring is for the person, by `parhelia checkpoint rollback`.";

#[derive(Clone)]
struct Server {
    work: Arc<Work>,
    tool_router: ToolRouter<Self>,
}

/// Serves over the standard streams until the agent has ended.
pub fn serve(opener: Opener, host: Box<dyn Host + Send + Sync>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let server = Server { work: Arc::new(Work::new(opener, host)), tool_router: without_formats(Server::tool_router()) };
    let ended = runtime.block_on(async {
        let running = server.serve(stdio()).await.map_err(std::io::Error::other)?;
        running.waiting().await.map_err(std::io::Error::other)
    });
    // A read of standard input may wait for ever.
    runtime.shutdown_background();
    ended.map(|_| ())
}

/// The tools with schemas that have no formats of Rust's numbers, such as `uint64`: agents warn of each that they do not know.
fn without_formats(mut tools: ToolRouter<Server>) -> ToolRouter<Server> {
    for route in tools.map.values_mut() {
        let tool = &mut route.attr;
        without_format(std::sync::Arc::make_mut(&mut tool.input_schema));
        if let Some(output) = &mut tool.output_schema {
            without_format(std::sync::Arc::make_mut(output));
        }
    }
    tools
}

fn without_format(schema: &mut serde_json::Map<String, Value>) {
    let is_of_rust =
        |format: &Value| format.as_str().is_some_and(|format| format.starts_with("uint") || format.starts_with("int"));
    if schema.get("format").is_some_and(is_of_rust) {
        schema.remove("format");
    }
    for value in schema.values_mut() {
        let objects: Vec<&mut serde_json::Map<String, Value>> = match value {
            Value::Object(object) => vec![object],
            Value::Array(values) => values.iter_mut().filter_map(Value::as_object_mut).collect(),
            _ => Vec::new(),
        };
        objects.into_iter().for_each(without_format);
    }
}

impl Server {
    /// Does something that takes a while, on a thread for that.
    async fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Work) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let shared = self.work.clone();
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        done.unwrap_or_else(|_| Err("the work ended before it was done".into()))
    }
}

#[tool_router]
impl Server {
    #[tool(
        description = "Make a checkpoint of this session now: workspace, conversation, environment, MCP servers.",
        annotations(destructive_hint = false, read_only_hint = false, open_world_hint = false)
    )]
    async fn create_checkpoint(&self, Parameters(asked): Parameters<Create>) -> Result<Json<CreateResult>, String> {
        self.on_thread(move |work| work.create(&asked)).await.map(Json)
    }

    #[tool(description = "List checkpoints of this session, newest first.", annotations(read_only_hint = true))]
    async fn list_checkpoints(&self, Parameters(asked): Parameters<List>) -> Result<Json<ListResult>, String> {
        self.on_thread(move |work| work.list(&asked)).await.map(Json)
    }

    #[tool(description = "The manifest of a checkpoint, as JSON.", annotations(read_only_hint = true))]
    async fn show_checkpoint(&self, Parameters(asked): Parameters<Show>) -> Result<String, String> {
        self.on_thread(move |work| work.manifest(&asked.checkpoint)).await
    }

    #[tool(
        description = "What differs between two checkpoints; with a path, the differing lines of that file.",
        annotations(read_only_hint = true)
    )]
    async fn diff_checkpoints(&self, Parameters(asked): Parameters<Diff>) -> Result<Json<Differences>, String> {
        self.on_thread(move |work| work.diff(&asked)).await.map(Json)
    }

    #[tool(
        description = "Search conversations, decisions and messages of all checkpoints by words.",
        annotations(read_only_hint = true)
    )]
    async fn search_checkpoints(&self, Parameters(asked): Parameters<Search>) -> Result<Json<SearchResult>, String> {
        self.on_thread(move |work| work.search(&asked)).await.map(Json)
    }

    #[tool(
        description = "A text file as it is in a checkpoint; of a folder, the names in it.",
        annotations(read_only_hint = true)
    )]
    async fn read_file(&self, Parameters(asked): Parameters<Read>) -> Result<String, String> {
        self.on_thread(move |work| work.read(&asked)).await
    }

    #[tool(description = "What earlier sessions have learned of this project, by words.", annotations(read_only_hint = true))]
    async fn recall_memory(&self, Parameters(asked): Parameters<Recall>) -> Result<Json<RecallResult>, String> {
        self.on_thread(move |work| work.recall(&asked)).await.map(Json)
    }

    #[tool(
        description = "Have later sessions of this project know something: a convention, how it is built, what goes wrong. Nothing is replaced.",
        annotations(destructive_hint = false, read_only_hint = false, open_world_hint = false)
    )]
    async fn save_memory(&self, Parameters(asked): Parameters<Save>) -> Result<Json<SaveResult>, String> {
        self.on_thread(move |work| work.save(asked)).await.map(Json)
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_resources().build())
            .with_server_info(Implementation::new("parhelia", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let asked = List { session: None, limit: Some(RESOURCES_MAX) };
        let listed = self.on_thread(move |work| work.list(&asked)).await.map_err(failed)?;
        let resource = |(id, name): (String, String)| {
            Resource::new(format!("{CHECKPOINTS}{id}{MANIFEST}"), name).with_mime_type("application/json")
        };
        Ok(ListResourcesResult::with_all_items(listed.names().map(resource).collect()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new(format!("{CHECKPOINTS}{{checkpoint}}{MANIFEST}"), "manifest of a checkpoint");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template.with_mime_type("application/json")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.clone();
        let named = uri.strip_prefix(CHECKPOINTS).and_then(|rest| rest.strip_suffix(MANIFEST)).map(str::to_owned);
        let unknown = || ErrorData::resource_not_found(format!("there is no resource {uri}"), None);
        let checkpoint = named.filter(|name| !name.is_empty()).ok_or_else(unknown)?;
        let text = self.on_thread(move |work| work.manifest(&checkpoint)).await.map_err(failed)?;
        let contents = ResourceContents::text(text, uri.as_str()).with_mime_type("application/json");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

fn failed(why: String) -> ErrorData {
    ErrorData::internal_error(why, None)
}
