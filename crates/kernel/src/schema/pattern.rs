//! The cost of a regular expression.
//!
//! The engine takes time in proportion to the text times the size of the expression with its repetitions written out.
//! That size is estimated from the source, always upwards, because it must not depend on a library's version.

/// A Unicode class is some hundred ranges.
const CLASS_WEIGHT: u64 = 64;

/// The size of an expression with its repetitions written out.
pub(super) fn weight(source: &str) -> u64 {
    let mut groups = vec![Sum::default()];
    let mut chars = source.chars().peekable();
    while let Some(char) = chars.next() {
        let is_nested = groups.len() > 1;
        let Some(group) = groups.last_mut() else { return u64::MAX };
        match char {
            '\\' => {
                let weight = match chars.next() {
                    Some('d' | 'D' | 'w' | 'W' | 's' | 'S' | 'p' | 'P') => CLASS_WEIGHT,
                    _ => 1,
                };
                group.push(weight);
            }
            '[' => {
                let mut weight = 1_u64;
                let mut first = true;
                while let Some(char) = chars.next() {
                    match char {
                        ']' if !first => break,
                        '\\' => {
                            chars.next();
                            weight = weight.saturating_add(CLASS_WEIGHT);
                        }
                        _ => weight = weight.saturating_add(1),
                    }
                    first = false;
                }
                group.push(weight);
            }
            '(' => groups.push(Sum::default()),
            ')' if is_nested => {
                let inner = groups.pop().map_or(0, |group| group.total()).saturating_add(1);
                if let Some(group) = groups.last_mut() {
                    group.push(inner);
                }
            }
            '{' => {
                let mut most = 0_u64;
                let mut number = None::<u64>;
                for char in chars.by_ref() {
                    match (char, char.to_digit(10)) {
                        (_, Some(digit)) => {
                            number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(digit.into()));
                        }
                        _ => most = most.max(number.take().unwrap_or(0)),
                    }
                    if char == '}' {
                        break;
                    }
                }
                group.repeat(most.max(number.unwrap_or(0)).max(1));
            }
            '.' => group.push(CLASS_WEIGHT),
            _ => group.push(1),
        }
    }
    // Groups that are never closed are no expression; they count all the same.
    groups.into_iter().fold(1, |sum, group| sum.saturating_add(group.total()))
}

/// The weights of a sequence, and of its last item, which a repetition multiplies.
#[derive(Default)]
struct Sum {
    before: u64,
    last: u64,
}

impl Sum {
    fn push(&mut self, weight: u64) {
        self.before = self.total();
        self.last = weight;
    }

    fn repeat(&mut self, times: u64) {
        self.last = self.last.saturating_mul(times);
    }

    fn total(&self) -> u64 {
        self.before.saturating_add(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_multiply_and_sequences_add() {
        assert!(weight("abc") < 8);
        assert!(weight("a{1000}") >= 1_000);
        assert!(weight("(a{100}){100}") >= 10_000);
        assert!(weight("(((a{100}){100}){100}){100}") >= 100_000_000);
        assert!(weight("[a-z]{2,50}") >= 100 && weight("[a-z]{2,50}") < 1_000);
        assert!(weight(r"\p{L}{1000}") >= 1_000 * CLASS_WEIGHT);
        assert!(weight("(a{0,99999999999999999999999}){9999999999999999999}") == u64::MAX);
    }
}
