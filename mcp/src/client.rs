//! A client of servers over HTTP: whoever may connect may ask them.

use std::{collections::HashMap, future::Future, time::Duration};

use parhelia_agent::mcp::Remote;
use parhelia_host::mcp::{Client, State, StateReply};
use parhelia_life::mcp::live::{RESOURCE, TOOL};
use rmcp::{
    RoleClient, ServiceExt,
    model::{CallToolRequestParams, ErrorCode, ReadResourceRequestParams},
    service::{RunningService, ServiceError},
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use serde_json::json;

use crate::state;

/// The client.
#[derive(Clone, Copy, Debug)]
pub struct Http;

type Connection = RunningService<RoleClient, ()>;

impl Client for Http {
    fn state(&self, server: &Remote, limit: Duration, bytes_max: u64) -> StateReply {
        let asked = within(limit, async {
            let connection = connect(server).await?;
            let read = connection.read_resource(ReadResourceRequestParams::new(RESOURCE)).await;
            let _ = connection.cancel().await;
            match read {
                Ok(result) => state::of(&json!(result), bytes_max),
                Err(ServiceError::McpError(e)) if is_unknown(e.code) || state::is_unknown(&e.message) => {
                    Ok(StateReply::Stateless { why: state::NONE.into() })
                }
                Err(e) => Err(said(&e)),
            }
        });
        asked.unwrap_or_else(|why| StateReply::Failed { why })
    }

    fn give_back(&self, server: &Remote, given: &State, limit: Duration) -> Result<(), String> {
        within(limit, async {
            let connection = connect(server).await?;
            let tools = connection.list_all_tools().await.map_err(|e| said(&e))?;
            let tool = tools.iter().find(|tool| tool.name == TOOL).ok_or_else(|| format!("it has no tool {TOOL}"))?;
            let arguments = state::arguments(&json!(tool), given);
            let arguments = arguments.as_object().cloned().unwrap_or_default();
            let called = connection.call_tool(CallToolRequestParams::new(TOOL).with_arguments(arguments)).await;
            let _ = connection.cancel().await;
            state::refused(&json!(called.map_err(|e| said(&e))?)).map_or(Ok(()), Err)
        })
    }
}

fn is_unknown(code: ErrorCode) -> bool {
    state::UNKNOWN.contains(&i64::from(code.0))
}

async fn connect(server: &Remote) -> Result<Connection, String> {
    let mut headers = HashMap::new();
    for (name, value) in &server.headers {
        let name = name.parse().map_err(|_| format!("its header {name} is none"))?;
        // A value may be a credential.
        let value = value.parse().map_err(|_| format!("the value of its header {name} is none"))?;
        headers.insert(name, value);
    }
    // One provider for the process; another one that is there already does as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = StreamableHttpClientTransportConfig::with_uri(server.url.as_str()).custom_headers(headers);
    ().serve(StreamableHttpClientTransport::from_config(config))
        .await
        .map_err(|e| format!("it cannot be connected to: {}", said(&e)))
}

/// The words of an error, without addresses: the library repeats the whole URL, in which there may be a credential.
fn said(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let words = text.split_whitespace().map(|word| if word.contains("://") { "(its address)" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Does something on a runtime of its own, at most for so long.
fn within<T>(limit: Duration, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let done = runtime.block_on(async { tokio::time::timeout(limit, work).await });
    runtime.shutdown_background();
    done.unwrap_or_else(|_| Err(format!("no answer within {:.1} s", limit.as_secs_f64())))
}
