//! Builds the binary, and reads everything else that goes into the packages.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context as _, bail, ensure};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId};

use crate::archive::Entry;
use crate::elf::Needs;
use crate::process::{cargo, file, line, read, root};
use crate::product::{Machine, Product, Shell};
use crate::sbom::{Library, NOTICES, notices};

/// The documents that every package contains.
const DOCUMENTS: [&str; 5] = ["CHANGELOG.md", "LICENSE", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Where distributions keep the certificates of the authorities that HTTPS relies on, in the order of the search.
const CERTIFICATES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// Where programs look for them in an image.
const CERTIFICATES_INSIDE: &str = "etc/ssl/certs/ca-certificates.crt";

/// The workspace as Cargo sees it, for one kind of machine.
#[derive(Debug)]
pub struct Sources {
    metadata: Metadata,
    machine: &'static Machine,
    offline: bool,
}

impl Sources {
    /// Reads the workspace for the machine that the compiler runs on.
    ///
    /// # Errors
    /// There are no packages for this machine, or Cargo cannot read the workspace.
    pub fn read(offline: bool) -> anyhow::Result<Self> {
        let version = read(Command::new("rustc").arg("-vV").current_dir(root()))?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let machine = Machine::of(host.context("rustc does not say which machine it is for")?)?;
        let mut options = vec!["--locked", "--filter-platform", machine.triple];
        options.extend(offline.then_some("--offline"));
        let metadata = MetadataCommand::new()
            .manifest_path(root().join("Cargo.toml"))
            .other_options(options.into_iter().map(str::to_owned).collect::<Vec<_>>())
            .exec()
            .context("cannot read the workspace")?;
        Ok(Self { metadata, machine, offline })
    }

    /// Returns the folder that packages are written to unless another one is named.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.metadata.target_directory.as_std_path().join("packages")
    }

    /// Builds the binary with the profile `dist`, and returns where it is.
    ///
    /// # Errors
    /// The build failed.
    pub fn build(&self) -> anyhow::Result<PathBuf> {
        eprintln!("building dalsegno with the profile `dist` …");
        let mut command = cargo();
        command.args(["build", "--locked", "--profile", "dist", "--package", "dalsegno-cli"]);
        command.args(["--bin", "dalsegno"]).args(self.offline.then_some("--offline"));
        command.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", flags());
        let status = command.stdin(Stdio::null()).status().context("cannot start `cargo`")?;
        ensure!(status.success(), "`{}` failed with {status}", line(&command));
        Ok(self.metadata.target_directory.as_std_path().join("dist/dalsegno"))
    }

    /// Reads everything that goes into packages of this binary.
    ///
    /// # Errors
    /// The binary does not run here, or a file cannot be read.
    pub fn product(&self, binary: &Path, libraries: &[Library]) -> anyhow::Result<Product> {
        let bytes = file(binary)?;
        let needs = Needs::read(&bytes, self.machine.triple)
            .with_context(|| format!("cannot make packages of `{}`", binary.display()))?;
        let mut documents = BTreeMap::from([(NOTICES.to_owned(), notices(libraries).into_bytes())]);
        for name in DOCUMENTS {
            documents.insert(name.to_owned(), file(&root().join(name))?);
        }
        let command = self.command()?;
        Ok(Product {
            version: command.version.to_string(),
            machine: self.machine,
            seconds: seconds()?,
            manuals: manuals(binary)?,
            completions: completions(binary)?,
            documents,
            system: system(binary, &needs)?,
            maintainer: maintainer(),
            binary: bytes,
            needs,
        })
    }

    /// The package of the command line.
    fn command(&self) -> anyhow::Result<&Package> {
        let packages = self.metadata.workspace_packages();
        let found = packages.into_iter().find(|package| package.name.as_str() == "dalsegno-cli");
        found.context("the workspace has no `dalsegno-cli`")
    }

    /// Returns the libraries that are linked into the binary, sorted: no macros, and none that only a build or a test uses.
    ///
    /// # Errors
    /// Cargo cannot tell, or a file of a library cannot be read.
    pub fn libraries(&self) -> anyhow::Result<Vec<Library>> {
        let mut tree = cargo();
        tree.args(["tree", "--locked", "--package", "dalsegno-cli", "--edges", "normal,no-proc-macro"]);
        tree.args(["--target", self.machine.triple, "--prefix", "none", "--format", "{p}"]);
        tree.args(self.offline.then_some("--offline"));
        let linked = linked(&read(&mut tree)?)?;
        let checksums = checksums(&file(&root().join("Cargo.lock"))?)?;
        let of = |id: &PackageId| {
            let package = &self.metadata[id];
            (package.name.to_string(), package.version.to_string())
        };
        let resolve = self.metadata.resolve.as_ref().context("Cargo did not resolve the dependencies")?;
        let mut libraries = Vec::new();
        for node in &resolve.nodes {
            let key = of(&node.id);
            if !linked.contains(&key) {
                continue;
            }
            let normal = node.deps.iter().filter(|dependency| {
                dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
            });
            let dependencies =
                normal.map(|dependency| of(&dependency.pkg)).filter(|key| linked.contains(key));
            let mut dependencies: Vec<_> = dependencies.collect();
            dependencies.sort();
            let package = &self.metadata[&node.id];
            libraries.push(Library {
                licence: package.license.clone().unwrap_or_default().replace('/', " OR "),
                checksum: checksums.get(&key).cloned(),
                dependencies,
                contains: contains(package)?,
                texts: if package.source.is_some() { texts(package)? } else { BTreeMap::new() },
                name: key.0,
                version: key.1,
            });
        }
        ensure!(
            libraries.len() == linked.len(),
            "`cargo tree` names {} libraries, and `cargo metadata` knows {} of them",
            linked.len(),
            libraries.len()
        );
        libraries.sort();
        Ok(libraries)
    }
}

