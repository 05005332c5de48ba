//! Programs that print secrets: small scripts that count how often they were started.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::fs;
use std::path::Path;

use futures::future::join_all;

use super::*;

/// A script in `folder`, with an empty file of starts beside it.
fn script(folder: &Path, text: &str) -> CommandSettings {
    let text = format!("echo start >> starts\n{text}\n");
    fs::write(folder.join("print.sh"), text).unwrap();
    CommandSettings {
        program: "/bin/sh".into(),
        arguments: vec!["print.sh".to_owned()],
        directory: Some(folder.to_owned()),
        hidden_variables: vec!["HOME".to_owned()],
        ttl: Duration::from_secs(3_000),
        timeout: Duration::from_secs(20),
    }
}

fn starts(folder: &Path) -> usize {
    fs::read_to_string(folder.join("starts")).map_or(0, |text| text.lines().count())
}

async fn error(settings: CommandSettings) -> RevealError {
    let error = CommandSecret::new(settings).reveal().await.unwrap_err();
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    error
}

#[tokio::test]
async fn one_start_serves_a_hundred_who_wait() {
    let folder = tempfile::tempdir().unwrap();
    let secret = CommandSecret::new(script(folder.path(), "sleep 0.3; echo token-$$"));
    let values = join_all((0..100).map(|_| secret.reveal())).await;
    let values: Vec<String> = values.into_iter().map(|value| value.unwrap().expose().to_owned()).collect();
    assert!(values[0].starts_with("token-") && values.iter().all(|value| *value == values[0]), "{values:?}");
    assert_eq!(starts(folder.path()), 1);
}

#[tokio::test]
async fn one_failed_start_is_the_answer_to_all_who_waited_and_the_next_one_starts_again() {
    let folder = tempfile::tempdir().unwrap();
    let secret =
        CommandSecret::new(script(folder.path(), "echo hunter2 >&2; echo hunter2; sleep 0.3; exit 3"));
    let values = join_all((0..100).map(|_| secret.reveal())).await;
    for value in values {
        let error = value.unwrap_err();
        assert!(error.transient && error.message.contains("exit status: 3"), "{error:?}");
        assert!(!error.message.contains("hunter2"), "{error:?}");
    }
    assert_eq!(starts(folder.path()), 1);
    secret.reveal().await.unwrap_err();
    assert_eq!(starts(folder.path()), 2);
}

#[tokio::test]
async fn a_value_is_used_for_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let settings = script(folder.path(), "echo token-$$");
    let lasting = CommandSecret::new(settings.clone());
    let first = lasting.reveal().await.unwrap();
    assert_eq!(lasting.reveal().await.unwrap().expose(), first.expose());
    assert_eq!(starts(folder.path()), 1);

    let fleeting = CommandSecret::new(CommandSettings { ttl: Duration::ZERO, ..settings });
    let first = fleeting.reveal().await.unwrap();
    assert_ne!(fleeting.reveal().await.unwrap().expose(), first.expose());
}

#[tokio::test]
async fn a_hundred_refused_values_are_renewed_by_one_start() {
    let folder = tempfile::tempdir().unwrap();
    let secret = CommandSecret::new(script(folder.path(), "sleep 0.1; echo token-$$"));
    let refused = secret.reveal().await.unwrap();
    let renewed = join_all((0..100).map(|_| secret.renew(&refused))).await;
    let renewed: Vec<Secret> =
        renewed.into_iter().map(|value| value.unwrap().expect("another one")).collect();
    assert_ne!(renewed[0].expose(), refused.expose());
    assert!(renewed.iter().all(|value| value.expose() == renewed[0].expose()));
    assert_eq!(starts(folder.path()), 2);
}

#[tokio::test]
async fn a_program_that_has_no_other_value_is_not_started_for_each_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let secret = CommandSecret::new(script(folder.path(), "echo always-the-same"));
    let refused = secret.reveal().await.unwrap();
    for _ in 0..50 {
        assert!(secret.renew(&refused).await.unwrap().is_none());
    }
    assert_eq!(starts(folder.path()), 1 + REFUSALS_PER_MINUTE);
}

#[tokio::test]
async fn a_megabyte_is_refused_and_a_slow_program_ended_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let large = script(folder.path(), "printf hunter2; head -c 1000000 /dev/zero | tr '\\0' a; sleep 60");
    let began = std::time::Instant::now();
    let error_large = error(large).await;
    assert!(error_large.message.contains("more than 65536 bytes"), "{error_large}");

    let slow = script(folder.path(), "echo hunter2; (sleep 1; echo left > left) & sleep 60");
    let error_slow = error(CommandSettings { timeout: Duration::from_millis(300), ..slow }).await;
    assert!(error_slow.transient && error_slow.message.contains("not done within 300ms"), "{error_slow}");
    assert!(began.elapsed() < Duration::from_secs(30));
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(!folder.path().join("left").exists(), "what it started was ended, too");
}

#[tokio::test]
async fn an_output_that_is_no_secret_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (text, words) in [
        ("true", "printed nothing"),
        ("echo '   '", "printed nothing"),
        ("echo 12345", "printed 5 bytes, which is too short"),
        ("printf 'hunter2\\377'", "not UTF-8"),
    ] {
        let error = error(script(folder.path(), text)).await;
        assert!(!error.transient && error.message.contains(words), "{text}: {error}");
    }
    let absent = CommandSettings { program: "no-such-program".into(), ..script(folder.path(), "") };
    let error = error(absent).await;
    assert!(error.message.contains("`no-such-program print.sh` cannot be started"), "{error}");
}

#[tokio::test]
async fn a_program_that_leaves_another_one_behind_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let began = std::time::Instant::now();
    let secret = CommandSecret::new(script(folder.path(), "sleep 60 & echo the-token"));
    assert_eq!(secret.reveal().await.unwrap().expose(), "the-token");
    assert!(began.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn no_shell_reads_the_arguments_and_a_hidden_variable_is_not_seen() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = script(folder.path(), "printf '%s|%s|%s' \"$1\" \"${HOME-unset}\" \"${PATH:+set}\"");
    settings.arguments.push("$(touch bad); `x` \"y".to_owned());
    let secret = CommandSecret::new(settings).reveal().await.unwrap();
    assert_eq!(secret.expose(), "$(touch bad); `x` \"y|unset|set");
    assert!(!folder.path().join("bad").exists());
}

#[tokio::test]
async fn a_start_is_finished_although_its_caller_went_away() {
    let folder = tempfile::tempdir().unwrap();
    let secret = CommandSecret::new(script(folder.path(), "sleep 0.5; echo token-$$"));
    let early = tokio::time::timeout(Duration::from_millis(100), secret.reveal()).await;
    assert!(early.is_err());
    secret.reveal().await.unwrap();
    assert_eq!(starts(folder.path()), 1);
}
