//! `dalsegno bench`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{FILTERS, Workspace, photograph};

/// What differs from machine to machine.
const FIGURES: &[(&str, &str)] = &[
    (r"this is a debug build[^\n]*\n", ""),
    // The second column of the table, and the marks behind the budgets.
    (
        r"(?m)^(turns a second|a turn, first tenth|a turn, last tenth|F, a commit of 1 KiB|F before/amid/after|a turn in 2F|CPU a step|steps an fsync|journal on disk|peak memory|replay) {2,}\d.*?( {2,}|$)",
        "$1  [FIGURE]  ",
    ),
    (r" +(kept|missed)", "  [MARK]"),
    (r"(?m) +$", ""),
    (r"WHAT +MEASURED +BUDGET", "WHAT  MEASURED  BUDGET"),
    // The document's own.
    (
        r#""(seconds|turns_per_second|all|first_tenth|last_tenth|before|middle|after|ratio_to_2f|cpu_us_per_step|commits|steps_per_fsync|disk_bytes|disk_bytes_per_turn|peak_memory_bytes|replay_steps_per_second)": \d[\d.]*"#,
        "\"$1\": [FIGURE]",
    ),
    (r#""kept": (true|false)"#, "\"kept\": [MARK]"),
    (r#""build": "\w+""#, "\"build\": [BUILD]"),
];

/// A photograph with all figures masked.
macro_rules! figures {
    ($output:expr, @$snapshot:literal) => {
        insta::with_settings!({ filters => FIGURES.to_vec() }, {
            insta::assert_snapshot!($output, @$snapshot);
        });
    };
}

/// What is in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn more_runs_than_a_tenant_may_have_calls_are_measured_as_well() {
    let workspace = Workspace::empty();
    let document = workspace.json(&["bench", "--turns", "10", "--runs", "70"]);
    assert_eq!((&document["runs"], &document["turns"]), (&70.into(), &10.into()));
}

#[test]
fn a_disk_is_measured_and_nothing_is_left_behind() {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "hello"]);
    let (here, beside) = (names(&workspace.path("")), names(&workspace.path(".dalsegno")));
    let journal = fs::read(workspace.path(".dalsegno/dalsegno.db")).unwrap();
    figures!(workspace.dalsegno(&["bench", "--turns", "40"]), @r"
        exit code: 0
        --- stdout
        WHAT  MEASURED  BUDGET
        turns a second  [FIGURE]
        a turn, first tenth  [FIGURE]
        a turn, last tenth  [FIGURE]  the same
        F, a commit of 1 KiB  [FIGURE]
        F before/amid/after  [FIGURE]
        a turn in 2F  [FIGURE]  ≤ 1.5 (1 run)  [MARK]
        CPU a step  [FIGURE]  ≤ 60 µs (100 runs)
        steps an fsync  [FIGURE]  ≥ 30 (100 runs)
        journal on disk  [FIGURE]  ≤ 600 B a turn  [MARK]
        peak memory  [FIGURE]  ≤ 40.0 MB (1 run)  [MARK]
        replay  [FIGURE]  ≥ 100,000 steps/s  [MARK]
        --- stderr
        measuring the disk of `[WORKSPACE]/.dalsegno`: 1 run of 40 turns
        ");
    assert_eq!((names(&workspace.path("")), names(&workspace.path(".dalsegno"))), (here, beside));
    assert_eq!(fs::read(workspace.path(".dalsegno/dalsegno.db")).unwrap(), journal);
    assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 1);
}

