//! What somebody who can write the file but has no key can do to it: nothing that goes unnoticed, but for one thing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod common;

use std::fs;

use common::{Folder, NOW, get, name, put, tenant, value, wait};
use dalsegno_secrets::{
    DamagedPart, OpenError, Put, Secret, SecretError, SecretName, SecretStore, SqliteSecrets, Version,
};
use rusqlite::Connection;
use rusqlite::types::Value;

/// Every secret of [`filled`], with its newest value.
const SECRETS: [(&str, &str, &str); 4] = [
    ("acme", "crm.token", "newest of acme"),
    ("acme", "other", "another of acme"),
    ("bravo", "crm.token", "the one of bravo"),
    ("bravo", "gone-soon", "that expires"),
];

/// A store with versions, tenants and times, closed.
fn filled() -> Folder {
    let folder = Folder::new();
    let store = folder.open();
    wait(async {
        put(&store, "acme", "crm.token", "earlier of acme").await;
        for (of, called, value) in SECRETS {
            let expires_at = (called == "gone-soon").then_some(NOW + 1);
            let put = Put { expires_at, ..Put::new(Secret::new(value), NOW) };
            store.put(&tenant(of), &name(called), put).await.unwrap();
        }
    });
    folder
}

/// Says what is wrong with the store: none when every secret is as it was, an error as it is reported, and a panic when
/// an answer has changed silently.
fn trouble(folder: &Folder) -> Option<SecretError> {
    let store = match SqliteSecrets::open(folder.path(), &folder.key) {
        Ok(store) => store,
        Err(OpenError::Store { source, .. }) => return Some(source),
        // Which part it was is not known when the file says of itself that it is something else.
        Err(other) => return Some(told(&other)),
    };
    wait(async {
        let mut first = None;
        for (of, called, value) in SECRETS {
            match get(&store, of, called).await {
                Ok(found) => assert_eq!(found.as_deref(), Some(value), "{of} {called}"),
                Err(error) => first = first.or(Some(error)),
            }
        }
        first.or(store.verify().await.err())
    })
}

/// A stand-in for an error of opening that holds no error of the store.
fn told(error: &OpenError) -> SecretError {
    match error {
        OpenError::WrongKey { expected, given, .. } => {
            SecretError::WrongKey { expected: *expected, given: *given }
        }
        OpenError::Foreign { .. } | OpenError::Newer { .. } => {
            SecretError::Damaged { part: DamagedPart::Head }
        }
        other => panic!("{other:?}"),
    }
}

