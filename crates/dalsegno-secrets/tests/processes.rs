//! Several processes with one file, and processes that are killed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Folder, NOW, name, put, tenant, value, wait};
use dalsegno_secrets::{
    KeyFile, KeySource, OpenError, Put, Rotation, Secret, SecretError, SecretStore, SqliteSecrets,
};

/// What a child process is to do: `put NUMBER`, `rotate KEY-FILE`.
const TASK: &str = "DALSEGNO_SECRETS_TEST_TASK";
const FOLDER: &str = "DALSEGNO_SECRETS_TEST_FOLDER";

fn spawn(test: &str, folder: &Path, task: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .envs([(TASK, task.as_ref()), (FOLDER, folder.as_os_str())])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Says something to the parent, on a line of its own.
fn tell(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n> {what}").unwrap();
    out.flush().unwrap();
}

/// Lets children that are ready begin at the same time.
fn begin(children: &mut [Child]) {
    for child in children {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }
}

/// Does what the parent wants, in a child; says whether this is one.
fn child() -> bool {
    let Ok(task) = std::env::var(TASK) else { return false };
    let folder = std::env::var_os(FOLDER).unwrap();
    let folder = Path::new(&folder);
    let (verb, what) = task.split_once(' ').unwrap();
    let key = KeyFile::new(folder.join("old.key")).master_key().unwrap();
    let store = SqliteSecrets::open(folder.join("secrets.db"), &key).unwrap();
    tell("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    wait(async {
        if verb == "rotate" {
            let new = KeyFile::new(folder.join(what)).master_key().unwrap();
            // Those that put leave it little room: it asks again when it came to nothing for that.
            loop {
                match store.rotate_key(&new, Rotation::Everything).await {
                    Ok(_) => return tell("rotated"),
                    Err(SecretError::WrongKey { .. }) => return tell("refused"),
                    Err(SecretError::Busy { .. }) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
        }
        for number in 0..100_000 {
            let put = Put::new(Secret::new(&format!("{what}-{number}")), NOW);
            match store.put(&tenant("acme"), &name(&format!("n{what}-{number}")), put).await {
                Ok(_) => tell(&format!("put {number}")),
                Err(SecretError::WrongKey { .. }) => return tell("refused"),
                Err(other) => panic!("{other:?}"),
            }
        }
    });
    true
}

fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    lines.filter_map(|line| line.strip_prefix("> ").map(str::to_owned))
}

fn folder() -> (Folder, [KeyFile; 3]) {
    let mut folder = Folder::new();
    let keys = ["old.key", "new.key", "newer.key"]
        .map(|key| KeyFile::create(folder.folder.path().join(key)).unwrap());
    folder.key = keys[0].master_key().unwrap();
    (folder, keys)
}

#[test]
fn of_two_processes_that_rotate_at_once_one_wins_and_no_put_is_lost() {
    if child() {
        return;
    }
    let (mut folder, keys) = folder();
    drop(folder.open());
    let tasks = ["rotate new.key", "rotate newer.key", "put 0", "put 1"];
    let test = "of_two_processes_that_rotate_at_once_one_wins_and_no_put_is_lost";
    let mut children = tasks.map(|task| spawn(test, folder.folder.path(), task));
    let mut heard = children.each_mut().map(lines);
    for lines in &mut heard {
        assert_eq!(lines.next().as_deref(), Some("ready"));
    }
    // Those that put have begun before those that rotate do.
    begin(&mut children[2..]);
    let [one, other, first, second] = &mut heard;
    let mut put: Vec<Vec<String>> = [first, second].map(|lines| vec![lines.next().unwrap()]).into();
    begin(&mut children[..2]);
    let rotated = [one, other].map(|lines| lines.next().unwrap());
    for (lines, put) in heard[2..].iter_mut().zip(&mut put) {
        put.extend(lines);
    }
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }

    let winner = match [&*rotated[0], &*rotated[1]] {
        ["rotated", "refused"] => &keys[1],
        ["refused", "rotated"] => &keys[2],
        _ => panic!("{rotated:?}"),
    };
    assert!(matches!(folder.refusal(), OpenError::WrongKey { .. }));
    folder.key = winner.master_key().unwrap();
    let store = folder.open();
    wait(async {
        let mut count = 0;
        for (writer, lines) in put.iter().enumerate() {
            let (last, lines) = lines.split_last().unwrap();
            assert_eq!(last, "refused", "with the old key");
            for line in lines {
                let number = line.strip_prefix("put ").unwrap();
                let found = value(&store, "acme", &format!("n{writer}-{number}")).await;
                assert_eq!(found, Some(format!("{writer}-{number}")));
                count += 1;
            }
        }
        assert!(store.verify().await.unwrap() >= count);
        assert!(count >= 2);
    });
}

#[test]
fn after_a_kill_in_a_rotation_one_key_opens_everything() {
    if child() {
        return;
    }
    let (folder, keys) = folder();
    let store = folder.open();
    wait(async {
        for number in 0..150 {
            put(&store, "acme", &format!("n{number}"), &format!("{number} ").repeat(4_000)).await;
        }
    });
    drop(store);
    let [old, new] = [&keys[0], &keys[1]].map(|key| key.master_key().unwrap());
    let (mut before, mut after) = (0, 0);
    // From before the rotation until after it, as long as one takes here; the rest is chance.
    for millis in (0..24).map(|kill| kill * kill / 2) {
        let copy = folder.copy();
        for key in ["old.key", "new.key"] {
            std::fs::copy(folder.folder.path().join(key), copy.folder.path().join(key)).unwrap();
        }
        let test = "after_a_kill_in_a_rotation_one_key_opens_everything";
        let mut children = [spawn(test, copy.folder.path(), "rotate new.key")];
        let mut heard = lines(&mut children[0]);
        assert_eq!(heard.next().as_deref(), Some("ready"));
        begin(&mut children);
        std::thread::sleep(Duration::from_millis(millis));
        let [child] = &mut children;
        child.kill().unwrap();
        child.wait().unwrap();
        let told = heard.next();
        let store = match SqliteSecrets::open(copy.path(), &old) {
            Ok(store) => {
                assert_eq!(told, None, "a rotation that was acknowledged is gone");
                assert!(matches!(SqliteSecrets::open(copy.path(), &new), Err(OpenError::WrongKey { .. })));
                before += 1;
                store
            }
            Err(OpenError::WrongKey { expected, .. }) => {
                assert_eq!(expected, new.id());
                after += 1;
                SqliteSecrets::open(copy.path(), &new).unwrap()
            }
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(wait(store.verify()).unwrap(), 150);
    }
    println!("killed before the commit: {before}, after it: {after}");
    assert!(before > 0, "no kill came before the commit");
}
