//! Deleting and correcting, asked of a file and of SQLite's own memory.

use std::fs;

use crate::common::{create, entities, export, import, observation, relate, relation, scopes, search, wait};
use dalsegno_memory::{
    Correct, Delete, Deleted, ImportMode, Memory, MemoryError, ObservationId, Scope, ScopeSet, Source,
    SqliteMemory, TEXT_BYTES_MAX, Traverse,
};
use rusqlite::Connection;

conformance!(
    an_entity_is_deleted_with_everything_about_it,
    an_observation_is_deleted_alone,
    a_relation_is_deleted_in_all_its_periods,
    nothing_is_deleted_in_another_scope,
    a_repeated_operation_does_not_bring_back_what_was_deleted,
    a_correction_replaces_the_text_and_keeps_the_history,
    a_repeated_correction_changes_nothing,
    what_cannot_be_corrected_is_refused,
    observations_are_found_by_the_first_digits_of_their_ids,
);

fn here() -> ScopeSet {
    scopes("acme/support/triage/s1", Scope::Workspace)
}

fn entity(name: &str) -> Delete {
    Delete::Entity { name: name.to_owned() }
}

fn correction(observation: ObservationId, text: &str) -> Correct {
    Correct { observation, text: text.to_owned(), source: Source::Seed, at: 1_700_000_000_500 }
}

async fn told(memory: &impl Memory) -> ObservationId {
    let created = create(memory, &here(), observation(1, "INC-1", "charged twice")).await;
    create(memory, &here(), observation(2, "INC-1", "refunded")).await;
    create(memory, &here(), observation(3, "INC-2", "charged late")).await;
    relate(memory, &here(), relation(4, "INC-1 like INC-2", 1.0, 10)).await;
    relate(memory, &here(), relation(5, "INC-1 like INC-2", 0.5, 20)).await;
    relate(memory, &here(), relation(6, "INC-2 after INC-1", 1.0, 10)).await;
    relate(memory, &here(), relation(7, "INC-1 like INC-1", 1.0, 10)).await;
    created.observation
}

async fn an_entity_is_deleted_with_everything_about_it(memory: impl Memory) {
    told(&memory).await;
    let expected = Deleted { entities: 1, observations: 2, relations: 4 };
    assert_eq!(memory.would_delete(&here(), &entity("INC-1")).await.unwrap(), expected);
    assert_eq!(search(&memory, &here(), "charged").await.len(), 2);
    assert_eq!(memory.delete(&here(), &entity("INC-1")).await.unwrap(), expected);
    assert_eq!(memory.entity(&here(), "INC-1").await.unwrap(), None);
    assert_eq!(entities(&search(&memory, &here(), "charged refunded").await), ["INC-2"]);
    assert_eq!(memory.traverse(&here(), &Traverse::new("INC-2")).await.unwrap().entities.len(), 1);
    assert_eq!(export(&memory, &here()).await.lines().count(), 3);
    assert!(memory.delete(&here(), &entity("INC-1")).await.unwrap().is_empty());
    // The statistics of the scope are those of a memory that never knew more.
    let fresh = SqliteMemory::in_memory().unwrap();
    create(&fresh, &here(), observation(3, "INC-2", "charged late")).await;
    assert_eq!(search(&memory, &here(), "charged").await, search(&fresh, &here(), "charged").await);
}

async fn an_observation_is_deleted_alone(memory: impl Memory) {
    let id = told(&memory).await;
    let delete = Delete::Observation { id };
    let expected = Deleted { observations: 1, ..Deleted::default() };
    assert_eq!(memory.would_delete(&here(), &delete).await.unwrap(), expected);
    assert_eq!(memory.delete(&here(), &delete).await.unwrap(), expected);
    assert!(memory.delete(&here(), &delete).await.unwrap().is_empty());
    let left = memory.entity(&here(), "INC-1").await.unwrap().unwrap();
    assert_eq!(left.observations.iter().map(|one| one.text.as_str()).collect::<Vec<_>>(), ["refunded"]);
    assert_eq!(entities(&search(&memory, &here(), "charged").await), ["INC-2"]);
    // A new operation may write it again.
    assert!(!create(&memory, &here(), observation(9, "INC-1", "charged twice")).await.duplicate);
    assert_eq!(search(&memory, &here(), "twice").await.len(), 1);
}

