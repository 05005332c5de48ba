//! What is to be delivered, across failures, processes and changes; and where nothing is delivered to.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use dalsegno_net::Resolver;
use dalsegno_webhooks::{
    AttemptResult, Attempted, Delivery, Destinations, Endpoint, Event, Message, NewEndpoint, News, OffReason,
    OpenError, Seen, SendOutcome, Sender, Sent, WebhookStore,
};
use tokio::net::TcpListener;

const HOUR: u64 = 60 * 60 * 1_000;

fn open(folder: &Path) -> WebhookStore {
    WebhookStore::open(folder.join("private/webhooks.db")).unwrap()
}

fn new(events: &[Event]) -> NewEndpoint {
    NewEndpoint {
        name: None,
        url: Destinations::new([]).check("https://hooks.example.com/in").unwrap(),
        tenant: Some("acme".to_owned()),
        events: events.iter().copied().collect(),
        agent: None,
        root: false,
        content: false,
        position: 10,
    }
}

fn seen(change: u64, run: &[u8; 16], event: Event, records: u64) -> Seen<'_> {
    Seen { change, run, event: Some(event), records, agent: "echo", tenant: "acme", is_root: true }
}

fn due(store: &WebhookStore, endpoint: &Endpoint, now: u64) -> Vec<Delivery> {
    store.due(endpoint, now, 100, |_| false).unwrap()
}

fn settle(store: &WebhookStore, delivery: &Delivery, outcome: SendOutcome, at: u64) -> Vec<News> {
    let sent = Sent { outcome, status: None, retry_after: None };
    let (id, endpoint) = (delivery.id.clone(), delivery.endpoint.id.clone());
    store.settle(&[Attempted { id, endpoint, began_at: at, result: AttemptResult::Sent(sent) }], at).unwrap()
}

#[test]
fn an_end_is_noted_once_and_forgotten_when_it_was_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let (store, other) = (open(folder.path()), open(folder.path()));
    let (endpoint, _) = store.add(&new(Event::ALL), 0).unwrap();
    assert_eq!(store.place().unwrap(), Some(10));
    let changes = [seen(11, &[1; 16], Event::Suspended, 4), seen(12, &[2; 16], Event::Completed, 5)];
    store.take(10, &changes, 1).unwrap();
    // A process that died in between takes them again.
    other.take(10, &changes, 2).unwrap();
    let waiting = due(&store, &endpoint, 3);
    assert_eq!(waiting.iter().map(|one| one.event).collect::<Vec<_>>(), [Event::Suspended, Event::Completed]);
    assert_eq!(due(&other, &endpoint, 3), waiting, "every process has the same ids");
    waiting.iter().for_each(|one| assert_eq!(settle(&store, one, SendOutcome::Delivered, 4), []));
    other.take(10, &changes, 5).unwrap();
    // What is found out late about an ended run is no other end.
    store.take(12, &[seen(13, &[2; 16], Event::Completed, 7)], 6).unwrap();
    assert_eq!(due(&store, &endpoint, 7), []);
    assert_eq!(store.place().unwrap(), Some(13));
    let told = store.find(&endpoint.id).unwrap().unwrap();
    assert_eq!((told.delivered, told.waiting, told.delivered_at), (2, 0, Some(4)));
}

#[test]
fn only_what_an_endpoint_wants_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let wanted = NewEndpoint { agent: Some("echo".to_owned()), root: true, ..new(&[Event::Completed]) };
    let (endpoint, _) = store.add(&wanted, 0).unwrap();
    let base = seen(11, &[1; 16], Event::Completed, 4);
    let changes = [
        Seen { change: 11, run: &[1; 16], tenant: "rival", ..base },
        Seen { change: 12, run: &[2; 16], agent: "other", ..base },
        Seen { change: 13, run: &[3; 16], is_root: false, ..base },
        Seen { change: 14, run: &[4; 16], event: Some(Event::Failed), ..base },
        Seen { change: 15, run: &[5; 16], event: None, ..base },
        Seen { change: 16, run: &[6; 16], ..base },
    ];
    store.take(10, &changes, 1).unwrap();
    assert_eq!(due(&store, &endpoint, 2).iter().map(|one| one.run).collect::<Vec<_>>(), [[6; 16]]);
    // One that was added later gets nothing of what was before it.
    let (late, _) = store.add(&NewEndpoint { position: 16, ..new(Event::ALL) }, 3).unwrap();
    store.take(10, &changes, 4).unwrap();
    assert_eq!(due(&store, &late, 5), []);
}

