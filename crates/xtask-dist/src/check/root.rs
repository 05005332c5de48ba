//! Root file systems of their own, and commands in them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use super::place::Place;
use super::write;
use crate::process::{find, output, read, said};
use crate::product::Product;

/// A root file system of its own, in which commands can be started.
pub(super) struct Root {
    pub(super) folder: PathBuf,
    unshare: PathBuf,
    chroot: PathBuf,
    is_super_user: bool,
}

impl Root {
    /// Makes a root with a folder `proc` and nothing else, or says why no command could be started in it.
    pub(super) fn new(folder: PathBuf) -> anyhow::Result<Result<Self, String>> {
        let (Some(unshare), Some(chroot)) = (find("unshare"), find("chroot")) else {
            return Ok(Err(
                "`unshare` or `chroot` is missing: install `util-linux` and `coreutils`".to_owned()
            ));
        };
        fs::create_dir_all(folder.join("proc"))
            .with_context(|| format!("cannot make `{}`", folder.display()))?;
        let root = Self { folder, unshare, chroot, is_super_user: is_super_user()? };
        let probe = output(root.namespaces().arg("true"))?;
        if !probe.status.success() {
            let said = said(&probe);
            return Ok(Err(format!("this system gives you no namespaces ({said}): run the check as root")));
        }
        Ok(Ok(root))
    }

    /// A command whose arguments are a command for namespaces of its own, with a `/proc` in this root.
    fn namespaces(&self) -> Command {
        let mut command = Command::new(&self.unshare);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        if !self.is_super_user {
            command.arg("--map-root-user");
        }
        command.args(["--mount", "--pid", "--fork"]);
        command.arg(format!("--mount-proc={}", self.folder.join("proc").display()));
        command
    }

    /// Returns a command in the root, for the user with this number if this process may choose. Its arguments are a
    /// program and the arguments of that.
    pub(super) fn command(&self, user: u32) -> Command {
        let mut command = self.namespaces();
        command.arg(&self.chroot);
        if self.is_super_user {
            command.arg(format!("--userspec={user}:{user}"));
        }
        command.arg(&self.folder);
        command
    }

    /// The place of a `dalsegno` in this root. `workspace` and `home` are folders in it.
    pub(super) fn place<'p>(
        &'p self,
        program: &'p str,
        workspace: &str,
        home: &'p str,
        user: u32,
    ) -> Place<'p> {
        Place {
            command: Box::new(move || {
                let mut command = self.command(user);
                command.arg(program).env("HOME", home);
                command
            }),
            workspace: workspace.to_owned(),
            baseline: Some(Box::new(|| {
                let mut command = self.namespaces();
                command.arg("true");
                command
            })),
        }
    }

    /// Adds the base libraries of this machine.
    pub(super) fn add_libraries(&self, product: &Product) -> anyhow::Result<()> {
        for entry in &product.system {
            let path = self.folder.join(&entry.path);
            write(&path, entry.bytes())?;
            fs::set_permissions(&path, fs::Permissions::from_mode(entry.mode))?;
        }
        for folder in ["root", "tmp"] {
            fs::create_dir_all(self.folder.join(folder))?;
        }
        Ok(())
    }
}

/// Says whether this process runs as root.
pub(super) fn is_super_user() -> anyhow::Result<bool> {
    Ok(read(Command::new("id").arg("-u"))?.trim() == "0")
}
