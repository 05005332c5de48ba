//! The checks of the archive, the wheel, the npm packages and the Debian package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde_json::json;

use super::place::{Place, bare};
use super::root::{Root, is_super_user};
use super::{CheckResult, write};
use crate::npm::platform_name;
use crate::process::{find, output, read, said};
use crate::product::Product;

/// Unpacks the archive below `/usr/local` of a root that has only the base libraries.
pub(super) fn tarball(product: &Product, folder: &Path, scratch: &Path) -> anyhow::Result<CheckResult> {
    let root = match Root::new(scratch.join("root"))? {
        Ok(root) => root,
        Err(why) => return Ok(CheckResult::Skipped(why)),
    };
    root.add_libraries(product)?;
    let local = root.folder.join("usr/local");
    fs::create_dir_all(&local)?;
    let file = folder.join(format!("dalsegno-{}-{}.tar.gz", product.version, product.machine.triple));
    read(Command::new("tar").args(["--strip-components=1", "-xzf"]).arg(&file).arg("-C").arg(&local))?;
    for path in ["share/man/man1/dalsegno.1", "share/zsh/site-functions/_dalsegno"] {
        ensure!(local.join(path).is_file(), "the archive has no `{path}`");
    }
    let place = root.place("/usr/local/bin/dalsegno", "/root", "/root", 0);
    Ok(CheckResult::Passed(place.journey(&product.version)?))
}

/// Installs the wheel in a new virtual environment without an index, and has pip refuse it for systems that it is not for.
pub(super) fn wheel(product: &Product, folder: &Path, scratch: &Path) -> anyhow::Result<CheckResult> {
    let Some(python) = find("python3") else {
        return Ok(CheckResult::Skipped("`python3` is missing: install Python 3.8 or later".to_owned()));
    };
    let venv = scratch.join("venv");
    let made = output(Command::new(python).args(["-m", "venv"]).arg(&venv))?;
    if !made.status.success() {
        let said = said(&made);
        return Ok(CheckResult::Skipped(format!(
            "this Python makes no virtual environment: install `python3-venv` ({said})"
        )));
    }
    let file = one(folder, ".whl")?;
    let pip = |arguments: &[&str]| {
        let mut command = bare(venv.join("bin/python"), scratch);
        command.args(["-m", "pip", "--disable-pip-version-check"]).args(arguments);
        command
    };
    let name = file.to_string_lossy().into_owned();
    read(&mut pip(&["install", "--no-index", &name]))?;
    let program = venv.join("bin/dalsegno");
    let place =
        Place { command: Box::new(|| bare(&program, scratch)), workspace: text(scratch)?, baseline: None };
    let mut lines = place.journey(&product.version)?;

    // What pip would do elsewhere: it answers for the system that it is asked about.
    let elsewhere = text(&scratch.join("elsewhere"))?;
    let arch = product.machine.wheel;
    let systems = [
        ("musl", format!("musllinux_1_2_{arch}"), "3.12"),
        ("glibc 2.17", format!("manylinux_2_17_{arch}"), "3.12"),
        ("Python 3.7", wheel_platform(&name)?, "3.7"),
    ];
    for (system, platform, version) in &systems {
        let mut download = pip(&["download", "--no-index", "--only-binary=:all:", "--dest", &elsewhere]);
        download.args(["--platform", platform, "--python-version", version, &name]);
        let refused = output(&mut download)?;
        let said = said(&refused);
        ensure!(!refused.status.success(), "pip takes the wheel for {system}, too:\n{said}");
        lines
            .push(format!("{system}: {}", said.lines().find(|line| line.contains("ERROR")).unwrap_or(&said)));
    }
    read(&mut pip(&["uninstall", "--yes", "dalsegno"]))?;
    ensure!(!program.exists(), "pip leaves `{}` behind", program.display());
    Ok(CheckResult::Passed(lines))
}

/// The platform in the name of a wheel.
fn wheel_platform(name: &str) -> anyhow::Result<String> {
    let platform = name.strip_suffix(".whl").and_then(|name| name.rsplit('-').next());
    platform.map(str::to_owned).with_context(|| format!("`{name}` names no platform"))
}

