//! Both stores pass the suite.

use segno_store::{MemoryStore, SqliteStore};

mod memory {
    use super::*;

    segno_store::conformance_tests! { || MemoryStore::new }
}

mod sqlite {
    use super::*;

    segno_store::conformance_tests! {
        || {
            let folder = tempfile::tempdir().unwrap();
            move || SqliteStore::open(folder.path().join("journal.db")).unwrap()
        }
    }
}
