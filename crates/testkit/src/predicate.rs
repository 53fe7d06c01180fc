//! Random WHERE clauses over the columns of [`crate::schema`].

use crate::random::Random;

/// A predicate as SQL text, up to three levels of AND, OR and NOT deep.
pub fn random_predicate(random: &mut Random) -> String {
    tree(random, 3)
}

fn tree(random: &mut Random, depth: u32) -> String {
    if depth == 0 || random.one_in(3) {
        return leaf(random);
    }
    let (a, b) = (tree(random, depth - 1), tree(random, depth - 1));
    match random.below(4) {
        0 => format!("({a} OR {b})"),
        1 => format!("NOT ({a})"),
        _ => format!("({a} AND {b})"),
    }
}

fn leaf(random: &mut Random) -> String {
    let integers = ["id", "tiny", "small", "int", "big", "utiny", "usmall", "uint", "ubig"];
    match random.below(12) {
        0..=3 => {
            let column = random.pick(&integers).to_string();
            number_test(&column, random)
        }
        4 => {
            let column = random.pick(&["single", "double"]).to_string();
            let op = comparison(random);
            let value =
                random.pick(&["0.0", "12.5", "-299.99", "1e300", "CAST('NaN' AS DOUBLE)"]).to_string();
            format!("{column} {op} {value}")
        }
        5 => format!(
            "price {} {}.{:02}",
            comparison(random),
            random.below(2000) as i64 - 1000,
            random.below(100)
        ),
        6 => format!("huge {} {}", comparison(random), random.below(1_000_000)),
        7 => format!("day {} DATE '{}-06-15'", comparison(random), 1930 + random.below(140)),
        8 => {
            let column = random.pick(&["at", "at_utc"]).to_string();
            format!("{column} {} TIMESTAMP '{}-01-01T00:00:00'", comparison(random), 1900 + random.below(180))
        }
        9 => text_test(random),
        10 => {
            if random.one_in(2) {
                "flag".into()
            } else {
                "NOT flag".into()
            }
        }
        _ => {
            let column =
                random.pick(&["int", "word", "double", "price", "flag", "bytes", "huge"]).to_string();
            format!("{column} IS {}NULL", if random.one_in(2) { "" } else { "NOT " })
        }
    }
}

fn number_test(column: &str, random: &mut Random) -> String {
    let mut value = || random.below(1200) as i64 - 600;
    let (a, b) = (value(), value());
    match random.below(4) {
        0 => format!("{column} IN ({a}, {b}, 7)"),
        1 => format!("{column} BETWEEN {} AND {}", a.min(b), a.max(b)),
        _ => format!("{column} {} {a}", comparison(random)),
    }
}

fn text_test(random: &mut Random) -> String {
    let column = random.pick(&["word", "text"]).to_string();
    let value = random.pick(&["ASIA", "", "EUROPE", "a long", "Ägypten", "quickly", "zz", "x"]).to_string();
    match random.below(4) {
        0 => {
            let not = if random.one_in(3) { "NOT " } else { "" };
            let rest = random.pick(&["%", "%", "%a%", "_", "", "\\_%"]).to_string();
            format!("{column} {not}LIKE '{value}{rest}'")
        }
        1 => format!("{column} IN ('{value}', 'z')"),
        2 => format!("{column} NOT IN ('{value}', 'AMERICA')"),
        _ => format!("{column} {} '{value}'", comparison(random)),
    }
}

fn comparison(random: &mut Random) -> &'static str {
    const OPERATORS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];
    OPERATORS[random.below(6) as usize]
}
