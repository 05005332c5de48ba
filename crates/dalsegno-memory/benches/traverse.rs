//! What a walk three relations deep costs in a memory of 300,000.

use std::fmt::Write as _;
use std::io::Cursor;

use criterion::{Criterion, criterion_group, criterion_main};
use dalsegno_memory::{
    ImportMode, Memory, Principal, Scope, ScopeResolver, ScopeSet, SqliteMemory, Traverse,
};

/// Relations in the memory.
const RELATIONS: u64 = 300_000;

/// Entities that they start from and lead to: three relations each way.
const ENTITIES: u64 = 100_000;

/// Spreads numbers over the entities, the same way each time.
fn spread(number: u64) -> u64 {
    let mixed = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

fn lines() -> String {
    let mut lines = "{\"format\":\"dalsegno-memory\",\"version\":1}\n".to_owned();
    for number in 0..ENTITIES {
        let text = format!("Observation {number} about a service and what happened to it.");
        let _ = writeln!(lines, r#"{{"type":"entity","name":"entity {number}","entity_type":"t"}}"#);
        let _ = writeln!(lines, r#"{{"type":"observation","entity":"entity {number}","text":"{text}"}}"#);
    }
    for number in 0..RELATIONS {
        let (from, to) = (number % ENTITIES, spread(number + 1) % ENTITIES);
        let kind = number / ENTITIES;
        let _ = writeln!(
            lines,
            r#"{{"type":"relation","from":"entity {from}","relation":"r{kind}","to":"entity {to}"}}"#
        );
    }
    lines
}

fn traverse(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let memory = SqliteMemory::open(folder.path().join("memory.db")).expect("a memory");
    let principal = Principal::new("tenant", "workspace", "agent", "session").expect("names");
    let scopes: ScopeSet = ScopeResolver.resolve(&principal, Scope::Workspace);
    let imported = memory.import(&scopes, Box::new(Cursor::new(lines())), ImportMode::Fail, 1);
    let counts = runtime.block_on(imported).expect("an import");
    assert_eq!(counts.added, ENTITIES * 2 + RELATIONS);

    let mut group = criterion.benchmark_group("traverse");
    for (label, depth, limit) in [("depth 1", 1, 50), ("depth 3", 3, 50), ("depth 3, limit 1000", 3, 1_000)] {
        let mut start = 0;
        let mut walk = || {
            start = (start + 7_919) % ENTITIES;
            let asked = Traverse { depth, limit, ..Traverse::new(format!("entity {start}")) };
            runtime.block_on(memory.traverse(&scopes, &asked)).expect("a walk")
        };
        let reached: usize = (0..100).map(|_| walk().entities.len()).sum();
        assert!(reached > 300, "{reached} entities in 100 walks");
        group.bench_function(label, |bencher| bencher.iter(&mut walk));
    }
    group.finish();
}

criterion_group!(benches, traverse);
criterion_main!(benches);
