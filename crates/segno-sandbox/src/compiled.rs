//! Turns bytes into compiled code. The only place of this crate that trusts something without proof.

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

    /// Takes kept machine code. `artefact` must come from [`crate::cache`], which verified its digest.
    #[expect(unsafe_code, reason = "machine code can only be trusted, not checked")]
    pub(crate) fn deserialize(
        engine: &Engine,
        encoding: Encoding,
        artefact: &[u8],
    ) -> wasmtime::Result<Self> {
        Ok(match encoding {
            // SAFETY: the bytes are what `Compiled::serialize` returned for an engine of the same version and settings
            // (wasmtime checks both), unchanged since (the cache checks their digest), and read from a folder
            // that only this user can write to (the cache checks its mode).
            Encoding::Component => Self::Component(unsafe { Component::deserialize(engine, artefact) }?),
            // SAFETY: as above.
            Encoding::Module => Self::Module(unsafe { Module::deserialize(engine, artefact) }?),
        })
    }
}
