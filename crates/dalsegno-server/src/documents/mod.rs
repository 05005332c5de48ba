//! Documents of agents, tools and tenants: listed, shown, checked, tried and changed.

mod etag;
mod list;
mod show;
mod target;
mod tell;
mod trying;
mod turns;
mod write;

use std::sync::Arc;

use axum::routing::{MethodRouter, delete, get, post, put};
use dalsegno_access::Scope;

pub(crate) use self::turns::Turns;
use crate::shared::Shared;

type Route = (&'static str, &'static str, Option<Scope>, MethodRouter<Arc<Shared>>);

/// The addresses of documents.
pub(crate) fn table() -> Vec<Route> {
    let (reads, writes) = (Some(Scope::ToolsRead), Some(Scope::ToolsWrite));
    let mut table: Vec<Route> = vec![
        ("GET", "/v1/tools", reads, get(list::tools)),
        ("GET", "/v1/tenants", reads, get(list::tenants)),
        ("GET", "/v1/tenants/{tenant}/tools", reads, get(list::tools_of)),
        ("POST", "/v1/tools/{tool}/try", writes, post(trying::trial)),
        ("POST", "/v1/tenants/{tenant}/tools/{tool}/try", writes, post(trying::trial)),
    ];
    let agents = (Some(Scope::AgentsRead), Some(Scope::AgentsWrite));
    for ([path, versions, version, check], (reads, writes)) in [
        (
            [
                "/v1/agents/{agent}",
                "/v1/agents/{agent}/versions",
                "/v1/agents/{agent}/versions/{version}",
                "/v1/agents/{agent}/check",
            ],
            agents,
        ),
        (
            [
                "/v1/tools/{tool}",
                "/v1/tools/{tool}/versions",
                "/v1/tools/{tool}/versions/{version}",
                "/v1/tools/{tool}/check",
            ],
            (reads, writes),
        ),
        (
            [
                "/v1/tenants/{tenant}",
                "/v1/tenants/{tenant}/versions",
                "/v1/tenants/{tenant}/versions/{version}",
                "/v1/tenants/{tenant}/check",
            ],
            (reads, writes),
        ),
        (
            [
                "/v1/tenants/{tenant}/tools/{tool}",
                "/v1/tenants/{tenant}/tools/{tool}/versions",
                "/v1/tenants/{tenant}/tools/{tool}/versions/{version}",
                "/v1/tenants/{tenant}/tools/{tool}/check",
            ],
            (reads, writes),
        ),
    ] {
        table.extend([
            ("GET", path, reads, get(show::show)),
            ("PUT", path, writes, put(write::put)),
            ("DELETE", path, writes, delete(write::delete)),
            ("GET", versions, reads, get(show::versions)),
            ("GET", version, reads, get(show::version)),
            ("POST", check, writes, post(write::check)),
        ]);
    }
    table
}