async fn a_relation_is_deleted_in_all_its_periods(memory: impl Memory) {
    told(&memory).await;
    let parts = ["INC-1", "like", "INC-2"].map(str::to_owned);
    let [from, name, to] = parts;
    let delete = Delete::Relation { from, relation: name, to };
    let expected = Deleted { relations: 2, ..Deleted::default() };
    assert_eq!(memory.would_delete(&here(), &delete).await.unwrap(), expected);
    assert_eq!(memory.delete(&here(), &delete).await.unwrap(), expected);
    assert!(memory.delete(&here(), &delete).await.unwrap().is_empty());
    let left = memory.entity(&here(), "INC-1").await.unwrap().unwrap();
    let left: Vec<_> = left.relations_out.iter().map(|one| one.to.as_str()).collect();
    assert_eq!(left, ["INC-1"]);
    // A new one may begin at any time: no period is left that it must follow.
    relate(&memory, &here(), relation(8, "INC-1 like INC-2", 1.0, 1)).await;
    let anew = memory.entity(&here(), "INC-2").await.unwrap().unwrap();
    assert_eq!(anew.relations_in[0].valid_from, 1);
}

async fn nothing_is_deleted_in_another_scope(memory: impl Memory) {
    let id = told(&memory).await;
    for other in [
        scopes("acme/support/triage/s1", Scope::Tenant),
        scopes("acme/support/triage/s1", Scope::Agent),
        scopes("other/support/triage/s1", Scope::Workspace),
    ] {
        create(&memory, &other, observation(1, "ours", "of another scope")).await;
        assert!(memory.delete(&other, &entity("INC-1")).await.unwrap().is_empty());
        assert!(memory.delete(&other, &Delete::Observation { id }).await.unwrap().is_empty());
        assert!(memory.find(&other, &id.to_string()).await.unwrap().is_empty());
        let refused = memory.correct(&other, correction(id, "not ours")).await.unwrap_err();
        assert!(matches!(refused, MemoryError::UnknownObservation { .. }), "{refused}");
    }
    assert_eq!(search(&memory, &here(), "charged").await.len(), 2);
}

async fn a_repeated_operation_does_not_bring_back_what_was_deleted(memory: impl Memory) {
    told(&memory).await;
    memory.delete(&here(), &entity("INC-1")).await.unwrap();
    assert!(create(&memory, &here(), observation(1, "INC-1", "charged twice")).await.repeated);
    relate(&memory, &here(), relation(4, "INC-1 like INC-2", 1.0, 10)).await;
    assert_eq!(memory.entity(&here(), "INC-1").await.unwrap(), None);
}

async fn a_correction_replaces_the_text_and_keeps_the_history(memory: impl Memory) {
    let id = told(&memory).await;
    let corrected = memory.correct(&here(), correction(id, "charged thrice")).await.unwrap();
    assert_eq!((corrected.replaced, corrected.entity.as_str(), corrected.changed), (id, "INC-1", true));
    assert_ne!(corrected.observation, id);
    assert!(search(&memory, &here(), "twice").await.is_empty());
    let hits = search(&memory, &here(), "thrice").await;
    assert_eq!((hits[0].observation, &hits[0].metadata["severity"]), (corrected.observation, &"high".into()));
    let view = memory.entity(&here(), "INC-1").await.unwrap().unwrap();
    let old = view.observations.iter().find(|one| one.observation == id).unwrap();
    assert_eq!((old.valid_to, old.superseded_by), (Some(1_700_000_000_500), Some(corrected.observation)));
    let new = view.observations.iter().find(|one| one.observation == corrected.observation).unwrap();
    assert_eq!((new.valid_to, &new.source), (None, &None));
    // The history can be exported and read again, also when the new text has been deleted since.
    let other = SqliteMemory::in_memory().unwrap();
    import(&other, &here(), &export(&memory, &here()).await, ImportMode::Fail).await.unwrap();
    memory.delete(&here(), &Delete::Observation { id: corrected.observation }).await.unwrap();
    let left = memory.entity(&here(), "INC-1").await.unwrap().unwrap();
    let old = left.observations.iter().find(|one| one.observation == id).unwrap();
    assert_eq!((old.valid_to, old.superseded_by), (Some(1_700_000_000_500), None));
    let another = SqliteMemory::in_memory().unwrap();
    import(&another, &here(), &export(&memory, &here()).await, ImportMode::Fail).await.unwrap();
}

