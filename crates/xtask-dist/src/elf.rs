//! What an executable needs from a system: its loader, its libraries, and their versions.

use anyhow::{Context as _, bail, ensure};
use object::elf::DT_NEEDED;
use object::read::elf::ElfFile64;
use object::{Architecture, Endianness, Object as _, ObjectSection as _};

/// The libraries that every Linux system with glibc has, as the `manylinux` policies list them. A binary that needs
/// another one would run on the building machine and not elsewhere.
const BASE: [&str; 8] = [
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
];

/// What an executable needs from a system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// Path of the dynamic loader.
    pub loader: String,
    /// Names of the libraries, sorted.
    pub libraries: Vec<String>,
    /// Lowest version of glibc, as major and minor number.
    pub glibc: (u32, u32),
    /// Lowest version of libgcc, such as `4.2`, if the executable needs that library.
    pub libgcc: Option<(u32, u32)>,
}

impl Needs {
    /// Reads them from an executable.
    ///
    /// # Errors
    /// It is no dynamic executable for a 64-bit Linux, it is for another machine than `triple`, or it needs a library
    /// that not every system has.
    pub fn read(executable: &[u8], triple: &str) -> anyhow::Result<Self> {
        let file = ElfFile64::<Endianness>::parse(executable)
            .context("the binary is no ELF executable of 64 bits: packages are made on Linux")?;
        let machine = match file.architecture() {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
            other => bail!("the binary is for {other:?}, and there are no packages for that"),
        };
        ensure!(
            triple.starts_with(machine),
            "the binary is for {machine}, and the packages are for {triple}"
        );
        let loader = file.section_by_name(".interp").context("the binary names no dynamic loader")?;
        let loader = loader.data().context("the binary's dynamic loader cannot be read")?;
        let loader = String::from_utf8_lossy(loader).trim_end_matches('\0').to_owned();

        let (endian, sections) = (file.endian(), file.elf_section_table());
        let dynamic = sections.dynamic_table(endian, executable)?;
        let mut libraries = Vec::new();
        for entry in dynamic.iter().filter(|entry| entry.tag == DT_NEEDED) {
            libraries.push(String::from_utf8_lossy(dynamic.string(entry)?).into_owned());
        }
        libraries.sort();
        let strange: Vec<&str> =
            libraries.iter().map(String::as_str).filter(|name| !BASE.contains(name)).collect();
        ensure!(
            strange.is_empty(),
            "the binary needs `{}`, which not every system has: link it statically",
            strange.join("`, `")
        );

        let mut versions = Vec::new();
        if let Some((mut needs, link)) = sections.gnu_verneed(endian, executable)? {
            let strings = sections.strings(endian, executable, link)?;
            while let Some((_, mut names)) = needs.next()? {
                while let Some(name) = names.next()? {
                    versions.push(String::from_utf8_lossy(name.name(endian, strings)?).into_owned());
                }
            }
        }
        let glibc = highest(&versions, "GLIBC_")?.context("the binary needs no version of glibc")?;
        let libgcc = highest(&versions, "GCC_")?;
        Ok(Self { loader, libraries, glibc, libgcc })
    }
}

/// Returns the highest of the versions that begin like this.
fn highest(versions: &[String], family: &str) -> anyhow::Result<Option<(u32, u32)>> {
    let numbers = versions.iter().filter_map(|version| version.strip_prefix(family));
    let numbers: Vec<(u32, u32)> = numbers.map(|name| number(family, name)).collect::<Result<_, _>>()?;
    Ok(numbers.into_iter().max())
}

/// Reads what follows the family in a version, such as `2.34` or `4.2.0`.
fn number(family: &str, name: &str) -> anyhow::Result<(u32, u32)> {
    // No number: the name of an ability of the loader, which came with this release.
    if (family, name) == ("GLIBC_", "ABI_DT_RELR") {
        return Ok((2, 36));
    }
    let mut parts = name.split('.').map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => bail!("the binary needs `{family}{name}`, and no release of the library is known for that"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let found = highest(&versions(&["GLIBC_2.9", "GLIBC_2.34", "GCC_4.2.0", "GLIBC_2.2.5"]), "GLIBC_");
        assert_eq!(found.unwrap(), Some((2, 34)));
        assert_eq!(highest(&versions(&["GCC_3.0", "GCC_4.2.0"]), "GCC_").unwrap(), Some((4, 2)));
        assert_eq!(highest(&versions(&["GLIBC_2.9"]), "GCC_").unwrap(), None);
    }

    #[test]
    fn an_ability_counts_as_the_release_that_brought_it() {
        let found = highest(&versions(&["GLIBC_2.34", "GLIBC_ABI_DT_RELR"]), "GLIBC_");
        assert_eq!(found.unwrap(), Some((2, 36)));
    }

    #[test]
    fn a_version_that_is_no_number_is_refused() {
        let error = highest(&versions(&["GLIBC_PRIVATE"]), "GLIBC_").unwrap_err().to_string();
        assert!(error.contains("`GLIBC_PRIVATE`"), "{error}");
    }
}
