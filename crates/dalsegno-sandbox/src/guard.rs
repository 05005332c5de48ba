//! Counts what a component asks the system interface for and is refused. Without this the refusals would be the same,
//! and nobody would learn of them.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, ErrorCode as FileError, HostDescriptor, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::ResolveAddressStream;
use wasmtime_wasi::p2::bindings::sockets::network::{ErrorCode as SocketError, IpAddressFamily, Network};
use wasmtime_wasi::p2::{TcpSocket, UdpSocket};

use crate::guest::GuestState;
use dalsegno_protocol::DenialKind;

/// Replaces the functions that open something by ones that note a refusal. The interfaces must be linked already.
pub(crate) fn guard(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    linker.instance(&format!("wasi:sockets/ip-name-lookup@{WASI}"))?.func_wrap(
        "resolve-addresses",
        |store: StoreContextMut<'_, GuestState>, (_, name): (Resource<Network>, String)| {
            store.data().deny(DenialKind::NameLookup, &name, NO_SOCKETS);
            Ok((Err::<Resource<ResolveAddressStream>, _>(SocketError::AccessDenied),))
        },
    )?;
    linker.instance(&format!("wasi:sockets/tcp-create-socket@{WASI}"))?.func_wrap(
        "create-tcp-socket",
        |store: StoreContextMut<'_, GuestState>, (_,): (IpAddressFamily,)| {
            store.data().deny(DenialKind::Socket, "tcp", NO_SOCKETS);
            Ok((Err::<Resource<TcpSocket>, _>(SocketError::AccessDenied),))
        },
    )?;
    linker.instance(&format!("wasi:sockets/udp-create-socket@{WASI}"))?.func_wrap(
        "create-udp-socket",
        |store: StoreContextMut<'_, GuestState>, (_,): (IpAddressFamily,)| {
            store.data().deny(DenialKind::Socket, "udp", NO_SOCKETS);
            Ok((Err::<Resource<UdpSocket>, _>(SocketError::AccessDenied),))
        },
    )?;
    linker
        .instance(&format!("wasi:filesystem/types@{WASI}"))?
        .func_wrap_async("[method]descriptor.open-at", |store, parameters: OpenAt| {
            Box::new(async move { Ok((open_at(store, parameters).await?,)) })
        })?;
    linker.allow_shadowing(false);
    Ok(())
}

type OpenAt = (Resource<Descriptor>, PathFlags, String, OpenFlags, DescriptorFlags);

async fn open_at(
    mut store: StoreContextMut<'_, GuestState>,
    (folder, path_flags, path, open_flags, flags): OpenAt,
) -> wasmtime::Result<Result<Resource<Descriptor>, FileError>> {
    let mut files = store.data_mut().filesystem();
    let opened = files.open_at(folder, path_flags, path.clone(), open_flags, flags).await;
    let error = match opened {
        Ok(descriptor) => return Ok(Ok(descriptor)),
        Err(error) => error.downcast()?,
    };
    if matches!(error, FileError::NotPermitted | FileError::ReadOnly) {
        let reason = "it is outside of the granted folders, or they are granted for reading only";
        store.data().deny(DenialKind::File, &path, reason);
    }
    Ok(Err(error))
}

/// The version under which wasmtime offers these interfaces. With another one nothing would be replaced, which the
/// tests would show.
const WASI: &str = "0.2.12";

const NO_SOCKETS: &str =
    "no server has raw sockets; requests go through `wasi:http` to the destinations of `network`";
