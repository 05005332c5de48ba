//! Documents of agents, tools and tenants: listed, shown, checked, tried and changed.

mod described;
mod etag;
pub(crate) mod list;
pub(crate) mod show;
pub(crate) mod target;
pub(crate) mod tell;
pub(crate) mod trying;
mod turns;
pub(crate) mod write;

use axum::routing::{delete, get, post, put};

use self::described::{AGENT, Kind, TENANT, TOOL, TOOL_OF_TENANT};
pub(crate) use self::tell::Diagnostic;
pub(crate) use self::turns::Turns;
use crate::routes::Route;

/// The addresses of documents.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes = vec![
        TOOL.list("list_tools", get(list::tools)),
        TENANT.list("list_tenants", get(list::tenants)),
        TOOL_OF_TENANT.list("list_tenant_tools", get(list::tools_of)),
        TOOL.trial(post(trying::trial)),
        TOOL_OF_TENANT.trial(post(trying::trial)),
    ];
    for kind in [&AGENT, &TOOL, &TENANT, &TOOL_OF_TENANT] {
        routes.extend(of_kind(kind));
    }
    routes
}

fn of_kind(kind: &Kind) -> [Route; 6] {
    [
        kind.show(get(show::show)),
        kind.put(put(write::put)),
        kind.delete(delete(write::delete)),
        kind.versions(get(show::versions)),
        kind.version(get(show::version)),
        kind.check(post(write::check)),
    ]
}
