//! Both stores pass the suite.

use dalsegno_store::{MemoryStore, SqliteStore};

mod memory {
    use super::*;

    dalsegno_store::conformance_tests! { || MemoryStore::new }
}

mod sqlite {
    use super::*;

    dalsegno_store::conformance_tests! {
        || {
            let folder = tempfile::tempdir().unwrap();
            move || SqliteStore::open(folder.path().join("journal.db")).unwrap()
        }
    }
}
