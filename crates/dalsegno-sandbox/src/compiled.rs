//! Turns bytes into compiled code. The only place of this crate that trusts something without proof.

use std::fs;
use std::path::Path;

use wasmtime::component::Component;
use wasmtime::{Engine, Module};

/// What a WebAssembly file holds: bytes 4 to 8 tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Component,
    Module,
}

/// Compiled code, not yet linked.
pub(crate) enum Compiled {
    Component(Component),
    Module(Module),
}

impl Compiled {
    /// Compiles a WebAssembly file.
    pub(crate) fn compile(engine: &Engine, encoding: Encoding, wasm: &[u8]) -> wasmtime::Result<Self> {
        Ok(match encoding {
            Encoding::Component => Self::Component(Component::from_binary(engine, wasm)?),
            Encoding::Module => Self::Module(Module::from_binary(engine, wasm)?),
        })
    }

    /// The machine code, to be kept.
    pub(crate) fn serialize(&self) -> wasmtime::Result<Vec<u8>> {
        match self {
            Self::Component(component) => component.serialize(),
            Self::Module(module) => module.serialize(),
        }
    }

    /// Takes kept machine code. The file must come from [`crate::cache`], which verified its tag. It is mapped, or read
    /// where the system maps nothing executable from there (a file system that is mounted with `noexec`).
    pub(crate) fn deserialize(engine: &Engine, encoding: Encoding, file: &Path) -> wasmtime::Result<Self> {
        Self::map(engine, encoding, file).or_else(|_| Self::read(engine, encoding, &fs::read(file)?))
    }

    #[expect(unsafe_code, reason = "machine code can only be trusted, not checked")]
    fn map(engine: &Engine, encoding: Encoding, file: &Path) -> wasmtime::Result<Self> {
        Ok(match encoding {
            // SAFETY: the file holds what `Compiled::serialize` returned for an engine of the same version and settings
            // (wasmtime checks both), as the cache found by a tag that only this user's key makes. It lies in a folder that
            // no other user can change (the cache checks every folder above it), where files appear by renaming and are
            // never changed afterwards.
            Encoding::Component => Self::Component(unsafe { Component::deserialize_file(engine, file) }?),
            // SAFETY: as above.
            Encoding::Module => Self::Module(unsafe { Module::deserialize_file(engine, file) }?),
        })
    }

    #[expect(unsafe_code, reason = "machine code can only be trusted, not checked")]
    fn read(engine: &Engine, encoding: Encoding, artefact: &[u8]) -> wasmtime::Result<Self> {
        Ok(match encoding {
            // SAFETY: as in `map`.
            Encoding::Component => Self::Component(unsafe { Component::deserialize(engine, artefact) }?),
            // SAFETY: as in `map`.
            Encoding::Module => Self::Module(unsafe { Module::deserialize(engine, artefact) }?),
        })
    }
}
