//! What is taken out of texts is what DataFusion makes of them; what is not understood is left.

use datafusion::arrow::array::{LargeStringArray, StringArray, StringViewArray};
use datafusion::common::ScalarValue;
use datafusion::functions::regex::regexp_replace;
use datafusion::logical_expr::ScalarFunctionArgs;

use super::*;

/// Patterns that take a part out, and pieces to make texts of that nearly match them.
const TAKEN: [(&str, &[&str]); 10] = [
    (r"^https?://(?:www\.)?([^/]+)/.*$", &["http", "s", "://", "www.", "a.b", "/", "é", "\n", "/"]),
    (r"^(a?)(?:ab)?b*$", &["a", "b", "ab", "é", ""]),
    (r"^([^a]*)a?(?:ab)?$", &["a", "b", "ab", "é", "\n"]),
    (r"^x*(y*)z+$", &["x", "y", "z", "xy", "é"]),
    (r"^(.*)$", &["a", "\n", "é", "\r", ""]),
    (r"^(?s)(.*)$", &["a", "\n", "é", "\r", ""]),
    (r"^é?(日本)[0-9a-f]*$", &["é", "日本", "日", "0", "f", "g"]),
    (r"^a?b?(c?)d?$", &["a", "b", "c", "d", "é"]),
    (r"^()[^\x00]+$", &["\0", "a", "é"]),
    (r"^(?:ab)?a?(?:ba)?([ab]+)$", &["a", "b", "ab", "ba"]),
];

/// Those that do something else, or are not understood.
const LEFT: [&str; 22] = [
    r"^([^/]+)/.*",
    r"([^/]+)/.*$",
    r"^([^/]+?)/.*$",
    r"^([^/]+)[/a].*$",
    r"^([^/]+)a.*$",
    r"^(a|b)c$",
    r"^(a)(b)$",
    r"^(?:(a))?b$",
    r"^(a){2}$",
    r"^([^/]{2,})/$",
    r"(?m)^(a)$",
    r"(?i)^(http)x*$",
    r"^([é]+)$",
    r"^([^é]+)$",
    r"^(\w+)$",
    r"^\b(a)$",
    r"^a$",
    r"^(.*)(?:b)?$(",
    r"^(a*)[ab]*$",
    r"^(é+)$",
    r"^(a*?)b$",
    "",
];

/// All texts of up to `length_max` pieces.
fn texts_of(pieces: &[&str], length_max: usize) -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut last = texts.clone();
    for _ in 0..length_max {
        let more = |text: &String| pieces.iter().map(|piece| format!("{text}{piece}")).collect::<Vec<_>>();
        last = last.iter().flat_map(more).collect();
        texts.extend(last.iter().cloned());
    }
    texts.sort();
    texts.dedup();
    texts
}

/// What DataFusion makes of `texts`, through its general way where `texts` are as long as their patterns.
fn by_datafusion(texts: &ArrayRef, pattern: &str, replacement: &str) -> ArrayRef {
    let text = |text: &str| ColumnarValue::Scalar(ScalarValue::Utf8View(Some(text.into())));
    let args = vec![ColumnarValue::Array(Arc::clone(texts)), text(pattern), text(replacement)];
    let field = |data_type: &DataType| {
        Arc::new(datafusion::arrow::datatypes::Field::new("text", data_type.clone(), true))
    };
    let args = ScalarFunctionArgs {
        arg_fields: args.iter().map(|arg| field(&arg.data_type())).collect(),
        number_rows: texts.len(),
        return_field: field(texts.data_type()),
        config_options: Arc::default(),
        args,
    };
    regexp_replace().invoke_with_args(args).unwrap().into_array(texts.len()).unwrap()
}

#[test]
fn parts_are_what_datafusion_replaces_texts_by() {
    for (pattern, pieces) in TAKEN {
        let all = texts_of(pieces, if pieces.len() > 6 { 5 } else { 6 });
        let texts: Vec<Option<&str>> =
            all.iter().enumerate().map(|(row, text)| (row % 97 != 5).then_some(text.as_str())).collect();
        for replacement in [r"\1", r"\\1", "$1", "${1}"] {
            let extract =
                pattern_of(pattern, replacement).unwrap_or_else(|| panic!("{pattern} is not taken"));
            let views: ArrayRef = Arc::new(StringViewArray::from(texts.clone()));
            let expected = by_datafusion(&views, pattern, replacement);
            assert_eq!(&parts_of(&views, &extract).unwrap(), &expected, "{pattern}");
        }
    }
}

#[test]
fn arrays_with_offsets_are_taken_from_and_others_are_left() {
    let extract = pattern_of(r"^(a*)b$", r"\1").unwrap();
    let texts = vec![Some("aab"), None, Some(""), Some("aa"), Some("b")];
    let plain: ArrayRef = Arc::new(StringArray::from(texts.clone()));
    let expected: ArrayRef = Arc::new(StringArray::from(vec![None, Some(""), Some("aa"), Some("")]));
    assert_eq!(&parts_of(&plain.slice(1, 4), &extract).unwrap(), &expected);
    let large: ArrayRef = Arc::new(LargeStringArray::from(texts));
    assert!(parts_of(&large, &extract).is_none());
}

#[test]
fn patterns_that_do_something_else_are_left() {
    for pattern in LEFT {
        assert!(pattern_of(pattern, r"\1").is_none(), "{pattern}");
    }
    for replacement in ["", "1", r"\0", r"\2", r"\1 ", r"a\1", "$0", "$1a"] {
        assert!(pattern_of(r"^(a*)b$", replacement).is_none(), "{replacement}");
    }
}

#[test]
fn what_has_flags_or_is_of_one_text_is_left_and_patterns_are_read_once() {
    let text = |text: &str| ColumnarValue::Scalar(ScalarValue::Utf8(Some(text.into())));
    let texts = || ColumnarValue::Array(Arc::new(StringViewArray::from(vec!["aab", "c"])));
    let function = regexp_replace();
    let (pattern, replacement) = (text(r"^(a*)b$"), text(r"\1"));
    let args = [texts(), pattern.clone(), replacement.clone()];
    let parts = of_args(&function, &args).unwrap().into_array(2).unwrap();
    assert_eq!(parts.as_string_view().iter().collect::<Vec<_>>(), [Some("aa"), Some("c")]);
    assert!(of_args(&function, &[texts(), pattern.clone(), replacement.clone(), text("i")]).is_none());
    assert!(of_args(&function, &[text("aab"), pattern.clone(), replacement.clone()]).is_none());
    let null = ColumnarValue::Scalar(ScalarValue::Utf8(None));
    assert!(of_args(&function, &[texts(), null, replacement]).is_none());
    for number in 0..3 * KEPT_MAX {
        assert!(pattern_of(&format!("^(a*)b{number}$"), r"\1").is_some());
    }
    let first = pattern_of(r"^(a*)b7$", r"\1").unwrap();
    assert!(Arc::ptr_eq(&first, &pattern_of(r"^(a*)b7$", r"\1").unwrap()));
}
