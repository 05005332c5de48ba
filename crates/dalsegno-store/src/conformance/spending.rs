//! What accounts may spend on a day.

use std::sync::Arc;

use crate::spending::{Allowance, ReserveError};
use crate::store::Store;

fn allowance(account: &str, day: &str, most_nano_usd: u64) -> Allowance {
    Allowance { account: account.into(), day: day.into(), most_nano_usd }
}

/// A reservation takes of all allowances or of none, and says which one has no room.
pub async fn a_reservation_takes_of_all_allowances_or_of_none<S: Store>(new: impl Fn() -> S) {
    let store = new();
    let (acme, all) = (allowance("acme", "2026-11-25", 100), allowance("*", "2026-11-25", 130));
    store.reserve(&[all.clone(), acme.clone()], 60).await.unwrap();
    let refused = store.reserve(&[all.clone(), acme.clone()], 41).await.unwrap_err();
    assert!(
        matches!(&refused, ReserveError::Exhausted { index: 1, spent_nano_usd: 60, account, .. } if account == "acme"),
        "{refused:?}"
    );
    assert_eq!(
        store.spent("*", "2026-11-25").await.unwrap(),
        60,
        "nothing was reserved of the first one either"
    );
    store.reserve(&[all.clone(), acme.clone()], 40).await.unwrap();
    // Another account, and another day of the same one, have their own.
    store.reserve(&[allowance("other", "2026-11-25", 100)], 100).await.unwrap();
    store.reserve(&[allowance("acme", "2026-11-26", 100)], 100).await.unwrap();
    let refused = store.reserve(&[all, allowance("third", "2026-11-25", 100)], 31).await.unwrap_err();
    assert!(matches!(refused, ReserveError::Exhausted { index: 0, spent_nano_usd: 100, .. }), "{refused:?}");
    assert_eq!(store.spent("third", "2026-11-25").await.unwrap(), 0);
}

/// What was reserved is replaced by what was spent, be it less or more.
pub async fn a_settled_reservation_is_replaced_by_what_was_spent<S: Store>(new: impl Fn() -> S) {
    let store = new();
    let allowances = [allowance("acme", "2026-11-25", 100), allowance("*", "2026-11-25", 1_000)];
    let spent = || async {
        let acme = store.spent("acme", "2026-11-25").await.unwrap();
        (acme, store.spent("*", "2026-11-25").await.unwrap())
    };
    store.reserve(&allowances, 70).await.unwrap();
    store.settle(&allowances, 70, 20).await.unwrap();
    assert_eq!(spent().await, (20, 20));
    store.reserve(&allowances, 80).await.unwrap();
    store.settle(&allowances, 80, 0).await.unwrap();
    assert_eq!(spent().await, (20, 20));
    store.reserve(&allowances, 10).await.unwrap();
    store.settle(&allowances, 10, 90).await.unwrap();
    assert_eq!(spent().await, (110, 110), "an estimate was too low: what was spent is told as it was");
    assert!(store.reserve(&allowances, 0).await.is_err());
    assert!(store.reserve(&[allowance("acme", "2026-11-26", u64::MAX)], u64::MAX).await.is_ok());
}

/// Of many that reserve at once, exactly those have room that fit.
pub async fn no_more_is_reserved_than_allowed_however_many_ask_at_once<S: Store + 'static>(
    new: impl Fn() -> S,
) {
    let store = Arc::new(new());
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(
                async move { store.reserve(&[allowance("acme", "2026-11-25", 1_000)], 30).await.is_ok() },
            )
        })
        .collect();
    let mut reserved = 0;
    for task in tasks {
        reserved += usize::from(task.await.unwrap());
    }
    assert_eq!((reserved, store.spent("acme", "2026-11-25").await.unwrap()), (33, 990));
}
