//! The copy of the sources in which faults are planted.

use std::fs;
use std::io;
use std::path::Path;

use super::Mutant;

/// Makes the copy what the sources are. A file that is the same stays as it is, so that it is not built again.
pub(super) fn refresh(root: &Path, work: &Path) -> io::Result<()> {
    // Tests read agents, documents and the book, too.
    for name in [
        "Cargo.toml",
        "Cargo.lock",
        "crates",
        "agents",
        "tools",
        "docs",
        "tests",
        "dalsegno.toml",
        "dalsegno.lock",
    ] {
        if root.join(name).exists() {
            copy_all(&root.join(name), &work.join(name))?;
        }
    }
    Ok(())
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        let text = fs::read(from)?;
        if fs::read(to).ok().as_ref() != Some(&text) {
            fs::write(to, text)?;
        }
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !from.join(entry.file_name()).exists() && entry.path().is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != "target" && name != ".git" {
            copy_all(&entry.path(), &to.join(name))?;
        }
    }
    Ok(())
}

/// What tells a fault from an older one of the same name.
pub(super) fn print(mutant: &Mutant) -> String {
    let check = mutant.check.as_deref().unwrap_or_default();
    let file = mutant.file.display().to_string();
    let parts = [mutant.find.as_str(), mutant.replace.as_str(), check, file.as_str()];
    // FNV-1a: nobody is to be kept from making two alike.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in parts.join("\0").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("{:08x}", hash >> 32)
}