/// The flags of the compiler: those of the environment, and neutral names for the folders of this machine, so that another
/// checkout gives the same binary.
fn flags() -> OsString {
    let mut flags = match (env::var("CARGO_ENCODED_RUSTFLAGS"), env::var("RUSTFLAGS")) {
        (Ok(flags), _) if !flags.is_empty() => vec![flags],
        (_, Ok(flags)) => flags.split_whitespace().map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    flags.extend(
        folders().into_iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())),
    );
    flags.join("\u{1f}").into()
}

/// The folders of this machine that no binary should name, with the names that it has instead.
#[must_use]
pub fn folders() -> Vec<(PathBuf, &'static str)> {
    let mut folders = vec![(root(), "/dalsegno")];
    let home = env::var_os("HOME").map(PathBuf::from);
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(home?.join(".cargo")));
    folders.extend(cargo.map(|folder| (folder, "/cargo")));
    folders
}

/// The time that all entries get.
fn seconds() -> anyhow::Result<u64> {
    if let Ok(given) = env::var("SOURCE_DATE_EPOCH") {
        return given.trim().parse().with_context(|| {
            format!("SOURCE_DATE_EPOCH is `{given}`, and has to be a number of seconds since 1970")
        });
    }
    let mut git = Command::new("git");
    let time = read(git.args(["log", "-1", "--format=%ct"]).current_dir(root()));
    let time =
        time.context("packages get the time of the last commit: without one, set SOURCE_DATE_EPOCH")?;
    time.trim().parse().context("git printed no number of seconds")
}

/// The person that a Debian package names, from the variables that Debian's own tools read.
fn maintainer() -> String {
    let name = env::var("DEBFULLNAME").unwrap_or_else(|_| "The Dalsegno contributors".to_owned());
    let address = env::var("DEBEMAIL").unwrap_or_else(|_| "dalsegno@localhost".to_owned());
    format!("{name} <{address}>")
}

/// The manual pages, as the binary itself writes them.
fn manuals(binary: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let folder = tempfile::tempdir()?;
    read(Command::new(binary).arg("man").arg(folder.path())).context("the binary does not run here")?;
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(folder.path())? {
        let entry = entry?;
        pages.insert(entry.file_name().to_string_lossy().into_owned(), file(&entry.path())?);
    }
    Ok(pages)
}

/// The completion scripts, as the binary itself prints them.
fn completions(binary: &Path) -> anyhow::Result<BTreeMap<Shell, Vec<u8>>> {
    let script = |shell: Shell| {
        let text = read(Command::new(binary).args(["completions", shell.name()]))?;
        Ok((shell, text.into_bytes()))
    };
    Shell::ALL.into_iter().map(script).collect()
}

/// Files of this machine for an image: the dynamic loader and the libraries, at the paths where that loader finds them,
/// the licences of both where a distribution keeps them, and certificates.
fn system(binary: &Path, needs: &Needs) -> anyhow::Result<Vec<Entry>> {
    let list = read(Command::new(&needs.loader).arg("--list").arg(binary))?;
    let mut entries = Vec::new();
    for path in resolved(&list, &needs.libraries)?.into_iter().chain([needs.loader.clone()]) {
        let path = path.trim_start_matches('/').to_owned();
        entries.push(Entry::program(&path, file(&Path::new("/").join(&path))?));
    }
    match CERTIFICATES.iter().find(|path| Path::new(path).is_file()) {
        Some(path) => entries.push(Entry::file(CERTIFICATES_INSIDE, file(Path::new(path))?)),
        None => eprintln!(
            "warning: this machine has no certificates, so the image has none, and HTTPS fails in it: install `ca-certificates`"
        ),
    }
    for package in ["ca-certificates", "libc6", "libgcc-s1"] {
        // A link in some releases of Debian; what it leads to is read.
        let path = format!("usr/share/doc/{package}/copyright");
        if let Ok(text) = fs::read(Path::new("/").join(&path)) {
            entries.push(Entry::file(path, text));
        }
    }
    Ok(entries)
}

