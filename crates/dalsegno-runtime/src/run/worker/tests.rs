//! How a worker treats runs that it lost, cannot resume, or has left alone for a while.

use super::*;

const RUN: RunId = RunId::from_bytes([7; 16]);

fn hands() -> Hands {
    Hands {
        tasks: JoinSet::new(),
        under_way: BTreeMap::new(),
        pauses: BTreeMap::new(),
        report: WorkerReport::default(),
    }
}

/// Lets a run that was taken come to this, and returns what was told.
async fn came_to(hands: &mut Hands, error: AppendError) -> Vec<String> {
    let task = hands.tasks.spawn(async move {
        Task::Over(Err(EngineError::Run(RunFailure::Append { run: RUN, source: error })))
    });
    hands.under_way.insert(task.id(), (RUN, 0, watch::Sender::new(Stop::Go)));
    let joined = hands.tasks.join_next_with_id().await.unwrap();
    let mut told = Vec::new();
    hands.done(joined, &mut |event| told.push(format!("{event:?}")));
    told
}

#[tokio::test]
async fn a_run_that_another_process_took_is_no_failure() {
    let mut taken = hands();
    let told = came_to(&mut taken, AppendError::Fenced { run: RUN, epoch: 1, current: 2 }).await;
    assert_eq!(told, [""; 0]);
    assert!(taken.pauses.is_empty(), "it is free to be taken again");
    assert_eq!(taken.finish().failed, 0);
    // One that cannot be written is.
    let mut lost = hands();
    let told = came_to(&mut lost, AppendError::UnknownRun { run: RUN }).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(lost.finish().failed, 1);
}

#[test]
fn a_message_ends_the_pause_of_a_run() {
    let now = Instant::now();
    for (failure, length) in
        [(None, FIRST_PAUSE), (None, LONGEST_PAUSE), (Some("away".to_owned()), LONGEST_PAUSE)]
    {
        let mut hands = hands();
        hands.pauses.insert(RUN, Pause { until: now + length, length, newest: 3, failure });
        assert!(!matches!(hands.may_take(RUN, 3, now), Take::Now), "{length:?}");
        assert!(matches!(hands.may_take(RUN, 4, now), Take::Now), "{length:?}");
        assert!(matches!(hands.may_take(RUN, 3, now + length), Take::Now), "{length:?}");
    }
}
