//! Arguments of dot commands: words between blanks, in quotes where they hold some.

use pelton_error::{Error, Result};

/// The words of `line`; quotes of either kind keep blanks, and a doubled quote is one.
///
/// # Errors
///
/// Of a quote that is not closed.
pub(super) fn split(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut chars = line.chars().peekable();
    while chars.peek().is_some() {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let mut word = None::<String>;
        while let Some(c) = chars.next_if(|c| !c.is_whitespace()) {
            let word = word.get_or_insert_default();
            if c != '\'' && c != '"' {
                word.push(c);
                continue;
            }
            loop {
                match chars.next() {
                    None => {
                        return Err(Error::invalid_input(format!("the quote {c} is not closed in: {line}")));
                    }
                    Some(next) if next != c => word.push(next),
                    Some(_) if chars.next_if_eq(&c).is_some() => word.push(c),
                    Some(_) => break,
                }
            }
        }
        words.extend(word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn quotes_keep_blanks_together() {
        let words = |line: &str| split(line).unwrap();
        assert_eq!(words("  a b  "), ["a", "b"]);
        assert_eq!(words("'a b' \"c\"\"d\" e'f g'"), ["a b", "c\"d", "ef g"]);
        assert_eq!(words("''"), [""]);
        assert_eq!(words(""), [""; 0]);
        assert!(split("a 'b").unwrap_err().to_string().contains("not closed"));
    }
}