/// Reads what the loader printed about an executable: the path of each library, without the loader's own.
fn resolved(list: &str, libraries: &[String]) -> anyhow::Result<Vec<String>> {
    let mut paths = Vec::new();
    for library in libraries.iter().filter(|name| !name.starts_with("ld-linux")) {
        let found = list.lines().find_map(|line| {
            let (name, rest) = line.trim().split_once(" => ")?;
            (name == library).then(|| rest.split(" (").next().unwrap_or(rest).to_owned())
        });
        match found {
            Some(path) if path.starts_with('/') => paths.push(path),
            _ => bail!("this machine has no `{library}`, which the binary needs"),
        }
    }
    Ok(paths)
}

/// Reads the lines of `cargo tree`: a name, a version, and perhaps more.
fn linked(tree: &str) -> anyhow::Result<BTreeSet<(String, String)>> {
    let lines = tree.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let (name, version) = (words.next(), words.next().and_then(|word| word.strip_prefix('v')));
            let (Some(name), Some(version)) = (name, version) else {
                bail!("`cargo tree` printed `{line}`, which is no package");
            };
            Ok((name.to_owned(), version.to_owned()))
        })
        .collect()
}

/// Reads the checksums of a lock file.
fn checksums(lock: &[u8]) -> anyhow::Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = std::str::from_utf8(lock)?.parse().context("cannot read `Cargo.lock`")?;
    let packages =
        lock.get("package").and_then(toml::Value::as_array).context("`Cargo.lock` has no packages")?;
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    let checksum = |package: &toml::Value| {
        let key = (text(package, "name")?, text(package, "version")?);
        Some((key, text(package, "checksum")?))
    };
    Ok(packages.iter().filter_map(checksum).collect())
}

/// The licence files of a package.
fn texts(package: &Package) -> anyhow::Result<BTreeMap<String, String>> {
    let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read `{folder}`"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_licence = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"]
            .iter()
            .any(|word| name.to_ascii_uppercase().starts_with(word));
        if is_licence && entry.file_type()?.is_file() {
            texts.insert(name, String::from_utf8_lossy(&file(&entry.path())?).into_owned());
        }
    }
    Ok(texts)
}

/// The C library that a package contains, with its version.
fn contains(package: &Package) -> anyhow::Result<Option<(String, String)>> {
    let name = match package.name.as_str() {
        "libsqlite3-sys" => "sqlite",
        // The version is behind the plus, as `2.0.16+zstd.1.5.7`.
        "zstd-sys" => {
            let version = package.version.build.as_str().trim_start_matches("zstd.").to_owned();
            return Ok(Some(("zstd".to_owned(), version)));
        }
        _ => return Ok(None),
    };
    let header = package.manifest_path.with_file_name("sqlite3").join("sqlite3.h");
    let header = file(header.as_std_path())?;
    let header = String::from_utf8_lossy(&header);
    let version = header.lines().find_map(|line| line.strip_prefix("#define SQLITE_VERSION ")).map(str::trim);
    let version = version.context("the header of SQLite has no version")?.trim_matches('"').to_owned();
    Ok(Some((name.to_owned(), version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_where_the_loader_found_it() {
        let list = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\tlibm.so.6 => not found\n";
        let named = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let found = resolved(list, &named(&["ld-linux-x86-64.so.2", "libc.so.6"])).unwrap();
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libc.so.6"]);
        assert!(resolved(list, &named(&["libm.so.6"])).unwrap_err().to_string().contains("`libm.so.6`"));
        assert!(resolved(list, &named(&["librt.so.1"])).is_err());
    }

    #[test]
    fn a_tree_is_names_and_versions() {
        let tree = "dalsegno-cli v0.1.0 (/somewhere)\nzstd-sys v2.0.16+zstd.1.5.7\nserde v1.0.2 (*)\n";
        let expected = [("dalsegno-cli", "0.1.0"), ("serde", "1.0.2"), ("zstd-sys", "2.0.16+zstd.1.5.7")];
        let found = linked(tree).unwrap();
        assert!(found.iter().map(|(name, version)| (name.as_str(), version.as_str())).eq(expected));
        assert!(linked("[dev-dependencies]\n").is_err());
    }

    #[test]
    fn checksums_are_those_of_the_registry() {
        let lock = "[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n\n\
            [[package]]\nname = \"serde\"\nversion = \"1.0.2\"\nchecksum = \"ab\"\n";
        let key = ("serde".to_owned(), "1.0.2".to_owned());
        assert_eq!(checksums(lock.as_bytes()).unwrap(), BTreeMap::from([(key, "ab".to_owned())]));
    }
}