/// Installs the two packages in an empty project, without a network and without scripts; then the launcher alone, as on
/// a system that the other package is not for.
pub(super) fn npm(product: &Product, folder: &Path, scratch: &Path) -> anyhow::Result<CheckResult> {
    let (Some(node), Some(npm)) = (find("node"), find("npm")) else {
        return Ok(CheckResult::Skipped(
            "`node` or `npm` is missing: install Node.js 18 or later".to_owned(),
        ));
    };
    let nodes = node.parent().context("a program is in a folder")?;
    let path = format!("{}:/usr/bin:/bin", nodes.display());
    let launcher = text(&folder.join(format!("dalsegno-{}.tgz", product.version)))?;
    let platform = text(&folder.join(format!("{}-{}.tgz", platform_name(product), product.version)))?;
    let install = |project: &Path, arguments: &[&str]| {
        write(&project.join("package.json"), b"{\"private\":true}\n")?;
        let mut command = bare(&npm, project);
        command.env("PATH", &path);
        command.args(["install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts"]);
        read(command.args(arguments))
    };

    let project = scratch.join("project");
    install(&project, &[&platform, &launcher])?;
    let program = project.join("node_modules/.bin/dalsegno");
    let place = Place {
        command: Box::new(|| {
            let mut command = bare(&program, scratch);
            command.env("PATH", &path);
            command
        }),
        workspace: text(scratch)?,
        baseline: None,
    };
    let mut lines = place.journey(&product.version)?;

    // As a dependency, npm leaves the binary out on a system that it is not for.
    let elsewhere = scratch.join("elsewhere");
    let name = platform_name(product);
    let manifest =
        json!({ "private": true, "optionalDependencies": { name.as_str(): format!("file:{platform}") } });
    write(&elsewhere.join("package.json"), manifest.to_string().as_bytes())?;
    let mut install_there = bare(&npm, &elsewhere);
    install_there.env("PATH", &path).args(["install", "--offline", "--no-audit", "--no-fund"]);
    read(install_there.args(["--os=linux", "--libc=musl"]))?;
    ensure!(!elsewhere.join("node_modules").join(&name).exists(), "npm installs the binary for musl, too");
    lines.push(format!("musl: npm leaves `{name}` out"));

    let alone = scratch.join("alone");
    install(&alone, &["--omit=optional", &launcher])?;
    let script = alone.join("node_modules/.bin/dalsegno");
    lines.push(refusal_of_launcher(bare(&script, scratch).env("PATH", &path), "--include=optional")?);
    // The launcher in a process that reports another system than this one.
    let script = text(&project.join("node_modules/dalsegno/bin/dalsegno.js"))?;
    for (system, words) in [("{}", "a Linux with musl"), ("{ glibcVersionRuntime: '2.17' }", "has 2.17")] {
        let program =
            format!("process.report.getReport = () => ({{ header: {system} }}); require('{script}')");
        lines.push(refusal_of_launcher(bare(&node, scratch).args(["-e", &program]), words)?);
    }
    Ok(CheckResult::Passed(lines))
}

/// Runs the launcher where it must refuse with these words.
fn refusal_of_launcher(command: &mut Command, words: &str) -> anyhow::Result<String> {
    let refused = output(command)?;
    let said = said(&refused);
    ensure!(
        refused.status.code() == Some(1) && said.contains(words),
        "instead of `{words}` the launcher says:\n{said}"
    );
    Ok(format!("elsewhere: {said}"))
}

/// Installs the Debian package with `dpkg` in a new Debian, or, where that cannot be made, in a root with the base libraries
/// and an empty list of packages.
pub(super) fn debian(product: &Product, folder: &Path, scratch: &Path) -> anyhow::Result<CheckResult> {
    if find("dpkg").is_none() {
        return Ok(CheckResult::Skipped("`dpkg` is missing: check on Debian or Ubuntu".to_owned()));
    }
    let root = match Root::new(scratch.join("root"))? {
        Ok(root) => root,
        Err(why) => return Ok(CheckResult::Skipped(why)),
    };
    let file = folder.join(format!("dalsegno_{}_{}.deb", product.version, product.machine.debian));
    let (mut lines, is_complete) = match find("debootstrap") {
        Some(program) if is_super_user()? => (debootstrap(&program, &root)?, true),
        Some(_) => (vec!["dependencies were not checked: run the check as root".to_owned()], false),
        None => (vec!["dependencies were not checked: install `debootstrap`".to_owned()], false),
    };
    if is_complete {
        fs::copy(&file, root.folder.join("dalsegno.deb"))?;
        read(root.command(0).args(["dpkg", "--install", "/dalsegno.deb"]))?;
        lines.push(read(root.command(0).args(["dpkg-query", "--show", "dalsegno"]))?.trim().to_owned());
    } else {
        root.add_libraries(product)?;
        for list in ["info", "updates", "status"] {
            let path = root.folder.join("var/lib/dpkg").join(list);
            if list == "status" { write(&path, b"")? } else { fs::create_dir_all(path)? }
        }
        let mut command = Command::new("dpkg");
        command.arg("--root").arg(&root.folder).arg("--force-depends,not-root").arg("--install").arg(&file);
        read(&mut command)?;
    }
    let place = root.place("/usr/bin/dalsegno", "/root", "/root", 0);
    lines.extend(place.journey(&product.version)?);
    if is_complete {
        read(root.command(0).args(["dpkg", "--verify", "dalsegno"]))?;
        read(root.command(0).args(["dpkg", "--purge", "dalsegno"]))?;
        let left = root.folder.join("usr/share/doc/dalsegno");
        ensure!(!left.exists(), "`dpkg --purge` leaves `{}` behind", left.display());
    }
    Ok(CheckResult::Passed(lines))
}

/// Fills a root with the smallest Debian.
fn debootstrap(program: &Path, root: &Root) -> anyhow::Result<Vec<String>> {
    let mut command = Command::new(program);
    command.args(["--variant=minbase", "stable"]).arg(&root.folder);
    read(&mut command).context("no new Debian can be made: this needs a network")?;
    let version = fs::read_to_string(root.folder.join("etc/debian_version"))?;
    Ok(vec![format!("in a new Debian {}", version.trim())])
}

/// Finds the one file of a folder with this ending.
fn one(folder: &Path, ending: &str) -> anyhow::Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    match found.as_slice() {
        [path] => Ok(path.clone()),
        _ => bail!(
            "`{}` has {} files that end with `{ending}`: remove the older ones",
            folder.display(),
            found.len()
        ),
    }
}

/// A path as text.
fn text(path: &Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("`{}` is not UTF-8", path.display()))
}
