//! Tries to cross scopes, on every operation.

use std::collections::BTreeSet;

use crate::common::{create, entities, observation, scopes, search, try_search, wait};
use dalsegno_memory::{Memory, NewObservation, Principal, Scope, ScopeResolver, Source, SqliteMemory};
use proptest::prelude::*;

/// The rule in its simplest form: may `reader`, asking for `requested`, see what `writer` wrote into
/// `written`?
fn may_read(reader: &[String; 4], requested: Scope, writer: &[String; 4], written: Scope) -> bool {
    let shared = match written {
        Scope::Tenant => 1,
        Scope::Workspace => 2,
        Scope::Agent => 3,
        Scope::Session => 4,
    };
    written <= requested && reader[..shared] == writer[..shared]
}

fn principal(names: &[String; 4]) -> Principal {
    let [tenant, workspace, agent, session] = names;
    Principal::new(tenant, workspace, agent, session).unwrap()
}

/// Few and treacherous names, so that principals often share some of them and often nearly do.
fn names() -> impl Strategy<Value = [String; 4]> {
    let name =
        prop::sample::select(["a", "A", "a ", "a.b", "b", "1", "2", "%", "\"", "a/a", "tenant"].as_slice());
    [name.clone(), name.clone(), name.clone(), name].prop_map(|names| names.map(str::to_owned))
}

fn scope() -> impl Strategy<Value = Scope> {
    prop::sample::select(Scope::ALL.as_slice())
}

fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        6 => prop::sample::select(["refund", "queue", "1", "1.refund", "2.queue", "scope:\"1\""].as_slice())
            .prop_map(str::to_owned),
        1 => "\\PC{1,8}",
    ];
    prop::collection::vec(word, 1..6)
        .prop_map(|words| words.join(" "))
        .prop_filter("a memory refuses a text of white space alone", |text| !text.trim().is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_search_finds_only_and_all_that_its_scopes_hold(
        writes in prop::collection::vec((names(), scope(), text()), 1..30),
        readers in prop::collection::vec((names(), scope(), text()), 1..8),
    ) {
        wait(async {
            let memory = SqliteMemory::in_memory().unwrap();
            for (index, (names, written, text)) in writes.iter().enumerate() {
                let scopes = ScopeResolver.resolve(&principal(names), *written);
                // The word `common` makes each one match; the number tells them apart.
                let new = observation(index as u8, &index.to_string(), &format!("common {text}"));
                create(&memory, &scopes, new).await;
            }
            // Those who wrote read as well, else most readers would see nothing.
            let writers = writes.iter().map(|(names, _, text)| (names.clone(), Scope::Tenant, text.clone()));
            for (names, requested, text) in readers.iter().cloned().chain(writers) {
                let scopes = ScopeResolver.resolve(&principal(&names), requested);
                let hits = search(&memory, &scopes, &format!("common {text}")).await;
                let found: BTreeSet<usize> = hits.iter().map(|hit| hit.entity.parse().unwrap()).collect();
                let expected: BTreeSet<usize> = writes
                    .iter()
                    .enumerate()
                    .filter(|(_, (writer, written, _))| may_read(&names, requested, writer, *written))
                    .map(|(index, _)| index)
                    .collect();
                prop_assert_eq!(found, expected, "{:?} asks for {}", names, requested);
            }
            Ok(())
        })?;
    }

    #[test]
    fn what_others_keep_changes_no_bit_of_an_answer(
        mine in prop::collection::vec(text(), 1..12),
        others in prop::collection::vec((names(), scope(), text()), 1..40),
        query in text(),
    ) {
        wait(async {
            // The others are tenants, workspaces, agents and sessions of other names; `me` is none of them.
            let scopes = scopes("mine/w/me/s", Scope::Agent);
            let (alone, crowded) = (SqliteMemory::in_memory().unwrap(), SqliteMemory::in_memory().unwrap());
            for (index, text) in mine.iter().enumerate() {
                create(&alone, &scopes, observation(index as u8, &index.to_string(), text)).await;
            }
            for (index, (names, written, text)) in others.iter().enumerate() {
                let mut names = names.clone();
                if index % 2 == 0 && *written < Scope::Workspace {
                    names[..2].clone_from_slice(&["mine".to_owned(), "w".to_owned()]);
                }
                let theirs = ScopeResolver.resolve(&principal(&names), *written);
                let entity = (index % 12).to_string();
                create(&crowded, &theirs, observation(index as u8, &entity, &text.repeat(3))).await;
                // Mine come in between, so that rows and ids of both are mixed.
                if let Some(text) = mine.get(index) {
                    create(&crowded, &scopes, observation(index as u8, &index.to_string(), text)).await;
                }
            }
            for (index, text) in mine.iter().enumerate().skip(others.len()) {
                create(&crowded, &scopes, observation(index as u8, &index.to_string(), text)).await;
            }
            let expected = search(&alone, &scopes, &query).await;
            let found = search(&crowded, &scopes, &query).await;
            prop_assert_eq!(&found, &expected);
            for (found, expected) in found.iter().zip(&expected) {
                prop_assert_eq!(found.score.to_bits(), expected.score.to_bits());
                prop_assert_eq!(found.why.bm25.to_bits(), expected.why.bm25.to_bits());
            }
            Ok(())
        })?;
    }

    #[test]
    fn an_operation_of_another_scope_neither_blocks_nor_answers_a_write(
        first in (names(), scope()),
        second in (names(), scope()),
    ) {
        wait(async {
            let memory = SqliteMemory::in_memory().unwrap();
            let ours = ScopeResolver.resolve(&principal(&first.0), first.1);
            let theirs = ScopeResolver.resolve(&principal(&second.0), second.1);
            let same = may_read(&first.0, first.1, &second.0, second.1) && first.1 == second.1;
            let one = create(&memory, &ours, observation(1, "e", "text")).await;
            let other = create(&memory, &theirs, observation(1, "e", "text")).await;
            // In the same scope it has the answer of the first time.
            prop_assert_eq!((other.repeated, other.duplicate), (same, false));
            prop_assert_eq!(other.observation == one.observation, same);
            // Neither the type of an entity nor the use of an operation id shows across a border.
            let new = NewObservation { entity_type: "person".to_owned(), ..observation(1, "e", "other") };
            if !same {
                let again = create(&memory, &theirs, observation(2, "e", "text")).await;
                prop_assert!(again.duplicate);
            }
            prop_assert!(memory.create(&theirs, new).await.is_err());
            Ok(())
        })?;
    }

    #[test]
    fn any_text_can_be_kept_and_asked_for(text in "\\PC{0,300}", query in "(\\PC|[\"*():^.'\u{0}\\n]){0,300}") {
        wait(async {
            let memory = SqliteMemory::in_memory().unwrap();
            let scopes = scopes("t/w/a/s", Scope::Session);
            create(&memory, &scopes, observation(1, "e", &format!("anchor {text}"))).await;
            prop_assert!(try_search(&memory, &scopes, &query).await.is_ok());
            // Of words that count, `anchor` is the first.
            let hits = search(&memory, &scopes, &format!("anchor {query}")).await;
            prop_assert_eq!(entities(&hits), ["e"]);
            Ok(())
        })?;
    }
}