async fn a_repeated_correction_changes_nothing(memory: impl Memory) {
    let id = told(&memory).await;
    let first = memory.correct(&here(), correction(id, "charged thrice")).await.unwrap();
    let before = export(&memory, &here()).await;
    let again = memory.correct(&here(), correction(id, "charged thrice")).await.unwrap();
    assert_eq!((again.observation, again.changed), (first.observation, false));
    let same = memory.correct(&here(), correction(first.observation, "charged thrice")).await.unwrap();
    assert_eq!((same.observation, same.changed), (first.observation, false));
    assert_eq!(export(&memory, &here()).await, before);
    // And back: the first text stands again.
    let back = memory.correct(&here(), correction(first.observation, "charged twice")).await.unwrap();
    assert_eq!((back.observation, back.changed), (id, true));
    assert_eq!(search(&memory, &here(), "twice thrice").await.len(), 1);
}

async fn what_cannot_be_corrected_is_refused(memory: impl Memory) {
    let id = told(&memory).await;
    for text in [" ".to_owned(), "x".repeat(TEXT_BYTES_MAX + 1)] {
        let refused = memory.correct(&here(), correction(id, &text)).await.unwrap_err();
        assert!(matches!(refused, MemoryError::Text { .. }), "{refused}");
    }
    memory.correct(&here(), correction(id, "charged thrice")).await.unwrap();
    let refused = memory.correct(&here(), correction(id, "charged once")).await.unwrap_err();
    assert!(matches!(refused, MemoryError::Ended { .. }), "{refused}");
    memory.delete(&here(), &Delete::Observation { id }).await.unwrap();
    let refused = memory.correct(&here(), correction(id, "charged once")).await.unwrap_err();
    assert!(matches!(refused, MemoryError::UnknownObservation { .. }), "{refused}");
}

async fn observations_are_found_by_the_first_digits_of_their_ids(memory: impl Memory) {
    let id = told(&memory).await;
    let digits = id.to_string();
    for beginning in [&digits[..8], &digits[..8].to_uppercase(), &digits] {
        let found = memory.find(&here(), beginning).await.unwrap();
        assert_eq!(found.len(), 1, "{beginning}");
        assert_eq!((found[0].observation, found[0].text.as_str()), (id, "charged twice"));
    }
    assert_eq!(memory.find(&here(), "").await.unwrap().len(), 3);
    for other in ["x", "é", "'", &format!("{digits}0")] {
        assert!(memory.find(&here(), other).await.unwrap().is_empty(), "{other}");
    }
}

#[test]
fn the_bytes_of_what_was_deleted_are_gone_and_the_file_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let memory = SqliteMemory::open(&path).unwrap();
    let holds = |text: &str| {
        let files = fs::read_dir(folder.path()).unwrap();
        files
            .map(|file| fs::read(file.unwrap().path()).unwrap())
            .any(|bytes| bytes.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text.as_bytes())))
    };
    wait(async {
        // Enough that pages fill up, with a text of several pages among them.
        for number in 0..60 {
            let mut new =
                observation(number, &format!("thing {number}"), &format!("ordinary matter {number}"));
            new.metadata = serde_json::json!({});
            create(&memory, &here(), new).await;
        }
        let mut secret = observation(200, "xylophonist", &"quixotically ".repeat(1_500));
        secret.metadata = serde_json::json!({ "zanzibar": true });
        create(&memory, &here(), secret).await;
        create(&memory, &here(), observation(201, "xylophonist", "quixotically brief")).await;
        relate(&memory, &here(), relation(202, "xylophonist lives hereabouts", 1.0, 5)).await;
        for text in ["xylophonist", "quixotic", "zanzibar"] {
            assert!(holds(text), "{text} was never written");
        }
        let deleted = memory.delete(&here(), &entity("xylophonist")).await.unwrap();
        assert_eq!(deleted, Deleted { entities: 1, observations: 2, relations: 1 });
        for text in ["xylophonist", "quixotic", "zanzibar"] {
            assert!(!holds(text), "{text} is still in a file");
        }
        assert_eq!(search(&memory, &here(), "ordinary").await.len(), 60);
    });
    drop(memory);
    let file = Connection::open(&path).unwrap();
    let sound: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let dangling = file.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap();
    assert!(!dangling, "a row refers to one that was deleted");
}
