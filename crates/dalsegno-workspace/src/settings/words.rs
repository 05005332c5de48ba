//! Permissions in words, for people who decide about them.

use super::{Access, EnvValue, RemoteBinding, ServerBinding, ServerPermissions};

impl ServerBinding {
    /// What the server may do, each in words that go on after "it may". Only a module can be held to it.
    pub fn grants(&self) -> Vec<String> {
        match &self.remote {
            None => self.permissions.in_words(),
            Some(RemoteBinding::Command(_)) => {
                vec![
                    "do anything that the user of this process may do: it is a program without a sandbox"
                        .to_owned(),
                ]
            }
            Some(RemoteBinding::Endpoint(_)) => {
                vec!["do anything elsewhere with the data that it receives".to_owned()]
            }
        }
    }
}

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
            EnvValue::Text(text) => format!("see the variable {name}, which is `{}`", text.escape_debug()),
            EnvValue::Secret(_) => format!("hold the secret of the variable {name}"),
        });
        let clock = self.clock.then(|| "see the real time".to_owned());
        let random = self.random.then(|| "use real random numbers".to_owned());
        files.chain(network).chain(env).chain(clock).chain(random).collect()
    }
}
