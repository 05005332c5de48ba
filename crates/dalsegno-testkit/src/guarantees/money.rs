//! What tenants, and the workspace as a whole, may spend on the model in a day.

use std::collections::{BTreeMap, BTreeSet};

use dalsegno_store::Allowance;

use super::Guarantees;
use crate::process::Process;
use crate::workspace::Money;

/// The account of all tenants together.
const WORKSPACE: &str = "*";

/// What was set aside and spent, reckoned apart from the journal.
#[derive(Default)]
pub(super) struct Ledger {
    /// By account and day.
    sums: BTreeMap<(String, String), u64>,
    /// What was set aside and no call has used yet, by process and account.
    unused: BTreeMap<(u32, String), u32>,
    /// What the model's work has cost, by account.
    cost: BTreeMap<String, u64>,
    /// Accounts and days on which a call had no room.
    exhausted: BTreeSet<(String, String)>,
}

impl Guarantees {
    /// An engine sets something aside, at this time of day in milliseconds: for whom, for which day, and up to what.
    pub(crate) fn reserves(&mut self, allowances: &[Allowance], shown: u64) {
        for allowance in allowances {
            let Allowance { account, day, most_nano_usd } = allowance;
            let Some(money) = self.money(account).cloned() else {
                self.broken(format!("`{account}` has no budget, and something is set aside of it"));
                continue;
            };
            let today = day_of(shown, money.utc_offset_hours);
            if *day != today {
                self.broken(format!(
                    "something is set aside of `{account}` for {day}, and it is {today} there"
                ));
            }
            if *most_nano_usd != money.most_nano_usd {
                self.broken(format!("the budget of `{account}` is said to be {most_nano_usd}"));
            }
        }
    }

    /// Something is set aside. The engine knows of it if it is `told`.
    pub(crate) fn reserved(
        &mut self,
        process: &Process,
        allowances: &[Allowance],
        nano_usd: u64,
        told: bool,
    ) {
        let mut wrong = Vec::new();
        for Allowance { account, day, most_nano_usd } in allowances {
            let key = (account.clone(), day.clone());
            let sum = self.ledger.sums.entry(key.clone()).or_default();
            *sum += nano_usd;
            if *sum > *most_nano_usd {
                wrong.push(format!("`{account}` spends {sum} on {day}, and may spend {most_nano_usd}"));
            }
            self.coverage.count("budget", "set aside");
            if self.ledger.exhausted.iter().any(|(before, on)| before == account && on < day) {
                self.coverage.count("budget", "renewed");
            }
        }
        if let Some(first) = allowances.first().filter(|_| told) {
            *self.ledger.unused.entry((process.number, first.account.clone())).or_default() += 1;
        }
        self.violations.extend(wrong);
    }

    /// Nothing could be set aside, since one of the allowances has no room.
    pub(crate) fn has_no_room(&mut self, allowances: &[Allowance], index: usize, nano_usd: u64) {
        let Some(Allowance { account, day, most_nano_usd }) = allowances.get(index) else {
            return self.broken("none of the allowances has no room".into());
        };
        self.coverage.count("budget", "exhausted");
        let key = (account.clone(), day.clone());
        let sum = self.ledger.sums.get(&key).copied().unwrap_or_default();
        self.ledger.exhausted.insert(key);
        if sum + nano_usd <= *most_nano_usd {
            self.broken(format!(
                "`{account}` is said to have no room on {day} after {sum} of {most_nano_usd}"
            ));
        }
    }

    /// What was set aside is replaced by what was spent.
    pub(crate) fn settled(&mut self, allowances: &[Allowance], reserved: u64, spent: u64) {
        if spent > reserved {
            self.broken(format!("a call costs {spent}, and {reserved} were set aside for it"));
        }
        self.coverage.count("budget", if spent == 0 { "given back" } else { "spent" });
        for Allowance { account, day, .. } in allowances {
            let sum = self.ledger.sums.entry((account.clone(), day.clone())).or_default();
            *sum = sum.saturating_sub(reserved) + spent;
        }
    }

    /// The model is asked on behalf of a tenant: something must be set aside for that.
    pub(super) fn pays(&mut self, process: u32, tenant: &str) {
        let Some(first) = [tenant, WORKSPACE].into_iter().find(|account| self.money(account).is_some())
        else {
            return;
        };
        match self.ledger.unused.get_mut(&(process, first.to_owned())) {
            Some(unused) if *unused > 0 => *unused -= 1,
            _ => self.broken(format!("the model is asked for {tenant}, and nothing is set aside for that")),
        }
    }

    /// The model has worked for a tenant, whether or not its reply arrives.
    pub(crate) fn costs(&mut self, tenant: &str, nano_usd: u64) {
        for account in [tenant, WORKSPACE] {
            *self.ledger.cost.entry(account.to_owned()).or_default() += nano_usd;
        }
    }

    /// All accounts and days, with what is spent and set aside.
    pub(crate) fn accounts(&self) -> Vec<(String, String, u64)> {
        let sums = self.ledger.sums.iter();
        sums.map(|((account, day), sum)| (account.clone(), day.clone(), *sum)).collect()
    }

    /// Everything is over: what the model's work has cost is spent.
    pub(super) fn close_accounts(&mut self) {
        let budgets: Vec<String> = self.budgets.keys().cloned().collect();
        for account in budgets {
            let sums = self.ledger.sums.iter().filter(|((other, _), _)| *other == account);
            let spent: u64 = sums.map(|(_, sum)| sum).sum();
            let cost = self.ledger.cost.get(&account).copied().unwrap_or_default();
            if spent < cost {
                self.broken(format!(
                    "the model's work for `{account}` cost {cost}, and {spent} are written down"
                ));
            }
        }
    }

    fn money(&self, account: &str) -> Option<&Money> {
        self.budgets.get(account)
    }
}

/// The date at a time, in a zone that is always so many hours from UTC.
fn day_of(shown_ms: u64, utc_offset_hours: i8) -> String {
    let at = jiff::Timestamp::from_millisecond(i64::try_from(shown_ms).unwrap_or(i64::MAX));
    let at = at.expect("simulated times are not far from today");
    jiff::tz::Offset::constant(utc_offset_hours).to_datetime(at).date().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_midnight_of_the_zone() {
        // 2026-11-22, at midnight in UTC.
        let midnight = 1_795_305_600_000;
        assert_eq!(day_of(midnight, 0), "2026-11-22");
        assert_eq!(day_of(midnight - 1, 0), "2026-11-21");
        assert_eq!(day_of(midnight, -1), "2026-11-21");
        assert_eq!(day_of(midnight + 15 * 3_600_000, 9), "2026-11-23");
        // 2028-02-29 and the day after.
        assert_eq!(day_of(1_835_395_200_000, 0), "2028-02-29");
        assert_eq!(day_of(1_835_481_600_000, 0), "2028-03-01");
        assert_eq!(day_of(0, 0), "1970-01-01");
    }
}
