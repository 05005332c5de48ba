//! The dialogue that a new session is given stays within its bounds, and no output stands in it without its call.

use std::collections::BTreeSet;

use dalsegno_realtime::{Dialogue, Item};
use proptest::prelude::*;

fn item() -> impl Strategy<Value = Item> {
    let text = || (0_usize..40_000).prop_map(|length| "x".repeat(length));
    prop_oneof![text().prop_map(Item::Caller), text().prop_map(Item::Agent), text().prop_map(Item::Note),]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn it_is_bounded_and_whole(items in prop::collection::vec((item(), any::<bool>()), 1..600)) {
        let mut dialogue = Dialogue::default();
        let mut open = Vec::new();
        for (number, (item, calls)) in items.into_iter().enumerate() {
            if calls {
                let call_id = format!("c{number}");
                dialogue.push(Item::Call { call_id: call_id.clone(), name: "a".into(), arguments: "{}".into() });
                open.push(call_id);
            } else if let Some(call_id) = (number % 3 == 0).then(|| open.pop()).flatten() {
                dialogue.push(item);
                dialogue.push(Item::Output { call_id, content: "x".repeat(16_000) });
            } else {
                dialogue.push(item);
            }
            let mut calls = BTreeSet::new();
            let mut bytes = 0;
            for item in dialogue.items() {
                match item {
                    Item::Call { call_id, .. } => { calls.insert(call_id.clone()); }
                    Item::Output { call_id, content } => {
                        prop_assert!(calls.contains(call_id), "{call_id} has no call");
                        bytes += content.len();
                    }
                    Item::Caller(text) | Item::Agent(text) | Item::Note(text) => bytes += text.len(),
                }
            }
            prop_assert!(bytes <= 256 * 1_024 && dialogue.items().count() <= 512);
        }
    }
}
