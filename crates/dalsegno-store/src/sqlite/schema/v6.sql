-- Version 6: what each account has spent or reserved on a day, in billionths of a US dollar, for budgets.
CREATE TABLE spending (
    account TEXT NOT NULL,
    day TEXT NOT NULL,
    nano_usd INTEGER NOT NULL,
    PRIMARY KEY (account, day)
) STRICT, WITHOUT ROWID;