#[test]
fn one_that_fails_for_a_day_is_off_and_what_it_missed_is_noted_when_it_is_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (endpoint, _) = store.add(&new(Event::ALL), 0).unwrap();
    let id = endpoint.id.as_str();
    store.take(10, &[seen(11, &[1; 16], Event::Completed, 4)], 0).unwrap();
    let first = due(&store, &endpoint, 0)[0].id.clone();
    let (mut now, mut attempts) = (0, 0);
    let news = loop {
        let delivery = due(&store, &endpoint, now).pop().unwrap();
        assert_eq!(delivery.id, first, "the same id in each attempt");
        let news = settle(&store, &delivery, SendOutcome::Refused, now);
        attempts += 1;
        if !news.is_empty() {
            break news;
        }
        assert!(due(&store, &endpoint, now).is_empty() && store.ready(now).unwrap().is_empty(), "no pause");
        let next = store.next_at().unwrap().unwrap();
        assert!(next > now && next <= now + HOUR * 6 / 5, "{now} {next}");
        now = next;
    };
    assert_eq!(news, [News::Off { endpoint: id.to_owned(), reason: OffReason::Failing }]);
    assert!((24 * HOUR..26 * HOUR).contains(&now) && attempts >= 10, "{now} {attempts}");
    assert_eq!(store.place().unwrap(), None, "nothing is read for one that is off");
    assert_eq!(store.load().unwrap().off, 1);
    let on = store.enable(id, now).unwrap();
    assert_eq!((store.place().unwrap(), on.off, on.waiting), (Some(11), None, 1));
    store.take(11, &[seen(12, &[2; 16], Event::Failed, 4)], now).unwrap();
    assert_eq!(due(&store, &endpoint, now).len(), 2);
}

#[test]
fn a_delivery_that_fails_alone_for_a_day_is_given_up_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (endpoint, _) = store.add(&new(Event::ALL), 0).unwrap();
    store.take(10, &[seen(11, &[1; 16], Event::Completed, 4)], 0).unwrap();
    let poison = due(&store, &endpoint, 0).pop().unwrap();
    for hour in 0_u8..24 {
        assert_eq!(settle(&store, &poison, SendOutcome::Refused, u64::from(hour) * HOUR), []);
        let (change, run) = (12 + u64::from(hour), [hour + 2; 16]);
        store.take(change - 1, &[seen(change, &run, Event::Completed, 4)], 0).unwrap();
        let other = due(&store, &endpoint, u64::from(hour) * HOUR + 1).into_iter().find(|one| one.run == run);
        assert_eq!(settle(&store, &other.unwrap(), SendOutcome::Delivered, u64::from(hour) * HOUR + 1), []);
    }
    let news = settle(&store, &poison, SendOutcome::Refused, 24 * HOUR);
    assert_eq!(news, [News::GivenUp { endpoint: endpoint.id.clone(), id: poison.id }]);
    let told = store.find(&endpoint.id).unwrap().unwrap();
    assert_eq!((told.off, told.given_up, told.waiting, told.delivered), (None, 1, 0, 24));
}

#[test]
fn one_process_delivers_and_another_one_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (open(folder.path()), open(folder.path()));
    let turn = one.take_turn().unwrap();
    assert!(turn.is_some() && other.take_turn().unwrap().is_none());
    drop(turn);
    assert!(other.take_turn().unwrap().is_some());
}

#[test]
fn another_programs_file_and_another_key_are_refused_and_no_secret_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (_, secret) = store.add(&new(Event::ALL), 0).unwrap();
    let secret = secret.expose();
    for file in std::fs::read_dir(folder.path().join("private")).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(40).any(|window| window == &secret.as_bytes()[6..46]), "{}", path.display());
    }
    drop(store);
    std::fs::write(folder.path().join("private/webhooks.key"), [7; 32]).unwrap();
    let opened = WebhookStore::open(folder.path().join("private/webhooks.db"));
    assert!(matches!(opened, Err(OpenError::OtherKey { .. })));
    let path = folder.path().join("other.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE endpoint (id TEXT)").unwrap();
    assert!(matches!(
        WebhookStore::open(&path),
        Err(OpenError::File(dalsegno_database::OpenError::Foreign { .. }))
    ));
}

