//! BM25 over exactly what a search may read.
//!
//! SQLite's own `bm25()` weighs words by how often they occur in the whole file, so that other tenants
//! would shift the scores, and with them the choice of the best. Here the numbers of the readable scopes go
//! in and nothing else.

/// How fast a word that is repeated stops to count.
const K1: f64 = 1.2;

/// How much the length of an observation counts against it.
const B: f64 = 0.75;

/// How often one word of the query occurs in one observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Posting {
    /// The row of the observation.
    pub(super) observation: i64,
    /// The word's place in the query.
    pub(super) word: usize,
    /// How often it occurs.
    pub(super) count: u32,
}

/// Scores observations for one query.
#[derive(Debug)]
pub(super) struct Ranker {
    /// The weight of each word of the query: the rarer, the heavier.
    weights: Vec<f64>,
    /// The sum of the weights.
    total: f64,
    /// The average number of words of an observation.
    average: f64,
}

impl Ranker {
    /// Takes the size of what is searched and in how many observations each word of the query occurs.
    pub(super) fn new(observations: u64, words: u64, frequencies: &[u64]) -> Self {
        let weights: Vec<f64> = frequencies
            .iter()
            .map(|frequency| {
                let (all, with) = (observations as f64, *frequency as f64);
                (1.0 + ((all - with).max(0.0) + 0.5) / (with + 0.5)).ln()
            })
            .collect();
        let total = weights.iter().sum();
        Self { weights, total, average: words as f64 / observations as f64 }
    }

    /// The share of the query's weight that an observation with these words and this length earns, 0 to 1.
    pub(super) fn share(&self, postings: &[Posting], length: u64) -> f64 {
        self.earned(postings, 1.0 - B + B * length as f64 / self.average)
    }

    /// A share that no length exceeds.
    pub(super) fn share_at_most(&self, postings: &[Posting]) -> f64 {
        self.earned(postings, 1.0 - B)
    }

    /// BM25 as the textbooks write it.
    pub(super) fn bm25(&self, share: f64) -> f64 {
        share * self.total * (K1 + 1.0)
    }

    fn earned(&self, postings: &[Posting], length_factor: f64) -> f64 {
        let earned: f64 = postings
            .iter()
            .map(|posting| {
                let count = f64::from(posting.count);
                self.weights[posting.word] * count / (count + K1 * length_factor)
            })
            .sum();
        earned / self.total
    }
}

/// The score that is shown for a share.
pub(super) fn score(share: f64) -> f64 {
    share.sqrt()
}

#[cfg(test)]
mod tests {
    use super::{Posting, Ranker, score};

    fn posting(word: usize, count: u32) -> Posting {
        Posting { observation: 1, word, count }
    }

    #[test]
    fn bm25_is_the_textbook_sum() {
        let ranker = Ranker::new(10, 100, &[1, 4]);
        let share = ranker.share(&[posting(0, 1), posting(1, 3)], 20);
        let (rare, common) = ((1.0 + 9.5 / 1.5_f64).ln(), (1.0 + 6.5 / 4.5_f64).ln());
        let factor = 1.2 * (0.25 + 0.75 * 2.0);
        let expected = rare * 2.2 / (1.0 + factor) + common * 3.0 * 2.2 / (3.0 + factor);
        assert!((ranker.bm25(share) - expected).abs() < 1e-12);
    }

    #[test]
    fn all_words_once_at_average_length_score_the_same_in_every_scope() {
        for (observations, frequencies) in [(3, [1, 2]), (100_000, [7, 90_000])] {
            let ranker = Ranker::new(observations, observations * 12, &frequencies);
            let shown = score(ranker.share(&[posting(0, 1), posting(1, 1)], 12));
            assert!((shown - 0.674_199_862).abs() < 1e-9, "{shown}");
        }
    }

    #[test]
    fn no_length_earns_more_than_the_bound() {
        let ranker = Ranker::new(50, 600, &[3]);
        for length in [1, 5, 12, 4_000] {
            let postings = [posting(0, 2)];
            assert!(ranker.share(&postings, length) < ranker.share_at_most(&postings));
        }
    }
}
