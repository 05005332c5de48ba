//! Journals that are damaged, or that cannot be opened.

use std::fs;

use crate::support::{Workspace, photograph};

#[test]
fn a_flipped_byte_is_found_and_told() {
    let workspace = Workspace::plain();
    workspace.succeed(&["run", "note", "disk full on db-1"]);
    let journal = workspace.path(".dalsegno/dalsegno.db");
    assert!(!workspace.path(".dalsegno/dalsegno.db-wal").exists(), "the journal was not closed");
    let database = rusqlite::Connection::open(&journal).unwrap();
    let (key, mut body): (i64, Vec<u8>) = database
        .query_row("SELECT key, body FROM record ORDER BY key DESC LIMIT 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    let middle = body.len() / 2;
    body[middle] ^= 1;
    database.execute("UPDATE record SET body = ?2 WHERE key = ?1", rusqlite::params![key, body]).unwrap();
    drop(database);
    photograph!(workspace.dalsegno(&["replay", "last"]), @r"
        exit code: 1
        --- stdout
        --- stderr
        error: record 5 of run [SHORT] is damaged: its content does not have its checksum; the 5 records before it are intact
          help: restore the journal from a backup; the first 5 records of this run still verify
        ");
    photograph!(workspace.dalsegno(&["show", "last", "--json"]), @r#"
        exit code: 1
        --- stdout
        {
          "error": {
            "code": "damaged",
            "message": "record 5 of run [ID] is damaged: its content does not have its checksum; the 5 records before it are intact",
            "help": "restore the journal from a backup; the first 5 records of this run still verify"
          }
        }
        --- stderr
        error: record 5 of run [SHORT] is damaged: its content does not have its checksum; the 5 records before it are intact
          help: restore the journal from a backup; the first 5 records of this run still verify
        "#);
    // The list does not need the damaged record.
    assert!(workspace.succeed(&["runs"]).contains("completed"));
}

#[test]
fn a_folder_in_the_place_of_the_journal_is_told() {
    let workspace = Workspace::plain();
    fs::create_dir_all(workspace.path(".dalsegno/dalsegno.db")).unwrap();
    photograph!(workspace.dalsegno(&["run", "note", "hello"]), @r"
        exit code: 1
        --- stdout
        --- stderr
        warning: other users could use `.dalsegno` (mode 0755): it is closed to them now; what it holds may be known to them
        error: `[WORKSPACE]/.dalsegno/dalsegno.db` is a folder, not a journal: name a file, such as `journal.db` in that folder
        ");
}

#[test]
fn a_text_in_the_place_of_the_journal_is_told() {
    let workspace = Workspace::plain();
    workspace.write(".dalsegno/dalsegno.db", &"these are my notes\n".repeat(100));
    photograph!(workspace.dalsegno(&["run", "note", "hello"]), @r"
        exit code: 1
        --- stdout
        --- stderr
        warning: other users could use `.dalsegno` (mode 0755): it is closed to them now; what it holds may be known to them
        error: `[WORKSPACE]/.dalsegno/dalsegno.db` is not a journal: it is not a SQLite database, or its header is damaged; restore it from a backup, or move it away to begin a new journal
        ");
    let text = fs::read_to_string(workspace.path(".dalsegno/dalsegno.db")).unwrap();
    assert!(text.starts_with("these are my notes"), "the file was changed");
}

#[cfg(unix)]
mod permissions {
    use std::fs::{self, File, Permissions};
    use std::io::ErrorKind;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use crate::support::{DALSEGNO, Workspace, photograph};

    /// Runs the command in folders that may not be written; a test that runs as root becomes nobody first.
    fn dalsegno_read_only(workspace: &Workspace, args: &[&str]) -> String {
        let root = workspace.path("");
        let tools = tempfile::tempdir().unwrap();
        let dalsegno = tools.path().join("dalsegno");
        fs::copy(DALSEGNO, &dalsegno).unwrap();
        let folders = [root.clone(), root.join(".dalsegno")];
        for folder in folders.iter().filter(|folder| folder.exists()) {
            fs::set_permissions(folder, Permissions::from_mode(0o555)).unwrap();
        }
        fs::set_permissions(tools.path(), Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new(&dalsegno);
        command.args(args).current_dir(&root).env_clear();
        if File::create(root.join("probe")).is_ok() {
            command.uid(65534).gid(65534);
        }
        // A process that another test starts meanwhile holds the copy open for a moment.
        let output = loop {
            match command.output() {
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                output => break output.unwrap(),
            }
        };
        for folder in folders.iter().filter(|folder| folder.exists()) {
            fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
        }
        workspace.shown(&output)
    }

    #[test]
    fn a_workspace_that_may_not_be_written_is_told() {
        photograph!(dalsegno_read_only(&Workspace::plain(), &["run", "note", "hello"]), @r"
            exit code: 1
            --- stdout
            --- stderr
            error: cannot create the folder `[WORKSPACE]/.dalsegno`: Permission denied (os error 13)
              help: give this user the right to write there, or set `store.path` in dalsegno.toml
            ");
    }

    #[test]
    fn a_disk_that_may_not_be_written_is_not_measured() {
        photograph!(dalsegno_read_only(&Workspace::plain(), &["bench"]), @r"
            exit code: 1
            --- stdout
            --- stderr
            error: cannot measure in `[WORKSPACE]/.dalsegno`: Permission denied (os error 13)
              help: name a workspace on the disk to measure that this user may write: `--workspace DIR`
            ");
        photograph!(dalsegno_read_only(&Workspace::empty(), &["bench"]), @r"
            exit code: 1
            --- stdout
            --- stderr
            error: cannot measure in `[WORKSPACE]`: Permission denied (os error 13)
              help: name a workspace on the disk to measure that this user may write: `--workspace DIR`
            ");
    }

    #[test]
    fn a_journal_that_may_not_be_written_is_told() {
        let workspace = Workspace::plain();
        workspace.succeed(&["run", "note", "hello"]);
        fs::set_permissions(workspace.path(".dalsegno/dalsegno.db"), Permissions::from_mode(0o444)).unwrap();
        photograph!(dalsegno_read_only(&workspace, &["run", "note", "hello"]), @r"
            exit code: 1
            --- stdout
            --- stderr
            error: the journal `[WORKSPACE]/.dalsegno/dalsegno.db` is read-only: give this user the right to write it and its folder
            ");
    }

    #[test]
    fn a_journal_that_may_not_be_written_can_be_read() {
        let workspace = Workspace::plain();
        workspace.succeed(&["run", "note", "hello"]);
        for name in ["dalsegno.db", "memory.db"] {
            fs::set_permissions(workspace.path(".dalsegno").join(name), Permissions::from_mode(0o444))
                .unwrap();
        }
        for args in
            [&["runs"][..], &["show", "last"], &["replay", "last"], &["export", "last", "-"], &["doctor"]]
        {
            let shown = dalsegno_read_only(&workspace, args);
            assert!(shown.starts_with("exit code: 0"), "{args:?}: {shown}");
        }
        let refused = dalsegno_read_only(&workspace, &["erase", "last", "--yes"]);
        assert!(refused.contains("read-only"), "{refused}");
        // Commits that stand in the log alone are not left out without a word.
        fs::write(workspace.path(".dalsegno/dalsegno.db-wal"), "a log").unwrap();
        fs::set_permissions(workspace.path(".dalsegno/dalsegno.db-wal"), Permissions::from_mode(0o444))
            .unwrap();
        let told = dalsegno_read_only(&workspace, &["runs"]);
        assert!(told.contains("dalsegno.db-wal`, which can be read only in a writable folder"), "{told}");
    }
}
