//! Permissions in words, for people who decide about them.

use super::{Access, EnvGrant, ServerPermissions};

impl ServerPermissions {
    /// What a server may do, each in words that go on after "it may"; nothing is the empty list.
    pub fn in_words(&self) -> Vec<String> {
        let files = self.files.iter().map(|grant| {
            let may = match grant.access {
                Access::Read => "read",
                Access::Write => "read and write",
            };
            format!("{may} {} as {}", grant.host.display(), grant.guest)
        });
        let network = self.network.iter().map(|destination| {
            let headers: Vec<_> =
                self.secrets.iter().filter(|secret| secret.destination == *destination).collect();
            let headers: Vec<_> = headers.iter().map(|secret| format!("`{}`", secret.header)).collect();
            match headers.as_slice() {
                [] => format!("send requests to {destination}"),
                headers => format!(
                    "send requests to {destination}, to which the host adds a secret in {}",
                    headers.join(" and ")
                ),
            }
        });
        let env = self.env.iter().map(|(name, value)| match value {
            EnvGrant::Text(text) => format!("see the variable {name}, which is `{}`", text.escape_debug()),
            EnvGrant::Secret(_) => format!("hold the secret of the variable {name}"),
        });
        let clock = self.clock.then(|| "see the real time".to_owned());
        let random = self.random.then(|| "use real random numbers".to_owned());
        files.chain(network).chain(env).chain(clock).chain(random).collect()
    }
}
