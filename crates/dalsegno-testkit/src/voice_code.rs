//! Speech that is a code: loud sound of a telephone, in which every character has its own level, so that what was said can be read of
//! what was heard, sample by sample.

/// Silence, as telephones carry it.
pub(crate) const SILENCE: u8 = 0xff;

/// How many samples telephones carry in a millisecond.
pub(crate) const A_MS: usize = 8;

/// The speech of a text, so many milliseconds for each character.
pub(crate) fn speech(text: &str, ms: usize) -> Vec<u8> {
    text.bytes().filter(|byte| (0x20..0x7f).contains(byte)).flatten_each(ms * A_MS)
}

trait FlattenEach {
    fn flatten_each(self, times: usize) -> Vec<u8>;
}

impl<I: Iterator<Item = u8>> FlattenEach for I {
    fn flatten_each(self, times: usize) -> Vec<u8> {
        self.flat_map(|byte| std::iter::repeat_n(byte - 0x20, times)).collect()
    }
}

/// The text of speech; what is no speech is not in it. A character of which less than half was heard is none.
pub(crate) fn text(sound: &[u8], ms: usize) -> String {
    let length = ms * A_MS;
    let mut text = String::new();
    let mut run: Option<(u8, usize)> = None;
    let mut end = |run: Option<(u8, usize)>| {
        if let Some((byte, times)) = run.filter(|(byte, _)| *byte < 0x5f) {
            for _ in 0..(times + length / 2) / length {
                text.push(char::from(byte + 0x20));
            }
        }
    };
    for byte in sound {
        match &mut run {
            Some((of, times)) if of == byte => *times += 1,
            _ => {
                end(run);
                run = Some((*byte, 1));
            }
        }
    }
    end(run);
    text
}

/// How loud a sample is, of 32,767.
fn loudness(sample: u8) -> u32 {
    let sample = !sample;
    let (exponent, mantissa) = (u32::from(sample >> 4) & 7, u32::from(sample & 15));
    ((mantissa * 8 + 132) << exponent) - 132
}

/// Says whether a piece of sound is speech: by its energy.
pub(crate) fn is_speech(sound: &[u8]) -> bool {
    let sum: u32 = sound.iter().map(|sample| loudness(*sample)).sum();
    let length = u32::try_from(sound.len().max(1)).unwrap_or(u32::MAX);
    sum / length > 200
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_read_of_what_was_heard() {
        let mut sound = vec![SILENCE; 100];
        sound.extend(speech("A table for two, please.", 10));
        sound.extend(vec![SILENCE; 300]);
        sound.extend(speech("Yes!", 10));
        assert_eq!(text(&sound, 10), "A table for two, please.Yes!");
        assert!(is_speech(&speech("zzz~", 10)) && !is_speech(&[SILENCE; 160]));
    }
}
