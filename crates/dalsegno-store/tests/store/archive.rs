//! Portable files: whatever is changed in one is found, and nothing in one makes a reader fail otherwise.

use dalsegno_store::conformance::{create, every_kind, new_run, portable_run, run_id, with_key};
use dalsegno_store::{Archive, ArchiveError, Foreign, MemoryStore, Owner, Record, SigningKey, Store};

const MAGIC: &[u8] = b"dalsegno archive 1\n";
/// The length and the checksum at the end.
const TRAILER: usize = 8 + 32;

/// A file with two runs, and their records.
async fn file() -> (Vec<u8>, Vec<Vec<Record>>) {
    let (store, owner) = (MemoryStore::new(), Owner::in_process());
    let mut lease = create(&store, portable_run(1, &owner)).await;
    store.append(&mut lease, every_kind()).await.unwrap();
    create(&store, with_key(portable_run(2, &owner), "acme", "invoice 7")).await;
    let runs = [run_id(1), run_id(2)];
    let bytes = store.export(&runs).await.unwrap().encode();
    (bytes, records(&store).await)
}

async fn records(store: &MemoryStore) -> Vec<Vec<Record>> {
    vec![store.read(run_id(1), 0).await.unwrap(), store.read(run_id(2), 0).await.unwrap()]
}

/// A file with this between the first line and the end, which fit.
fn seal(contents: &[u8]) -> Vec<u8> {
    let mut bytes = [MAGIC, contents].concat();
    bytes.extend_from_slice(&((bytes.len() + TRAILER) as u64).to_le_bytes());
    let checksum = blake3::hash(&bytes);
    [bytes.as_slice(), checksum.as_bytes()].concat()
}

/// The offset that an error names.
fn offset(error: &ArchiveError) -> usize {
    match error {
        ArchiveError::NotAnArchive { offset }
        | ArchiveError::Version { offset }
        | ArchiveError::Cut { offset }
        | ArchiveError::Length { offset, .. }
        | ArchiveError::Checksum { offset }
        | ArchiveError::Signature { offset, .. }
        | ArchiveError::Form { offset, .. }
        | ArchiveError::Surplus { offset } => *offset,
        other => panic!("{other:?}"),
    }
}

fn refusal(bytes: &[u8]) -> ArchiveError {
    let error = Archive::decode(bytes).unwrap_err();
    assert!(offset(&error) <= bytes.len(), "{error}");
    error
}

#[tokio::test]
async fn a_file_is_the_same_for_the_same_runs_and_comes_back_as_it_was() {
    let (bytes, _) = file().await;
    assert_eq!(bytes, file().await.0);
    let archive = Archive::decode(&bytes).unwrap();
    assert_eq!(archive.runs().collect::<Vec<_>>(), [run_id(1), run_id(2)]);
    assert_eq!(archive.encode(), bytes);
}

#[tokio::test]
async fn what_an_import_has_decoded_is_what_a_read_returns() {
    let (bytes, records) = file().await;
    let store = MemoryStore::new();
    let read = store.import_read(Archive::decode(&bytes).unwrap()).unwrap();
    assert_eq!(read.into_values().collect::<Vec<_>>(), records);
    assert_eq!(self::records(&store).await, records);
    // What is there already is read all the same, and what is damaged is not taken in.
    assert_eq!(store.import_read(Archive::decode(&bytes).unwrap()).unwrap().len(), 2);
    let place = bytes.windows(9).position(|window| window == b"disk full").unwrap();
    let mut forged = bytes[MAGIC.len()..bytes.len() - TRAILER].to_vec();
    forged[place - MAGIC.len()] ^= 1;
    let forged = Archive::decode(&seal(&forged)).unwrap();
    assert!(MemoryStore::new().import_read(forged).is_err());
}

