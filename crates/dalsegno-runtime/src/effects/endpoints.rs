//! The clients of declarative tools: one for each tenant, under its rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use dalsegno_net::{Client, Egress, Origin, Transport};
use dalsegno_workspace::Workspace;

/// Clients under the rules of each tenant, kept for their connections, each with what it may reach: a tenant's file can change.
#[derive(Default)]
pub(crate) struct Endpoints {
    clients: Mutex<BTreeMap<String, (BTreeSet<String>, Client)>>,
    /// Who carries the requests, where it is not the network.
    transport: Option<Arc<dyn Transport>>,
}

impl Endpoints {
    pub(crate) fn over(transport: Option<Arc<dyn Transport>>) -> Self {
        Self { clients: Mutex::default(), transport }
    }

    /// The client of a tenant, under the rules that the workspace has. Of one without a file nobody may be reached.
    pub(crate) fn client(&self, workspace: &Workspace, tenant: &str) -> Client {
        let grants = workspace.tenants.get(tenant).map(|tenant| &tenant.egress);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(grants), Some((granted, client))) = (grants, clients.get(tenant))
            && granted == grants
        {
            return client.clone();
        }
        // They were checked when the workspace was read; one that is no origin grants nothing.
        let origins = grants.into_iter().flatten().filter_map(|grant| grant.parse::<Origin>().ok());
        let mut client = Client::new(Egress::new(origins));
        if let Some(transport) = &self.transport {
            client = client.carried_by(Arc::clone(transport));
        }
        if let Some(grants) = grants {
            clients.insert(tenant.to_owned(), (grants.clone(), client.clone()));
        }
        client
    }
}