#[test]
fn a_workspace_search_sees_the_agents_and_sessions_own_but_no_others() {
    wait(async {
        let memory = SqliteMemory::in_memory().unwrap();
        let writes = [
            ("t/w/a/s", Scope::Session, "my session"),
            ("t/w/a/s", Scope::Agent, "my agent"),
            ("t/w/b/s", Scope::Workspace, "my workspace"),
            ("t/v/b/s", Scope::Tenant, "my tenant"),
            ("t/w/a/r", Scope::Session, "another session"),
            ("t/w/b/s", Scope::Session, "a session of that name of another agent"),
            ("t/w/b/s", Scope::Agent, "another agent"),
            ("t/v/a/s", Scope::Agent, "an agent of that name elsewhere"),
            ("t/v/a/s", Scope::Workspace, "another workspace"),
            ("u/w/a/s", Scope::Tenant, "another tenant"),
            ("u/w/a/s", Scope::Session, "a session of another tenant"),
        ];
        for (principal, scope, entity) in writes {
            create(&memory, &scopes(principal, scope), observation(1, entity, "kept")).await;
        }
        let mut seen = BTreeSet::new();
        for (scope, newly) in
            Scope::ALL.into_iter().zip(["my session", "my agent", "my workspace", "my tenant"])
        {
            seen.insert(newly.to_owned());
            let hits = search(&memory, &scopes("t/w/a/s", scope), "kept").await;
            assert_eq!(hits.into_iter().map(|hit| hit.entity).collect::<BTreeSet<_>>(), seen, "{scope}");
        }
    });
}

#[test]
fn seeds_stay_in_the_scope_they_were_loaded_into() {
    wait(async {
        let memory = SqliteMemory::in_memory().unwrap();
        let line = r#"{"entity": "e", "type": "t", "text": "kept", "metadata": {}}"#;
        for tenant in ["t/w/a/s", "u/w/a/s"] {
            let counts = memory.seed(&scopes(tenant, Scope::Workspace), line.as_bytes(), 5).await.unwrap();
            assert_eq!((counts.added, counts.already), (1, 0), "{tenant}");
        }
        assert_eq!(search(&memory, &scopes("t/w/b/r", Scope::Workspace), "kept").await.len(), 1);
        assert_eq!(search(&memory, &scopes("t/v/a/s", Scope::Tenant), "kept").await, []);
        let new = NewObservation { source: Source::Seed, ..observation(9, "e2", "kept") };
        create(&memory, &scopes("u/w/a/s", Scope::Agent), new).await;
        assert_eq!(search(&memory, &scopes("t/w/a/s", Scope::Tenant), "kept").await.len(), 1);
    });
}
