//! Numbers from which runs are made up: for each outcome a list of its own, so that outcomes can be left out one by one.

/// The numbers of a run. When they are used up, all further ones are 0, and 0 is always the simplest choice.
#[derive(Debug, Clone)]
pub(crate) struct Draws<'d> {
    outcomes: std::slice::Iter<'d, Vec<u64>>,
}

/// The numbers of an outcome.
#[derive(Debug)]
pub(crate) struct Draw<'d>(std::slice::Iter<'d, u64>);

impl<'d> Draws<'d> {
    pub(crate) fn new(numbers: &'d [Vec<u64>]) -> Self {
        Self { outcomes: numbers.iter() }
    }

    /// The numbers of the next outcome.
    pub(crate) fn next(&mut self) -> Draw<'d> {
        Draw(self.outcomes.next().map_or([].iter(), |numbers| numbers.iter()))
    }
}

impl Draw<'_> {
    /// A number below this one, which is at least 1. A smaller number drawn gives one that is not larger.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let drawn = self.0.next().copied().unwrap_or_default();
        // The upper half of a product of two numbers of 64 bits is below the second.
        let scaled = (u128::from(drawn) * end as u128) >> 64;
        usize::try_from(scaled).unwrap_or_default()
    }

    /// One of these; the first is the simplest.
    pub(crate) fn of<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        let number = self.below(choices.len().max(1));
        choices.get(number)
    }

    /// `true` in one of so many cases.
    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == count - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_is_the_simplest_and_choices_grow_with_their_numbers() {
        let numbers = vec![vec![0, u64::MAX, u64::MAX / 2 + 1], vec![]];
        let mut draws = Draws::new(&numbers);
        let mut first = draws.next();
        assert_eq!([first.below(10), first.below(10), first.below(10), first.below(10)], [0, 9, 5, 0]);
        assert_eq!(draws.next().of(&["a", "b"]), Some(&"a"));
        assert!(!draws.next().one_in(2) && draws.next().of::<u8>(&[]).is_none());
    }
}
