//! Turns bytes into compiled code. The only place of this crate that trusts something without proof.

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

    /// Takes kept machine code, which is mapped rather than read. The file must come from [`crate::cache`], which verified
    /// its digest.
    #[expect(unsafe_code, reason = "machine code can only be trusted, not checked")]
    pub(crate) fn deserialize(engine: &Engine, encoding: Encoding, file: &Path) -> wasmtime::Result<Self> {
        Ok(match encoding {
            // SAFETY: the file holds what `Compiled::serialize` returned for an engine of the same version and settings
            // (wasmtime checks both), as the cache found by its digest. It lies in a folder that only this user can
            // write to (the cache checks its mode), where files appear by renaming and are never changed afterwards.
            Encoding::Component => Self::Component(unsafe { Component::deserialize_file(engine, file) }?),
            // SAFETY: as above.
            Encoding::Module => Self::Module(unsafe { Module::deserialize_file(engine, file) }?),
        })
    }
}