fn damaged(folder: &Folder) -> DamagedPart {
    match trouble(folder) {
        Some(SecretError::Damaged { part }) => part,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_flipped_byte_of_every_column_is_reported() {
    let folder = filled();
    assert!(trouble(&folder).is_none());
    let mut flips = 0;
    for table in ["store", "tenant", "secret"] {
        let read = |connection: &Connection| -> Vec<(Vec<String>, Vec<Value>)> {
            let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
            let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
            let count = columns.len();
            let rows = statement
                .query_map([], |row| {
                    (0..count).map(|index| row.get(index)).collect::<Result<Vec<Value>, _>>()
                })
                .unwrap();
            rows.map(|row| (columns.clone(), row.unwrap())).collect()
        };
        let rows = read(&Connection::open(folder.path()).unwrap());
        for (columns, row) in rows {
            for (index, column) in columns.iter().enumerate().filter(|(_, column)| *column != "one") {
                for changed in changes(&row[index]) {
                    let sets = columns.iter().map(|column| format!("{column} IS ?")).collect::<Vec<_>>();
                    let cast = if matches!(row[index], Value::Text(_)) { "CAST(? AS TEXT)" } else { "?" };
                    let sql = format!("UPDATE {table} SET {column} = {cast} WHERE {}", sets.join(" AND "));
                    let update = |to: &Value, row: &[Value]| {
                        let connection = Connection::open(folder.path()).unwrap();
                        let all = std::iter::once(to).chain(row);
                        let done = connection.execute(&sql, rusqlite::params_from_iter(all)).unwrap();
                        assert_eq!(done, 1, "{sql}");
                    };
                    let before = fs::read(folder.path()).unwrap();
                    update(&changed, &row);
                    let found = trouble(&folder);
                    let reported = matches!(
                        found,
                        Some(
                            SecretError::Damaged { .. }
                                | SecretError::Corrupt { .. }
                                | SecretError::WrongKey { .. }
                        )
                    );
                    assert!(reported, "{table}.{column} as {changed:?}: {found:?}");
                    // A key that is right is never said to be wrong.
                    assert!(!matches!(found, Some(SecretError::WrongKey { .. })), "{table}.{column}");
                    fs::write(folder.path(), before).unwrap();
                    flips += 1;
                }
            }
        }
    }
    assert!(trouble(&folder).is_none());
    assert!(flips > 600, "{flips}");
}

/// The value with each of its bytes flipped in turn, and what else it could become.
fn changes(value: &Value) -> Vec<Value> {
    let flipped = |bytes: &[u8]| -> Vec<Vec<u8>> {
        let flip = |at: usize| {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= 1 << (at % 8);
            bytes
        };
        (0..bytes.len()).map(flip).collect()
    };
    match value {
        Value::Null => vec![Value::Integer(0), Value::Integer(1)],
        Value::Integer(number) => (0..64)
            .step_by(5)
            .map(|bit| Value::Integer(number ^ (1 << bit)))
            .chain([Value::Integer(-1)])
            .collect(),
        Value::Real(_) => panic!("there are no such columns"),
        Value::Text(text) => flipped(text.as_bytes()).into_iter().map(Value::Blob).collect(),
        Value::Blob(bytes) => {
            let mut all: Vec<_> = flipped(bytes).into_iter().map(Value::Blob).collect();
            all.push(Value::Blob(Vec::new()));
            all.push(Value::Blob([&bytes[..], &[0]].concat()));
            all.push(Value::Blob(vec![0; 10_000_000]));
            all
        }
    }
}

#[test]
fn no_flipped_byte_of_the_file_changes_an_answer() {
    let folder = filled();
    let bytes = fs::read(folder.path()).unwrap();
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let (mut reported, mut harmless) = (0, 0);
    for at in used {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(folder.path(), &changed).unwrap();
        match trouble(&folder) {
            Some(_) => reported += 1,
            None => harmless += 1,
        }
        for end in ["-wal", "-shm"] {
            // What a refused opening has left behind belongs to the changed file.
            let _ = fs::remove_file(format!("{}{end}", folder.path().display()));
        }
    }
    println!("{reported} flips reported, {harmless} harmless");
    assert!(reported > 1_000, "{reported}");
    // SQLite's header counts writes and names versions, and nothing depends on that; a schema has spaces and comments.
    assert!(harmless < reported, "{harmless}");
}

#[test]
fn rows_that_were_moved_added_or_taken_away_are_noticed() {
    let exchange = |one: &str, other: &str| {
        format!(
            "CREATE TEMP TABLE kept AS SELECT * FROM secret;
             UPDATE secret SET (nonce, sealed) = (SELECT nonce, sealed FROM kept WHERE {other}) WHERE {one};
             UPDATE secret SET (nonce, sealed) = (SELECT nonce, sealed FROM kept WHERE {one}) WHERE {other};"
        )
    };
    let (token, earlier) =
        ("tenant = 'acme' AND name = 'crm.token' AND version = 2", "version = 1 AND tenant = 'acme'");
    let (other, bravo) = ("tenant = 'acme' AND name = 'other'", "tenant = 'bravo' AND name = 'crm.token'");
    let cases = [
        ("values of two versions", exchange(token, earlier)),
        ("values of two names", exchange(token, other)),
        ("values of two tenants", exchange(token, bravo)),
        ("names of two secrets", format!("UPDATE secret SET name = 'x' WHERE {other};
            UPDATE secret SET name = 'other' WHERE {token}; UPDATE secret SET name = 'crm.token', version = 2 WHERE name = 'x';")),
        ("no newest version", format!("DELETE FROM secret WHERE {token};")),
        ("no earlier version", format!("DELETE FROM secret WHERE {earlier};")),
        ("a version that was the other", format!("DELETE FROM secret WHERE {token}; UPDATE secret SET version = 2 WHERE {earlier};")),
        ("no secret", format!("DELETE FROM secret WHERE {other};")),
        ("no tenant", "DELETE FROM secret WHERE tenant = 'bravo'; DELETE FROM tenant WHERE tenant = 'bravo';".to_owned()),
        ("a tenant without its row", "DELETE FROM tenant WHERE tenant = 'bravo';".to_owned()),
        ("nothing at all", "DELETE FROM secret; DELETE FROM tenant;".to_owned()),
        ("a tenant of another name", "UPDATE secret SET tenant = 'acme 2' WHERE tenant = 'acme'; UPDATE tenant SET tenant = 'acme 2' WHERE tenant = 'acme';".to_owned()),
        ("a copied tenant", "INSERT INTO secret SELECT 'eve', name, version, put_at, expires_at, nonce, sealed FROM secret WHERE tenant = 'acme';
            INSERT INTO tenant SELECT 'eve', last_version, nonce, seal FROM tenant WHERE tenant = 'acme';".to_owned()),
        ("a row of no tenant", "INSERT INTO secret SELECT 'eve', name, version, put_at, expires_at, nonce, sealed FROM secret WHERE tenant = 'acme';".to_owned()),
        ("a copied secret", format!("INSERT INTO secret SELECT tenant, 'copy', version, put_at, expires_at, nonce, sealed FROM secret WHERE {token};")),
        ("a later time of expiry", "UPDATE secret SET expires_at = expires_at + 1000 WHERE name = 'gone-soon';".to_owned()),
        ("no time of expiry", "UPDATE secret SET expires_at = NULL WHERE name = 'gone-soon';".to_owned()),
        ("an earlier counter", "UPDATE tenant SET last_version = 1 WHERE tenant = 'acme';".to_owned()),
        ("no head", "DELETE FROM store;".to_owned()),
        ("a table that sorts in another way", "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'name TEXT', 'name TEXT COLLATE NOCASE');".to_owned()),
        ("a trigger", "CREATE TRIGGER t AFTER DELETE ON secret BEGIN INSERT INTO secret VALUES \
            (old.tenant, old.name, old.version, old.put_at, old.expires_at, old.nonce, old.sealed); END;".to_owned()),
    ];
    for (what, sql) in cases {
        let folder = filled();
        folder.tamper(&sql);
        let part = damaged(&folder);
        println!("{what}: {part}");
    }
}

#[test]
fn an_open_store_notices_too() {
    let folder = filled();
    let store = folder.open();
    wait(async {
        assert!(value(&store, "acme", "other").await.is_some());
        folder.tamper("DELETE FROM secret WHERE tenant = 'acme' AND version = 2");
        let damaged = DamagedPart::Tenant { tenant: tenant("acme") };
        let refused = get(&store, "acme", "crm.token").await;
        assert!(matches!(&refused, Err(SecretError::Damaged { part }) if *part == damaged), "{refused:?}");
        // A write would attest what is wrong, and does not happen.
        let again = Put::new(Secret::new("again"), NOW);
        let refused = store.put(&tenant("acme"), &name("crm.token"), again).await;
        assert!(matches!(&refused, Err(SecretError::Damaged { part }) if *part == damaged), "{refused:?}");
        let refused = store.remove(&tenant("acme"), &name("crm.token")).await;
        assert!(matches!(&refused, Err(SecretError::Damaged { part }) if *part == damaged), "{refused:?}");
        // Other tenants are not held up.
        assert_eq!(value(&store, "bravo", "crm.token").await.as_deref(), Some("the one of bravo"));
    });
}

#[test]
fn a_damaged_value_is_named_and_holds_nothing_else_up() {
    let folder = filled();
    folder
        .tamper("UPDATE secret SET sealed = zeroblob(length(sealed)) WHERE tenant = 'acme' AND version = 2");
    let store = folder.open();
    wait(async {
        let part = DamagedPart::Secret {
            tenant: tenant("acme"),
            name: name("crm.token"),
            version: Version::from_number(2),
        };
        let refused = get(&store, "acme", "crm.token").await;
        assert!(
            matches!(&refused, Err(SecretError::Damaged { part: found }) if *found == part),
            "{refused:?}"
        );
        let verified = store.verify().await;
        assert!(
            matches!(&verified, Err(SecretError::Damaged { part: found }) if *found == part),
            "{verified:?}"
        );
        assert!(value(&store, "acme", "other").await.is_some());
        // It can be replaced or removed.
        assert!(store.remove(&tenant("acme"), &name("crm.token")).await.unwrap());
        assert_eq!(store.verify().await.unwrap(), 3);
    });
}

#[test]
fn rows_of_an_earlier_state_are_noticed_unless_all_of_them_come_back() {
    let folder = filled();
    let earlier = folder.copy();
    wait(async {
        let store = folder.open();
        put(&store, "acme", "crm.token", "renewed").await;
        store.remove(&tenant("bravo"), &name("crm.token")).await.unwrap();
    });
    let back = |tables: &[&str]| {
        let changed = folder.copy();
        let mut sql = format!("ATTACH '{}' AS earlier;", earlier.path().display());
        for table in tables {
            sql += &format!("DELETE FROM {table}; INSERT INTO main.{table} SELECT * FROM earlier.{table};");
        }
        changed.tamper(&sql);
        changed
    };
    for tables in [&["secret"][..], &["tenant"], &["store"], &["secret", "tenant"], &["secret", "store"]] {
        damaged(&back(tables));
    }
    // Known and said in the crate's documentation: nothing inside the file can witness against a whole earlier state.
    assert!(trouble(&back(&["secret", "tenant", "store"])).is_none());
}

#[test]
fn rows_of_another_store_with_the_same_key_are_noticed() {
    let (folder, mut other) = (filled(), Folder::new());
    other.key = folder.key.clone();
    let there = other.open();
    wait(put(&there, "acme", "crm.token", "of the other store"));
    drop(there);
    for tables in [&["secret"][..], &["secret", "tenant"], &["store"]] {
        let changed = folder.copy();
        let mut sql = format!("ATTACH '{}' AS other;", other.path().display());
        for table in tables {
            sql += &format!("DELETE FROM {table}; INSERT INTO main.{table} SELECT * FROM other.{table};");
        }
        changed.tamper(&sql);
        damaged(&changed);
    }
}

#[test]
fn a_name_that_no_store_has_written_is_not_shown() {
    let folder = filled();
    folder.tamper("UPDATE secret SET name = 'not a name' WHERE name = 'other'");
    assert!("not a name".parse::<SecretName>().is_err());
    assert_eq!(damaged(&folder), DamagedPart::Tenant { tenant: tenant("acme") });
}
