//! What holds for any bytes: the bodies of the fuzz targets.
//!
//! The targets call it with what libFuzzer invents; `tests/store/corpus.rs` of `dalsegno-store` calls it on stable with every file of
//! the corpora. A panic is a finding.

use dalsegno_store::codec::{decode_body, encode_body};
use dalsegno_store::{Archive, MemoryStore, Store};

/// The first line of an archive.
const MAGIC: &[u8] = b"dalsegno archive 1\n";

/// Bytes are no archive, or one that stays the same when it is written again; an import of it adds runs that can be read, or
/// nothing. The bytes are tried as they are, and as the contents of a file whose length and checksum fit.
pub fn archive(data: &[u8]) {
    judge(data);
    let contents = data.strip_prefix(MAGIC).unwrap_or(data);
    // A whole archive as the seed of others: what stood behind its contents is put there again.
    let contents = contents
        .strip_suffix(contents.last_chunk::<40>().map_or(&[][..], |end| &end[..]))
        .unwrap_or(contents);
    let mut file = [MAGIC, contents].concat();
    file.extend((file.len() as u64 + 40).to_le_bytes());
    let checksum = blake3::hash(&file);
    file.extend(checksum.as_bytes());
    judge(&file);
}

fn judge(file: &[u8]) {
    let Ok(archive) = Archive::decode(file) else { return };
    let again = archive.encode();
    assert_eq!(
        Archive::decode(&again).expect("it was encoded").encode(),
        again,
        "it changes when it is written again"
    );
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let store = MemoryStore::new();
        let runs: Vec<_> = archive.runs().collect();
        let imported = store.import(archive).await;
        for run in runs {
            match &imported {
                Ok(_) => assert!(store.read(run, 0).await.is_ok(), "what was imported cannot be read"),
                Err(_) => assert!(store.summary(run).await.is_err(), "a refused archive left a run"),
            }
        }
    });
}

/// Bytes are no body, or one that stays the same when it is written again.
pub fn record(data: &[u8]) {
    let Ok(body) = decode_body(data) else { return };
    let Ok(bytes) = encode_body(&body) else { return };
    let again = decode_body(&bytes).expect("it was encoded");
    assert_eq!(
        encode_body(&again).expect("it was encoded before"),
        bytes,
        "it changes when it is written again"
    );
    assert_eq!(again.kind(), body.kind());
}