#[test]
fn figures_are_for_programs_too() {
    // No workspace: the disk of the current folder.
    let folder = Workspace::empty();
    let output = folder.dalsegno(&["bench", "--turns", "20", "--runs", "3", "--json"]);
    figures!(output, @r#"
        exit code: 0
        --- stdout
        {
          "place": "[WORKSPACE]",
          "build": [BUILD],
          "turns": 20,
          "runs": 3,
          "steps": 123,
          "seconds": [FIGURE],
          "turns_per_second": [FIGURE],
          "turn_ms": {
            "all": [FIGURE],
            "first_tenth": [FIGURE],
            "last_tenth": [FIGURE]
          },
          "floor_ms": {
            "all": [FIGURE],
            "before": [FIGURE],
            "middle": [FIGURE],
            "after": [FIGURE]
          },
          "ratio_to_2f": [FIGURE],
          "cpu_us_per_step": [FIGURE],
          "commits": [FIGURE],
          "steps_per_fsync": [FIGURE],
          "disk_bytes": [FIGURE],
          "disk_bytes_per_turn": [FIGURE],
          "transcript_bytes": 5306,
          "peak_memory_bytes": [FIGURE],
          "replay_steps_per_second": [FIGURE],
          "budgets": [
            {
              "figure": "ratio_to_2f",
              "at_most": 1.5,
              "kept": null
            },
            {
              "figure": "cpu_us_per_step",
              "at_most": 60.0,
              "kept": null
            },
            {
              "figure": "steps_per_fsync",
              "at_least": 30.0,
              "kept": null
            },
            {
              "figure": "disk_bytes_per_turn",
              "at_most": 600.0,
              "kept": [MARK]
            },
            {
              "figure": "peak_memory_bytes",
              "at_most": 40010612.0,
              "kept": null
            },
            {
              "figure": "replay_steps_per_second",
              "at_least": 100000.0,
              "kept": [MARK]
            }
          ]
        }
        --- stderr
        measuring the disk of `[WORKSPACE]`: 3 runs of 20 turns
        "#);
    assert_eq!(names(&folder.path("")), [] as [&str; 0]);
    let document = folder.json(&["bench", "--turns", "20", "--runs", "3"]);
    // A turn is two steps, and each run ends with one more.
    assert_eq!(document["steps"], 3 * 41);
    let figure = |name: &str| document[name].as_f64().unwrap_or_else(|| panic!("{name}: {document}"));
    for name in ["turns_per_second", "ratio_to_2f", "disk_bytes_per_turn", "replay_steps_per_second"] {
        assert!(figure(name) > 0.0, "{name}: {document}");
    }
    let shared = figure("steps") / figure("commits");
    assert!((figure("steps_per_fsync") - shared).abs() < 0.01, "{document}");
    // Only what is meant for this many runs is judged.
    let judged = |figure: &str| {
        let budgets = document["budgets"].as_array().unwrap().iter();
        budgets.clone().find(|budget| budget["figure"] == figure).unwrap()["kept"].is_boolean()
    };
    assert!(judged("disk_bytes_per_turn") && judged("replay_steps_per_second"), "{document}");
    assert!(!judged("ratio_to_2f") && !judged("steps_per_fsync"), "{document}");
}

#[test]
fn numbers_that_measure_nothing_are_refused() {
    let folder = Workspace::empty();
    for wrong in
        ["--turns=0", "--turns=9", "--turns=40001", "--turns=ten", "--turns=-5", "--runs=0", "--runs=1001"]
    {
        let output = folder.dalsegno(&["bench", wrong]);
        assert!(output.starts_with("exit code: 2\n"), "{wrong}: {output}");
        assert!(output.contains("--turns <N>") || output.contains("--runs <M>"), "{wrong}: {output}");
    }
}

#[test]
#[cfg(unix)]
fn a_measurement_that_is_interrupted_leaves_nothing_behind() {
    let workspace = Workspace::plain();
    // Far more turns than the test has time for, so that only the signal ends it.
    let mut command = workspace.command(&["bench", "--turns", "40000", "--runs", "2"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut words = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    words.read_line(&mut line).unwrap();
    assert!(line.starts_with("measuring the disk of"), "{line}");
    // It is on its way once its journal grows.
    let folder = names(&workspace.path(".dalsegno")).remove(0);
    let log = workspace.path(&format!(".dalsegno/{folder}/.dalsegno/dalsegno.db-wal"));
    while !fs::metadata(&log).is_ok_and(|log| log.len() > 100_000) {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut words, &mut rest).unwrap();
    let output = workspace.shown(&child.wait_with_output().unwrap()) + &rest;
    insta::with_settings!({ filters => [FILTERS, &FIGURES[..1]].concat() }, {
        insta::assert_snapshot!(output, @r"
            exit code: 130
            --- stdout
            --- stderr
            error: stopped before the measurement finished
              help: nothing was left behind: try again
            ");
    });
    assert!(!workspace.path(".dalsegno").exists(), "{:?}", names(&workspace.path(".dalsegno")));
}

#[test]
fn a_place_where_nothing_can_be_written_is_told() {
    let workspace = Workspace::plain();
    workspace.write(".dalsegno", "a file in the place of the folder");
    photograph!(workspace.dalsegno(&["bench"]), @r"
        exit code: 1
        --- stdout
        --- stderr
        error: cannot measure in `[WORKSPACE]/.dalsegno`: Not a directory (os error 20)
          help: name a workspace on the disk to measure that this user may write: `--workspace DIR`
        ");
}