/// Answers with this machine, whatever is asked.
struct Here;

#[async_trait::async_trait]
impl Resolver for Here {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec!["127.0.0.1".parse().unwrap()])
    }
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_not_dialled() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("https://hooks.example.com:{port}/in");
    let message = || Message { id: "msg_1".to_owned(), at: 1, body: b"{}".to_vec() };
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (endpoint, _) = store.add(&new(Event::ALL), 0).unwrap();
    let secrets = store.secrets(&endpoint, 0);
    let sender = Sender::new(Destinations::with_resolver([], Arc::new(Here)));
    let sent = sender.send(&url, &secrets, message()).await;
    assert_eq!((sent.outcome, sent.status), (SendOutcome::Blocked, None));
    assert!(!sent.failure().contains("127"), "nothing of what a name server said: {}", sent.failure());
    // The same where the operator lists the address: then it is dialled, and this receiver speaks no TLS.
    let listed = [format!("https://127.0.0.1:{port}").parse().unwrap()];
    let sender = Sender::new(Destinations::with_resolver(listed, Arc::new(Here)));
    let (sent, accepted) = tokio::join!(sender.send(&url, &secrets, message()), async {
        drop(listener.accept().await.unwrap());
    });
    let () = accepted;
    assert_ne!(sent.outcome, SendOutcome::Blocked);
}

#[test]
fn what_is_damaged_hides_no_other_webhook_and_keeps_no_other_delivery() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let endpoints: Vec<Endpoint> = (0..4).map(|_| store.add(&new(Event::ALL), 0).unwrap().0).collect();
    let changes = [seen(11, &[1; 16], Event::Completed, 4), seen(12, &[2; 16], Event::Completed, 5)];
    store.take(10, &changes, 1).unwrap();
    let sound = store.list(None, None, 1).unwrap().pop().unwrap();
    let others: Vec<&Endpoint> = endpoints.iter().filter(|one| one.id != sound.id).collect();
    let file = rusqlite::Connection::open(folder.path().join("private/webhooks.db")).unwrap();
    for (endpoint, damage) in others.iter().zip([
        "UPDATE endpoint SET events = 'run.vanished' WHERE id = ?1",
        "UPDATE endpoint SET generation = -1 WHERE id = ?1",
        "UPDATE endpoint SET off_at = 1, off_reason = 'tired' WHERE id = ?1",
    ]) {
        assert_eq!(file.execute(damage, [&endpoint.id]).unwrap(), 1);
    }
    let damage = "UPDATE delivery SET run = x'00' WHERE endpoint = ?1 AND change = 11";
    assert_eq!(file.execute(damage, [&sound.id]).unwrap(), 1);
    for limit in [1, 10] {
        let listed = store.list(Some("acme"), None, limit).unwrap();
        assert_eq!(listed.iter().map(|one| &one.id).collect::<Vec<_>>(), [&sound.id]);
    }
    for endpoint in others {
        let found = store.find(&endpoint.id);
        assert!(matches!(found, Err(dalsegno_webhooks::WebhookError::Damaged { .. })), "{found:?}");
    }
    assert_eq!(store.ready(2).unwrap().len(), 1);
    assert_eq!(due(&store, &sound, 2).iter().map(|one| one.run).collect::<Vec<_>>(), [[2; 16]]);
}

#[test]
fn one_that_lags_behind_hides_no_other_that_is_ahead_of_its_journal() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.add(&new(Event::ALL), 0).unwrap();
    store.take(10, &[seen(13, &[1; 16], Event::Completed, 4)], 1).unwrap();
    store.add(&new(Event::ALL), 0).unwrap();
    assert_eq!((store.place().unwrap(), store.furthest().unwrap()), (Some(10), 13));
    // The journal is an earlier copy, which ends at 11.
    assert!(store.rewind(11).unwrap());
    assert_eq!((store.place().unwrap(), store.furthest().unwrap()), (Some(10), 11));
}