#[tokio::test]
async fn text_stands_in_the_file_as_it_is() {
    let (bytes, _) = file().await;
    let contains = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    for text in
        ["disk full", "done – ✓", "invoice 7", "plan 1", "plan.txt", r#"{"name":"triage","number":0}"#]
    {
        assert!(contains(text), "`{text}` cannot be searched for");
    }
    assert!(!contains("plan 3"));
}

#[tokio::test]
async fn every_flipped_bit_is_found() {
    let (bytes, _) = file().await;
    for index in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[index] ^= 1 << bit;
            let error = refusal(&changed);
            if index >= MAGIC.len() && index < bytes.len() - TRAILER {
                assert!(matches!(error, ArchiveError::Checksum { .. }), "byte {index}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn every_cut_and_every_appended_byte_is_found() {
    let (bytes, _) = file().await;
    for length in 0..bytes.len() {
        let error = refusal(&bytes[..length]);
        assert!(matches!(error, ArchiveError::Cut { .. } | ArchiveError::Length { .. }), "{length}: {error}");
        assert_eq!(offset(&error), length);
    }
    for surplus in [1, 40, 1_000] {
        let error = refusal(&[bytes.as_slice(), &vec![0; surplus]].concat());
        assert!(matches!(error, ArchiveError::Length { .. }), "{error}");
    }
}

/// Whoever makes the checksum fit gets past the file's own check. What then enters a journal is still only what reads
/// of it accept, or nothing.
#[tokio::test]
async fn a_change_with_a_checksum_that_fits_never_enters_a_journal_as_other_records() {
    let (bytes, expected) = file().await;
    let contents = &bytes[MAGIC.len()..bytes.len() - TRAILER];
    let (mut malformed, mut refused, mut entered) = (0, 0, 0);
    for index in 0..contents.len() {
        for change in [1, 2, 0x40, 0x80, 0xff] {
            let mut changed = contents.to_vec();
            changed[index] ^= change;
            let file = seal(&changed);
            let Ok(archive) = Archive::decode(&file) else {
                refusal(&file);
                malformed += 1;
                continue;
            };
            let store = MemoryStore::new();
            if store.import(archive).await.is_ok() {
                assert_eq!(records(&store).await, expected, "byte {index}");
                entered += 1;
            } else {
                assert!(store.runs(&Default::default()).await.unwrap().is_empty());
                refused += 1;
            }
        }
    }
    // No record covers the digest of what a run was asked: 32 bytes in each of the two runs.
    assert_eq!(entered, 2 * 32 * 5, "{malformed} malformed, {refused} refused");
    assert!(malformed > 100 && refused > 1_000, "{malformed} malformed, {refused} refused");
}

#[tokio::test]
async fn contents_that_are_cut_are_told_with_the_place() {
    let (bytes, _) = file().await;
    let contents = &bytes[MAGIC.len()..bytes.len() - TRAILER];
    for length in 0..contents.len() {
        let error = refusal(&seal(&contents[..length]));
        assert!(matches!(error, ArchiveError::Form { .. }), "{length}: {error}");
        assert!(std::error::Error::source(&error).is_some());
    }
    let error = refusal(&seal(&[contents, b"\xc0"].concat()));
    assert!(matches!(error, ArchiveError::Surplus { offset } if offset == bytes.len() - TRAILER), "{error}");
}

#[test]
fn no_claimed_length_is_believed() {
    const MAX: [u8; 4] = [0xff; 4];
    let map = |fields: &[&[u8]]| {
        [&[0x80 + u8::try_from(fields.len()).unwrap()], fields.concat().as_slice()].concat()
    };
    let (runs, configs) = (b"\xa4runs".as_slice(), b"\xa7configs".as_slice());
    let hostile: [Vec<u8>; 8] = [
        // A map, an array, a text and bytes of 4 GiB each, where they belong and where they do not.
        [&[0xdf], MAX.as_slice()].concat(),
        map(&[runs, &[0xdd], &MAX]),
        map(&[runs, &[0xc6], &MAX]),
        map(&[configs, &[0xdd], &MAX]),
        map(&[configs, &[0x91, 0x92, 0xc4, 32], &[0; 32], &[0xdb], &MAX]),
        map(&[b"\xa5blobs", &[0x91, 0x92, 0xc4, 32], &[0; 32], &[0xc6], &MAX]),
        map(&[b"\xdb", &MAX]),
        // Nested without an end, in a field that is skipped.
        map(&[b"\xa1x", &[0x91; 100_000]]),
    ];
    for contents in hostile {
        let error = refusal(&seal(&contents));
        assert!(matches!(error, ArchiveError::Form { .. }), "{error}");
    }
}

#[test]
fn what_is_no_archive_is_told_apart() {
    assert!(matches!(refusal(b""), ArchiveError::Cut { offset: 0 }));
    assert!(matches!(refusal(b"dalsegno arch"), ArchiveError::Cut { offset: 13 }));
    assert!(matches!(refusal(MAGIC), ArchiveError::Cut { offset: 19 }));
    assert!(matches!(refusal(b"dalsegnotes"), ArchiveError::NotAnArchive { offset: 8 }));
    assert!(matches!(refusal(b"SQLite format 3\0"), ArchiveError::NotAnArchive { offset: 0 }));
    assert!(matches!(refusal(b"dalsegno archive 3\nwhatever"), ArchiveError::Version { offset: 17 }));
    assert!(matches!(refusal(&seal(b"\x93")), ArchiveError::Form { .. }));
}

#[tokio::test]
async fn a_field_of_a_later_release_is_skipped() {
    let (bytes, _) = file().await;
    let mut contents = bytes[MAGIC.len()..bytes.len() - TRAILER].to_vec();
    assert_eq!(contents[0], 0x83, "a map of three fields");
    contents[0] += 1;
    contents.extend_from_slice(b"\xa5notes\x92\x01\xa1x");
    let archive = Archive::decode(&seal(&contents)).unwrap();
    assert_eq!(archive, Archive::decode(&bytes).unwrap());
}

#[tokio::test]
async fn an_archive_of_a_run_that_ended_and_one_that_goes_on_can_be_repeated() {
    let (store, owner) = (MemoryStore::new(), Owner::in_process());
    create(&store, portable_run(1, &owner)).await;
    let (bytes, _) = file().await;
    // The run is here, and the archive's has gone on since.
    let error = store.import(Archive::decode(&bytes).unwrap()).await.unwrap_err();
    assert!(error.to_string().contains(&run_id(1).to_string()), "{error}");
    create(&store, new_run(3, &owner)).await;
    assert_eq!(store.runs(&Default::default()).await.unwrap().len(), 2);
}

/// The same file with another first line and contents, whose length and checksum fit.
fn sealed_as(magic: &[u8], contents: &[u8]) -> Vec<u8> {
    let mut bytes = [magic, contents].concat();
    bytes.extend_from_slice(&((bytes.len() + TRAILER) as u64).to_le_bytes());
    let checksum = blake3::hash(&bytes);
    [bytes.as_slice(), checksum.as_bytes()].concat()
}

#[tokio::test]
async fn a_signature_says_who_made_a_file_and_that_nobody_changed_it() {
    const SIGNED: &[u8] = b"dalsegno archive 2\n";
    let (plain, records_before) = file().await;
    let archive = Archive::decode(&plain).unwrap();
    assert_eq!(archive.signer(), None, "a file of an earlier release is read, and nobody signed it");
    let (key, other) = (SigningKey::from_seed(&[7; 32]), SigningKey::from_seed(&[8; 32]));
    let bytes = archive.encode_signed(&key);
    assert_eq!(bytes, archive.encode_signed(&key), "the same runs are the same file");
    let read = Archive::decode(&bytes).unwrap();
    assert_eq!(read.signer(), Some(key.signer()));
    assert_ne!(key.signer(), other.signer());
    assert_eq!(key.signer().to_string().parse(), Ok(key.signer()));

    // Who signed it stays with the runs.
    let store = MemoryStore::new();
    store.import(read).await.unwrap();
    assert_eq!(store.summary(run_id(1)).await.unwrap().foreign, Some(Foreign { signer: Some(key.signer()) }));
    assert_eq!(records(&store).await, records_before);

    // Whoever changes what it holds, or says that somebody else signed it, can make the checksum fit and nothing else.
    let contents = &bytes[SIGNED.len()..bytes.len() - TRAILER];
    let signer_at = contents.len() - 64 - 32;
    for place in
        [0, 5, signer_at / 2, signer_at - 1, signer_at, signer_at + 31, signer_at + 32, contents.len() - 1]
    {
        let mut changed = contents.to_vec();
        changed[place] ^= 1;
        let error = refusal(&sealed_as(SIGNED, &changed));
        assert!(matches!(error, ArchiveError::Signature { .. }), "{place}: {error}");
    }
    let mut stolen = contents.to_vec();
    stolen[signer_at..signer_at + 32].copy_from_slice(other.signer().as_bytes());
    assert!(matches!(refusal(&sealed_as(SIGNED, &stolen)), ArchiveError::Signature { .. }));
    // A signature over other contents is none of these.
    let elsewhere = MemoryStore::new();
    create(&elsewhere, portable_run(1, &Owner::in_process())).await;
    let foreign = elsewhere.export(&[run_id(1)]).await.unwrap().encode_signed(&key);
    let signature = &foreign[foreign.len() - TRAILER - 96..foreign.len() - TRAILER];
    let pasted = [&contents[..signer_at], signature].concat();
    assert!(matches!(refusal(&sealed_as(SIGNED, &pasted)), ArchiveError::Signature { .. }));
    // Without its signature it is a file that nobody signed, and says so; half of it is none.
    let stripped = sealed_as(MAGIC, &contents[..signer_at]);
    assert_eq!(Archive::decode(&stripped).unwrap().signer(), None);
    for length in [0, 63, 95] {
        assert!(matches!(refusal(&sealed_as(SIGNED, &contents[..length])), ArchiveError::Cut { .. }));
    }
    for length in 0..bytes.len() {
        if length % 97 == 0 {
            refusal(&bytes[..length]);
        }
    }
}
